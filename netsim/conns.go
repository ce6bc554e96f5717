package netsim

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/apiary-net/hived/gossip"
	"github.com/apiary-net/hived/wire"
)

// In a swarm of up to fullMesh machines everybody is connected with everybody. In
// a larger one a process keeps degree connections that it chose at its start,
// those that its round needs, and those that others wanted; only who is connected
// notices a death. Messages find their way all the same: a daemon dials whom it
// has something for.
const (
	fullMesh  = 64
	degree    = 8
	mostConns = 96
)

func (sw *Swarm) sparse() bool { return len(sw.Nodes) > fullMesh }

// links are the connections of a process in a sparse swarm.
type links struct {
	peers map[*Node]bool
	needs map[*Node]bool
	order []*Node // peers by peer id; nil when that has changed
}

func newLinks() links { return links{peers: map[*Node]bool{}, needs: map[*Node]bool{}} }

// sorted returns the connected nodes by peer id. The caller must not change it.
func (l *links) sorted() []*Node {
	if l.order == nil {
		l.order = make([]*Node, 0, len(l.peers))
		for n := range l.peers {
			l.order = append(l.order, n)
		}
		slices.SortFunc(l.order, func(a, b *Node) int { return a.ID.Compare(b.ID) })
	}
	return l.order
}

func (l *links) add(n *Node) { l.peers[n], l.order = true, nil }

func (l *links) remove(n *Node) {
	delete(l.peers, n)
	l.order = nil
}

func (sw *Swarm) handshake(a, b *Node) time.Duration {
	return 3 * (a.wires.link.Latency + b.wires.link.Latency)
}

// join connects two running processes, which hear of it after a handshake.
func (sw *Swarm) join(a, b *Node) {
	if a.life.links.peers[b] {
		return
	}
	a.life.links.add(b)
	b.life.links.add(a)
	d := sw.handshake(a, b)
	sw.notify(a, b.ID, true, d)
	sw.notify(b, a.ID, true, d)
}

// part takes a connection away; both hear of it at once.
func (sw *Swarm) part(a, b *Node) {
	for _, p := range [][2]*Node{{a, b}, {b, a}} {
		if p[0].life != nil {
			p[0].life.links.remove(p[1])
			sw.notify(p[0], p[1].ID, false, 0)
		}
	}
}

// meet connects a process that has just started with some that run.
func (sw *Swarm) meet(n *Node) {
	for tries := 0; len(n.life.links.peers) < degree && tries < 4*degree; tries++ {
		if o := sw.Nodes[sw.rng.IntN(len(sw.Nodes))]; sw.linked(n, o) {
			sw.join(n, o)
		}
	}
}

// neighbours returns the nodes that n is connected with, by peer id.
func (sw *Swarm) neighbours(n *Node) []*Node {
	if !sw.sparse() {
		return sw.reach(n)
	}
	if n.life == nil {
		return nil
	}
	all := n.life.links.sorted()
	out := make([]*Node, 0, len(all))
	for _, o := range all {
		if sw.linked(n, o) {
			out = append(out, o)
		}
	}
	return out
}

// Keep implements elastic.Network.
func (lf *life) Keep(_ context.Context, peers []wire.PeerID) (unreachable []wire.PeerID) {
	sw, l := lf.n.sw, &lf.links
	if !sw.sparse() || lf.dead {
		return nil
	}
	clear(l.needs)
	for _, p := range peers {
		o := sw.byID[p]
		switch {
		case o == nil || o == lf.n:
		case !sw.linked(lf.n, o):
			unreachable = append(unreachable, p)
		default:
			l.needs[o] = true
			sw.join(lf.n, o)
		}
	}
	lf.prune()
	return unreachable
}

// prune closes connections that neither side needs when there are too many.
func (lf *life) prune() {
	l := &lf.links
	if len(l.peers) <= mostConns {
		return
	}
	var idle []*Node
	for _, o := range l.sorted() {
		if !l.needs[o] && (o.life == nil || !o.life.links.needs[lf.n]) {
			idle = append(idle, o)
		}
	}
	slices.SortStableFunc(idle, func(a, b *Node) int { return cmp.Compare(a.Index, b.Index) })
	lf.n.sw.rng.Shuffle(len(idle), func(i, j int) { idle[i], idle[j] = idle[j], idle[i] })
	for _, o := range idle[:min(len(idle), len(l.peers)-mostConns)] {
		lf.n.sw.part(lf.n, o)
	}
}

// Tell implements elastic.Network.
func (lf *life) Tell(_ context.Context, to []wire.PeerID, b []byte) error {
	if len(b) > wire.MaxSaid {
		return gossip.ErrTooBig // as a daemon does; it is pulled
	}
	nodes := make([]*Node, 0, len(to))
	for _, p := range to {
		if o := lf.n.sw.byID[p]; o != nil && lf.n.sw.linked(lf.n, o) && !slices.Contains(nodes, o) {
			nodes = append(nodes, o)
		}
	}
	lf.say(nodes, b)
	return nil
}

// Publish implements elastic.Network: one copy to each peer that runs and can be
// reached.
func (lf *life) Publish(_ context.Context, b []byte) error {
	if len(b) > wire.MaxSaid {
		return gossip.ErrTooBig
	}
	lf.say(lf.n.sw.reach(lf.n), b)
	return nil
}

// say announces to nodes, as an honest peer or as a liar does.
func (lf *life) say(to []*Node, b []byte) {
	if lf.n.Lie != nil {
		lf.n.Lie.say(lf, to, b)
		return
	}
	for _, o := range to {
		lf.announce(o, b)
	}
}
