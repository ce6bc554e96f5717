package gossip

import (
	"context"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/apiary-net/hived/wire"
)

// A kept stream is given up by its sender after sendIdle, well before its
// receiver's recvIdle, so that no message is written to a stream that is about
// to be reset.
const (
	sendIdle       = time.Minute
	recvIdle       = 3 * time.Minute
	directPerPeer  = 2 // an old stream and its successor
	maxOutStreams  = 4096
	defaultSendFor = 30 * time.Second
)

type outKey struct {
	to    wire.PeerID
	proto string
}

// outStream is the kept stream to one peer on one protocol.
type outStream struct {
	turn chan struct{} // holds one token; whoever has it owns the fields below
	s    network.Stream
	used time.Time
}

// Send delivers b, at most MaxDirect bytes, to the Handle of proto at peer to,
// connecting if need be. Messages of one node to one peer and protocol arrive in
// the order of their Sends. A nil error means that b was handed to the
// connection, not that it arrived; on a stream that broke Send tries once more
// on a new one, so a message may arrive twice. Errors: ErrTooBig,
// ErrUnreachable, ctx's.
func (n *Node) Send(ctx context.Context, to wire.PeerID, proto string, b []byte) error {
	if len(b) > MaxDirect {
		return fmt.Errorf("send %d bytes on %s, limit %d: %w", len(b), proto, MaxDirect, ErrTooBig)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("send to %s: %w", to, err)
	}
	ctx, cancel := context.WithTimeout(ctx, defaultSendFor)
	defer cancel()
	o, err := n.outStream(outKey{to, proto})
	if err != nil {
		return err
	}
	select {
	case o.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("send to %s: %w", to, ctx.Err())
	}
	defer func() { <-o.turn }()
	kept := o.s != nil
	if err = n.sendOn(ctx, o, to, proto, b); err != nil && kept && ctx.Err() == nil {
		err = n.sendOn(ctx, o, to, proto, b)
	}
	if err != nil {
		return fmt.Errorf("send to %s on %s: %w", to, proto, err)
	}
	return nil
}

// sendOn writes b on the kept stream, or on a new one. The caller has the turn.
func (n *Node) sendOn(ctx context.Context, o *outStream, to wire.PeerID, proto string, b []byte) (err error) {
	if o.s != nil && (time.Since(o.used) > sendIdle || o.s.Conn().IsClosed()) {
		o.s.Close()
		o.s = nil
	}
	if o.s == nil {
		if o.s, err = n.openStream(ctx, to, proto); err != nil {
			o.s = nil
			return err
		}
	}
	s := o.s
	defer context.AfterFunc(ctx, func() { s.Reset() })()
	if err := writeFrame(s, b, n.cfg.StreamTimeout); err != nil {
		s.Reset()
		o.s = nil
		return err
	}
	o.used = time.Now()
	return nil
}

// openStream connects if need be and opens a stream on a direct connection.
func (n *Node) openStream(ctx context.Context, to wire.PeerID, proto string) (network.Stream, error) {
	if err := n.connect(ctx, to); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(network.WithNoDial(ctx, "connected above"), n.cfg.StreamTimeout)
	defer cancel()
	s, err := n.host.NewStream(ctx, toLibp2p(to), protocol.ID(proto))
	if err != nil {
		return nil, fmt.Errorf("open stream: %w: %w", ErrUnreachable, err)
	}
	return s, nil
}

func (n *Node) outStream(k outKey) (*outStream, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, fmt.Errorf("send to %s: node is closed", k.to)
	}
	o := n.out[k]
	if o == nil {
		if len(n.out) >= maxOutStreams {
			return nil, fmt.Errorf("send to %s: %d streams are kept: %w", k.to, len(n.out), ErrBusy)
		}
		o = &outStream{turn: make(chan struct{}, 1)}
		n.out[k] = o
	}
	return o, nil
}

// dropStreams forgets the streams of a peer that is gone. A Send in progress
// keeps its own.
func (n *Node) dropStreams(p wire.PeerID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for k, o := range n.out {
		if k.to != p {
			continue
		}
		select {
		case o.turn <- struct{}{}:
			if o.s != nil {
				o.s.Reset()
				o.s = nil
			}
			delete(n.out, k)
			<-o.turn
		default:
		}
	}
}

// Handle makes f receive what peers Send on proto: messages of at most max
// bytes, those of one peer one after the other in their order. f may keep b;
// while it runs, its peer waits. Handle must be called before peers send.
func (n *Node) Handle(proto string, max int, f func(from wire.PeerID, b []byte)) {
	n.serve(proto, directPerPeer, func(from wire.PeerID, s network.Stream) error {
		for {
			b, release, err := readFrame(s, max, recvIdle, n.cfg.StreamTimeout)
			if err != nil {
				return err
			}
			f(from, b)
			release()
		}
	})
}
