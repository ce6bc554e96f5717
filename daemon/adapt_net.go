package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/apiary-net/hived/elastic"
	"github.com/apiary-net/hived/elastic/decide"
	"github.com/apiary-net/hived/gossip"
	"github.com/apiary-net/hived/ledger"
	"github.com/apiary-net/hived/wire"
)

// Protocols of direct messages.
const (
	protoVote  = "/hived/vote/1"
	protoSlice = "/hived/slice/1"
	protoSay   = "/hived/say/1"
)

// runNet is what one run sees of the node.
type runNet struct {
	node  *gossip.Node
	topic *gossip.Topic

	mu        sync.Mutex
	members   []wire.PeerID // of the newest record; guarded by mu
	witnesses []wire.PeerID // of the own log among them, nil for all; guarded by mu
}

// maxDirect is the most members that announcements go to one by one.
const maxDirect = wire.MaxMembers

// Publish announces b. While every member is connected it goes to each of them
// once, a third of the bytes of a mesh that forwards; else it goes to the topic.
func (n *runNet) Publish(ctx context.Context, b []byte) error {
	n.mu.Lock()
	members := n.members
	n.mu.Unlock()
	if len(members) > maxDirect {
		return n.topic.Publish(ctx, b)
	}
	return n.tellOrPublish(ctx, members, b)
}

// tellOrPublish gives an announcement to some peers while all of them are connected,
// else to the topic.
func (n *runNet) tellOrPublish(ctx context.Context, to []wire.PeerID, b []byte) error {
	direct := len(to) > 0
	for _, p := range to {
		direct = direct && (p == n.node.ID() || n.node.Connected(p))
	}
	if !direct {
		return n.topic.Publish(ctx, b)
	}
	return n.Tell(ctx, to, b)
}

// announceHead announces a head of the own log to whom it concerns: in a large swarm
// a mesh would carry it to everybody, and most drop it.
func (n *runNet) announceHead(ctx context.Context, b []byte) error {
	n.mu.Lock()
	to := n.witnesses
	n.mu.Unlock()
	if to == nil {
		return n.Publish(ctx, b)
	}
	return n.tellOrPublish(ctx, to, b)
}

// Tell gives an announcement to some peers, to as many as a group has at once: a
// send waits for the pace of its connection, and who hears of a proposal late
// begins the agreement without it.
func (n *runNet) Tell(ctx context.Context, to []wire.PeerID, b []byte) error {
	if len(b) > wire.MaxSaid { // who sends more is at fault; it is pulled
		return fmt.Errorf("tell %d bytes, limit %d: %w", len(b), wire.MaxSaid, gossip.ErrTooBig)
	}
	const atOnce = wire.MaxMembers
	errs := make([]error, len(to))
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i, p := range to {
		if p == n.node.ID() {
			continue
		}
		g.Go(func() error {
			errs[i] = n.node.Send(ctx, p, protoSay, b)
			return nil
		})
	}
	_ = g.Wait()
	return errors.Join(errs...)
}

// Keep holds connections with the peers that a round needs.
func (n *runNet) Keep(ctx context.Context, peers []wire.PeerID) []wire.PeerID {
	return n.node.Keep(ctx, peers)
}

// roster returns the members of the newest record. The caller must not change it.
func (n *runNet) roster() []wire.PeerID {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.members
}

func (n *runNet) setMembers(roster []wire.Seat) {
	members := make([]wire.PeerID, len(roster))
	for i, s := range roster {
		members[i] = s.Peer
	}
	if slices.Equal(members, n.roster()) {
		return
	}
	chosen := ledger.WitnessesOf(n.node.ID(), members, maxDirect)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.members, n.witnesses = members, chosen
}

func (n *runNet) Send(ctx context.Context, to wire.PeerID, kind elastic.SendKind, b []byte) error {
	proto := protoVote
	if kind == elastic.SendSlice {
		proto = protoSlice
	}
	return n.node.Send(ctx, to, proto, b)
}

func (n *runNet) Pull(ctx context.Context, from wire.PeerID, req []byte) (*wire.PullAnswer, error) {
	b, err := n.node.Pull(ctx, from, wire.Marshal(wire.Pull{Kind: wire.PullRun, Body: req}))
	if err != nil {
		return nil, err
	}
	return wire.OpenPullAnswer(b)
}

func (n *runNet) Fetch(ctx context.Context, ids []wire.CID, from []wire.PeerID, got func(wire.CID, []byte) error) error {
	return n.node.Fetch(ctx, ids, from, got)
}

func (n *runNet) Peers() []wire.PeerID {
	var out []wire.PeerID
	for _, p := range n.node.Peers() {
		out = append(out, p.ID)
	}
	return out
}

// verdict converts what elastic thinks of an announcement.
func verdict(v decide.Verdict) gossip.Verdict {
	switch v {
	case decide.Accept:
		return gossip.Accept
	case decide.Reject:
		return gossip.Reject
	}
	return gossip.Ignore
}
