package daemon

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/ledger"
	"github.com/apiary-net/hived/wire"
)

// sharedLog is a run's own log whose heads are announced.
type sharedLog struct {
	*ledger.Log
	r *run
}

// Append implements elastic.Log: entries are durable, then their head is
// announced.
func (l sharedLog) Append(ctx context.Context, entries []wire.EntryBody) (wire.Head, error) {
	head, err := l.Log.Append(ctx, entries)
	if err != nil {
		return head, err
	}
	b := wire.Seal(l.r.d.key, wire.KindHead, l.r.id, head.Size, &head).Bytes()
	pctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := l.r.net.announceHead(pctx, b); err != nil {
		l.r.d.log.Debug("head not announced", "run", l.r.id.Short(), "err", err)
	}
	return head, nil
}

// headQueue bounds the announced heads that wait to be checked; more are
// dropped, since a later head proves all before it.
const headQueue = 256

// takeHead queues an announced head. It reports whether the envelope is one.
func (r *run) takeHead(b []byte) bool {
	e, err := wire.Open(b)
	if err != nil || e.Kind != wire.KindHead {
		return false
	}
	if !r.runner.Belongs(e.Sender) || !isWitness(r.d.ID(), e.Sender, r.net.roster()) {
		return true // nothing is kept of strangers
	}
	select {
	case r.headsIn <- e:
	default:
	}
	return true
}

// witnesses is how many members follow the log of one in a large swarm, where a
// proof from everybody to everybody would grow with the square of the members.
const witnesses = 16

// isWitness reports whether self follows p's log: in a swarm of more than
// maxDirect members those with the least digests of both.
func isWitness(self, p wire.PeerID, members []wire.PeerID) bool {
	return len(members) <= maxDirect || rules.Chosen(witnesses, witnessKey(p), p, self, members)
}

func witnessKey(p wire.PeerID) []byte { return slices.Concat([]byte("hived/witness/v1\n"), p[:]) }

// witnessesOf returns the witnesses of p's log among the members; nil is everybody.
func witnessesOf(p wire.PeerID, members []wire.PeerID) []wire.PeerID {
	if len(members) <= maxDirect {
		return nil
	}
	return rules.Choose(witnesses, witnessKey(p), p, members)
}

// followHeads checks announced heads until ctx ends: a bigger head is believed
// only with a proof that the log extends what was seen of it before.
func (r *run) followHeads(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-r.headsIn:
			var h wire.Head
			if e.Sender == r.d.ID() || e.Decode(&h) != nil || e.Run != r.id {
				continue
			}
			if err := r.offerHead(ctx, e.Sender, h); err != nil {
				r.d.log.Warn("head refused", "of", e.Sender.Short(), "err", err)
			}
		}
	}
}

func (r *run) offerHead(ctx context.Context, p wire.PeerID, h wire.Head) error {
	var proof []wire.Digest
	if best, ok := r.heads.Best(p); ok && best.Size < h.Size {
		pctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		b, err := r.d.node.Pull(pctx, p, wire.Marshal(wire.Pull{Kind: wire.PullProof, Body: wire.Marshal(wire.ProofQuery{Run: r.id, Old: best.Size, New: h.Size})}))
		if err != nil {
			return nil // it is asked for again with its next head
		}
		if proof, err = ledger.ParseProof(b); err != nil {
			return err
		}
	}
	_, err := r.heads.Offer(p, h, proof)
	var ev *ledger.EvidenceError
	if errors.As(err, &ev) {
		r.d.log.Error("proof of double signing kept", "event", "ledger.equivocation", "of", p.String(), "run", r.id.Short())
	}
	return err
}

func (d *Daemon) answerProof(body []byte) ([]byte, error) {
	q, err := wire.OpenQuery[wire.ProofQuery](body)
	if err != nil {
		return nil, err
	}
	r, err := d.runOf(q.Run)
	if err != nil {
		return nil, err
	}
	proof, err := r.log.ProveTree(q.Old, q.New)
	if err != nil {
		return nil, err
	}
	return wire.Marshal(proof), nil
}
