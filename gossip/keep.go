package gossip

import (
	"context"
	"slices"
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"github.com/apiary-net/hived/wire"
)

const keepTag = "hived/keep"

// keeper knows whose connections are not closed when there are too many.
type keeper struct {
	mu  sync.Mutex
	ids map[peer.ID]bool // guarded by mu
}

// Keep dials the peers that are not connected and keeps their connections when
// there are too many, instead of those of the call before. It returns when each
// was tried, at the latest when ctx ends, with those that cannot be reached now.
func (n *Node) Keep(ctx context.Context, peers []wire.PeerID) (unreachable []wire.PeerID) {
	now := map[peer.ID]bool{}
	for _, p := range peers {
		if p != n.self {
			now[toLibp2p(p)] = true
		}
	}
	n.protect(now)
	var mu sync.Mutex // of unreachable
	var g errgroup.Group
	g.SetLimit(maxDials)
	for _, p := range peers {
		if p == n.self || n.Connected(p) {
			continue
		}
		g.Go(func() error {
			if err := n.connect(ctx, p); err != nil {
				n.log.Debug("peer that is needed cannot be reached", "peer", p.Short(), "err", err)
				mu.Lock()
				unreachable = append(unreachable, p)
				mu.Unlock()
			}
			return nil
		})
	}
	_ = g.Wait()
	// Who could not be dialled may have dialled this node meanwhile.
	return slices.DeleteFunc(unreachable, n.Connected)
}

// protect keeps the connections of ids, instead of those of the call before.
func (n *Node) protect(ids map[peer.ID]bool) {
	n.keeps.mu.Lock()
	defer n.keeps.mu.Unlock()
	cm := n.host.ConnManager()
	for id := range ids {
		cm.Protect(id, keepTag)
	}
	for id := range n.keeps.ids {
		if !ids[id] {
			cm.Unprotect(id, keepTag)
		}
	}
	n.keeps.ids = ids
}
