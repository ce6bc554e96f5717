package gossip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
)

// A frame is a length of 4 bytes, big-endian, and so many bytes.
const (
	frameHeader = 4
	minRate     = 64 << 10 // bytes a second that a transfer must reach on average
	growStep    = 64 << 10
)

// errAbuse marks what no honest peer does.
var errAbuse = errors.New("peer broke the protocol")

// transferTime is how long n bytes may take.
func transferTime(base time.Duration, n int) time.Duration {
	return base + time.Duration(n)*time.Second/minRate
}

// appendFrame appends b as a frame.
func appendFrame(dst, b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(b))), b...)
}

// writeFrame sends b in one write.
func writeFrame(s network.Stream, b []byte, base time.Duration) error {
	if err := s.SetWriteDeadline(time.Now().Add(transferTime(base, len(b)))); err != nil {
		return err
	}
	_, err := s.Write(appendFrame(make([]byte, 0, frameHeader+len(b)), b))
	return err
}

// readFrame reads a frame of at most limit bytes: idle is the wait for its
// first bytes, base the time of the rest beside its length. Memory is reserved
// from the stream's scope and released by the returned function.
func readFrame(s network.Stream, limit int, idle, base time.Duration) (b []byte, release func(), err error) {
	if err := s.SetReadDeadline(time.Now().Add(idle)); err != nil {
		return nil, nil, err
	}
	var h [frameHeader]byte
	if _, err := io.ReadFull(s, h[:1]); err != nil {
		return nil, nil, err // io.EOF between frames is the peer's good-bye
	}
	if err := s.SetReadDeadline(time.Now().Add(base)); err != nil {
		return nil, nil, err
	}
	if _, err := io.ReadFull(s, h[1:]); err != nil {
		return nil, nil, fmt.Errorf("read length: %w", noEOF(err))
	}
	n := binary.BigEndian.Uint32(h[:])
	if uint64(n) > uint64(limit) {
		return nil, nil, fmt.Errorf("frame of %d bytes, limit %d: %w", n, limit, errAbuse)
	}
	b, release, err = readBody(s, int(n), base)
	if err != nil {
		return nil, nil, fmt.Errorf("read frame of %d bytes: %w", n, err)
	}
	return b, release, nil
}

// readBody reads n bytes. The slice grows with what has arrived, so a claim
// alone costs nothing.
func readBody(s network.Stream, n int, base time.Duration) (b []byte, release func(), err error) {
	if err := s.Scope().ReserveMemory(n, network.ReservationPriorityAlways); err != nil {
		return nil, nil, err
	}
	release = func() { s.Scope().ReleaseMemory(n) }
	if err := s.SetReadDeadline(time.Now().Add(transferTime(base, n))); err != nil {
		release()
		return nil, nil, err
	}
	b, err = readGrowing(s, n)
	if err != nil {
		release()
		return nil, nil, err
	}
	return b, release, nil
}

func readGrowing(r io.Reader, n int) ([]byte, error) {
	b := make([]byte, 0, min(n, growStep))
	for len(b) < n {
		step := min(n-len(b), max(len(b), growStep))
		b = slices.Grow(b, step)
		got, err := io.ReadFull(r, b[len(b):len(b)+step])
		b = b[:len(b)+got]
		if err != nil {
			return nil, noEOF(err)
		}
	}
	return b, nil
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
