package daemon

import (
	"context"

	"github.com/apiary-net/hived/elastic"
	"github.com/apiary-net/hived/gossip"
	"github.com/apiary-net/hived/wire"
)

// Protocols of direct messages.
const (
	protoVote  = "/hived/vote/1"
	protoSlice = "/hived/slice/1"
)

// runNet is what one run sees of the node.
type runNet struct {
	node  *gossip.Node
	topic *gossip.Topic
}

func (n *runNet) Publish(ctx context.Context, b []byte) error { return n.topic.Publish(ctx, b) }

func (n *runNet) Send(ctx context.Context, to wire.PeerID, kind elastic.SendKind, b []byte) error {
	proto := protoVote
	if kind == elastic.SendSlice {
		proto = protoSlice
	}
	return n.node.Send(ctx, to, proto, b)
}

func (n *runNet) Pull(ctx context.Context, from wire.PeerID, req []byte) ([]byte, error) {
	return n.node.Pull(ctx, from, wire.Marshal(pull{Kind: pullRun, Body: req}))
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
func verdict(v elastic.Verdict) gossip.Verdict {
	switch v {
	case elastic.Accept:
		return gossip.Accept
	case elastic.Reject:
		return gossip.Reject
	}
	return gossip.Ignore
}
