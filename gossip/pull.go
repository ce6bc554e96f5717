package gossip

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/apiary-net/hived/wire"
)

// Status bytes that start an answer on ProtoPull and ProtoBlocks.
const (
	statusOK byte = iota
	statusNotExist
	statusPermission
	statusBusy
	statusRefused
)

func statusOf(err error) byte {
	switch {
	case err == nil:
		return statusOK
	case errors.Is(err, fs.ErrNotExist):
		return statusNotExist
	case errors.Is(err, fs.ErrPermission):
		return statusPermission
	case errors.Is(err, ErrBusy):
		return statusBusy
	}
	return statusRefused
}

// statusError is what a status byte means to the asker.
func statusError(status byte) error {
	switch status {
	case statusOK:
		return nil
	case statusNotExist:
		return fs.ErrNotExist
	case statusPermission:
		return fs.ErrPermission
	case statusBusy:
		return ErrBusy
	case statusRefused:
		return ErrRefused
	}
	return fmt.Errorf("status %d: %w", status, errAbuse)
}

// Pull asks from one question of at most MaxPullRequest bytes and returns its
// answer, at most MaxPullAnswer bytes. Errors: ErrTooBig, ErrUnreachable,
// ErrRefused, ErrBusy, fs.ErrNotExist, fs.ErrPermission, ctx's.
func (n *Node) Pull(ctx context.Context, from wire.PeerID, req []byte) ([]byte, error) {
	if len(req) > MaxPullRequest {
		return nil, fmt.Errorf("pull with %d bytes, limit %d: %w", len(req), MaxPullRequest, ErrTooBig)
	}
	b, err := n.pull(ctx, from, req)
	if err != nil {
		return nil, fmt.Errorf("pull from %s: %w", from, err)
	}
	return b, nil
}

func (n *Node) pull(ctx context.Context, from wire.PeerID, req []byte) ([]byte, error) {
	s, err := n.openStream(ctx, from, ProtoPull)
	if err != nil {
		return nil, err
	}
	defer s.Reset()
	defer context.AfterFunc(ctx, func() { s.Reset() })()
	if err := writeFrame(s, req, n.cfg.StreamTimeout); err != nil {
		return nil, errors.Join(err, ctx.Err())
	}
	if err := s.CloseWrite(); err != nil {
		return nil, err
	}
	b, release, err := readFrame(s, 1+MaxPullAnswer, n.cfg.StreamTimeout, n.cfg.StreamTimeout)
	if err != nil {
		return nil, errors.Join(noEOF(err), ctx.Err())
	}
	defer release()
	if len(b) == 0 {
		return nil, fmt.Errorf("answer without a status: %w", errAbuse)
	}
	return b[1:], statusError(b[0])
}

func (n *Node) servePull(from wire.PeerID, s network.Stream) error {
	req, release, err := readFrame(s, MaxPullRequest, n.cfg.StreamTimeout, n.cfg.StreamTimeout)
	if err != nil {
		return noEOF(err)
	}
	defer release()
	if n.cfg.Pull == nil {
		return writeFrame(s, []byte{statusRefused}, n.cfg.StreamTimeout)
	}
	ans, err := n.cfg.Pull(from, req)
	if err == nil && len(ans) > MaxPullAnswer {
		err = fmt.Errorf("answer of %d bytes, limit %d", len(ans), MaxPullAnswer)
		n.log.Error("pull is answered too long", "peer", from.String(), "err", err)
	}
	if err != nil {
		ans = nil
	}
	return writeFrame(s, append([]byte{statusOf(err)}, ans...), n.cfg.StreamTimeout)
}
