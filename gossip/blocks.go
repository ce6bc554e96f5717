package gossip

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/apiary-net/hived/wire"
)

// A request on ProtoBlocks is a frame of 1 to fetchWindow binary CIDs; more
// requests may follow on the stream before the first is answered. The answers
// are frames in the order asked: a status byte, and the block if it is zero.
const cidBytes = 36

const blocksIdle = 30 * time.Second

func parseWant(b []byte) ([]wire.CID, error) {
	if len(b) == 0 || len(b)%cidBytes != 0 || len(b) > fetchWindow*cidBytes {
		return nil, fmt.Errorf("request of %d bytes, want 1 to %d times %d: %w", len(b), fetchWindow, cidBytes, errAbuse)
	}
	var ids []wire.CID
	for ; len(b) > 0; b = b[cidBytes:] {
		id, err := wire.CIDFromBytes(b[:cidBytes])
		if err != nil {
			return nil, errors.Join(err, errAbuse)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func encodeWant(ids []wire.CID) []byte {
	b := make([]byte, 0, len(ids)*cidBytes)
	for _, id := range ids {
		b = append(b, id.Bytes()...)
	}
	return b
}

// serveBlocks answers requests until the asker closes or is silent.
func (n *Node) serveBlocks(from wire.PeerID, s network.Stream) error {
	for {
		b, release, err := readFrame(s, fetchWindow*cidBytes, blocksIdle, n.cfg.StreamTimeout)
		if err != nil {
			return err
		}
		ids, err := parseWant(b)
		release()
		if err != nil {
			return err
		}
		for _, id := range ids {
			if err := n.answerBlock(from, s, id); err != nil {
				return fmt.Errorf("answer %s: %w", id, err)
			}
		}
	}
}

func (n *Node) answerBlock(from wire.PeerID, s network.Stream, id wire.CID) error {
	var b []byte
	err := fs.ErrNotExist
	if n.cfg.Serve != nil {
		b, err = n.cfg.Serve.Block(from, id)
	}
	if err == nil && len(b) > wire.MaxBlock {
		err = fs.ErrNotExist
	}
	if err != nil {
		return writeFrame(s, []byte{statusOf(err)}, n.cfg.StreamTimeout)
	}
	size := 1 + len(b)
	if err := s.Scope().ReserveMemory(size, network.ReservationPriorityAlways); err != nil {
		return writeFrame(s, []byte{statusBusy}, n.cfg.StreamTimeout)
	}
	defer s.Scope().ReleaseMemory(size)
	return writeFrame(s, append(make([]byte, 1, size), b...), n.cfg.StreamTimeout)
}
