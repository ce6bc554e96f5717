package daemon

import (
	"context"
	"sync"

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
	*gossip.Members
	node *gossip.Node

	mu        sync.Mutex
	witnesses []wire.PeerID // of the own log, nil for all members; guarded by mu
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
	return n.PublishTo(ctx, to, b)
}

// Keep holds connections with the peers that a round needs.
func (n *runNet) Keep(ctx context.Context, peers []wire.PeerID) []wire.PeerID {
	return n.node.Keep(ctx, peers)
}

// setMembers takes the roster of a record.
func (n *runNet) setMembers(roster []wire.Seat) {
	members := make([]wire.PeerID, len(roster))
	for i, s := range roster {
		members[i] = s.Peer
	}
	if n.Set(members) {
		chosen := ledger.WitnessesOf(n.node.ID(), members, gossip.MaxTold)
		n.mu.Lock()
		defer n.mu.Unlock()
		n.witnesses = chosen
	}
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
