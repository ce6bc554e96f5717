package gossip

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"golang.org/x/sync/errgroup"

	"github.com/apiary-net/hived/wire"
)

const maxDials = 8

// dialLoop dials whoever is due, for ever.
func (n *Node) dialLoop(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxDials)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), g.Wait())
		case <-timer.C:
		case <-n.wake:
		}
		n.book.reconcile(n.Connected)
		ids, again := n.book.due(time.Now())
		for _, id := range ids {
			g.Go(func() error {
				err := n.connect(ctx, id)
				n.book.dialed(id, dialErrors(err), time.Now())
				n.nudge()
				return nil
			})
		}
		timer.Reset(time.Until(again))
	}
}

// connect makes sure of a direct connection to p, dialling all known addresses.
// The error wraps ErrUnreachable.
func (n *Node) connect(ctx context.Context, p wire.PeerID) error {
	if n.Connected(p) {
		return nil
	}
	id := toLibp2p(p)
	if p == n.self {
		return fmt.Errorf("connect to oneself: %w", ErrUnreachable)
	}
	if !n.gate.permits(id) {
		return fmt.Errorf("connect to %s: not allowed here: %w", p, ErrUnreachable)
	}
	n.host.Peerstore().AddAddrs(id, n.book.addrs(p), peerstore.TempAddrTTL)
	// libp2p's own back-off would answer for the peer with another text.
	if s, ok := n.host.Network().(*swarm.Swarm); ok {
		s.Backoff().Clear(id)
	}
	ctx, cancel := context.WithTimeout(ctx, n.cfg.StreamTimeout)
	defer cancel()
	if err := n.host.Connect(ctx, peer.AddrInfo{ID: id}); err != nil {
		return fmt.Errorf("connect to %s: %w: %w", p, ErrUnreachable, err)
	}
	if n.host.Network().Connectedness(id) == network.NotConnected {
		return fmt.Errorf("connect to %s: %w: it hangs up, it may not allow this peer", p, ErrUnreachable)
	}
	return nil
}

// dialErrors gives the text of each address that was tried, and of the whole
// under "". The texts hold no local ports, so they are the same on every retry.
func dialErrors(err error) map[string]string {
	if err == nil {
		return nil
	}
	out := map[string]string{"": dialText(err)}
	var de *swarm.DialError
	if errors.As(err, &de) {
		for _, te := range de.DialErrors {
			out[te.Address.String()] = dialText(te.Cause)
		}
	}
	return out
}

func dialText(err error) string {
	var id sec.ErrPeerIDMismatch
	var no syscall.Errno
	switch {
	case errors.As(err, &id):
		return fmt.Sprintf("wrong peer id: expected %s, found %s", id.Expected, id.Actual)
	case errors.As(err, &no):
		return "nobody answers: " + no.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "nobody answers in time"
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

// BootstrapStatus tells how each configured bootstrap address is doing.
func (n *Node) BootstrapStatus() []BootStatus { return n.book.status() }

// Ready reports whether any peer is connected; if not, text says when the next
// one is tried.
func (n *Node) Ready() (text string, ok bool) {
	if c := len(n.host.Network().Peers()); c > 0 {
		return fmt.Sprintf("%d peers", c), true
	}
	at, waits := n.book.nextTry()
	if !waits {
		return "no peers, and none is known", false
	}
	return fmt.Sprintf("no peers, next try in %d s", int(max(0, time.Until(at)).Round(time.Second)/time.Second)), false
}
