package daemon

import (
	"context"
	"slices"

	"github.com/apiary-net/hived/gossip"
	"github.com/apiary-net/hived/ledger"
	"github.com/apiary-net/hived/wire"
)

// witnessPeers makes a run's network the Witness's.
type witnessPeers struct{ r *run }

func (p witnessPeers) Member(id wire.PeerID) bool { return slices.Contains(p.r.net.List(), id) }

func (p witnessPeers) Proof(ctx context.Context, of wire.PeerID, older, newer uint64) ([]wire.Digest, error) {
	b, err := p.r.d.node.Pull(ctx, of, wire.Marshal(wire.Pull{Kind: wire.PullProof, Body: wire.Marshal(wire.ProofQuery{Run: p.r.id, Old: older, New: newer})}))
	if err != nil {
		return nil, err
	}
	return ledger.ParseProof(b)
}

func (p witnessPeers) Entries(ctx context.Context, of wire.PeerID) (wire.Head, [][]byte, error) {
	return p.r.fetchLog(ctx, of)
}

func (p witnessPeers) Send(ctx context.Context, to wire.PeerID, b []byte) error {
	return p.r.net.Tell(ctx, []wire.PeerID{to}, b)
}

func (p witnessPeers) Announce(ctx context.Context, b []byte) error { return p.r.net.Publish(ctx, b) }

func (p witnessPeers) AnnounceHead(ctx context.Context, b []byte) error {
	return p.r.net.announceHead(ctx, b)
}

// takeStatement gives what concerns a witness to the run's. It reports whether the
// envelope is such.
func (r *run) takeStatement(e wire.Envelope) bool {
	if !ledger.Concerns(e.Kind) {
		return false
	}
	if !r.runner.Belongs(e.Sender) || e.Kind == wire.KindHead && !ledger.IsWitness(r.d.ID(), e.Sender, r.net.List(), gossip.MaxTold) {
		return true // nothing is kept of strangers
	}
	r.witness.Take(e)
	return true
}
