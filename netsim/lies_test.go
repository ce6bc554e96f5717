package netsim

import (
	"bytes"
	"context"
	"math"
	"testing"
	"time"

	"github.com/apiary-net/hived/elastic/decide"
	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/elastic/version"
	"github.com/apiary-net/hived/wire"
)

// W4: one part of a contribution is spoiled on the way: it counts whole or not
// at all, weights included.
func TestSpoiledBodyDoesNotCount(t *testing.T) {
	inBubble(t, MemConfig{Peers: 4, Rounds: 3, Steps: 5, Seed: 9}, func(t *testing.T, ctx context.Context, m *Mem, ns []*MemNode) {
		bad := ns[2]
		bad.Forge = func(_ wire.CID, b []byte) []byte {
			if len(b) == 4096*4 { // the first part of tensor a; all else arrives
				b = bytes.Clone(b)
				b[100] ^= 1
			}
			return b
		}
		until(t, 5*time.Minute, "the others finish", finished(ctx, ns[0], ns[1], ns[3]))
		for _, r := range sameEnd(t, ctx, ns[0], ns[1], ns[3])[1:] {
			v, ok := r.Verdict(bad.Key.Peer())
			if ok && v.Status == wire.Counted {
				t.Fatalf("round %d counts a contribution that no other peer could read", r.Round)
			}
			if r.CountedPeers() < 3 {
				t.Fatalf("round %d counts %d", r.Round, r.CountedPeers())
			}
		}
	})
}

// hostile publishes a contribution of a member whose runner is not started.
type hostile struct {
	t   *testing.T
	ctx context.Context
	m   *Mem
	n   *MemNode
}

// serve makes x the body of the round after head and announces a header for it.
// change may spoil the header or the body.
func (h hostile) serve(head *wire.Record, base wire.CID, x []float32, change func(*wire.Header, *version.Contribution)) wire.Envelope {
	h.t.Helper()
	model, err := version.NewModel(&h.m.Genesis, h.m.schema)
	if err != nil {
		h.t.Fatal(err)
	}
	nonce := make([]byte, 32)
	con, err := model.Encode(x, nil, nonce)
	if err != nil {
		h.t.Fatal(err)
	}
	plan := rules.MakePlan(&h.m.Genesis, rules.History{head})
	share := plan.Share(h.n.Key.Peer())
	if share == nil {
		h.t.Fatal("the hostile peer is not planned for")
	}
	hd := &wire.Header{Base: base, Root: con.Root, Norm: con.Norm, Bytes: con.Bytes, Nonce: wire.Sum(nonce), Body: wire.RawCID(con.Index), Spans: share.Spans, Steps: share.Steps, TrainMs: 50, Parts: uint32(len(con.Blocks))}
	if change != nil {
		change(hd, con)
	}
	for _, b := range append(con.Blocks, con.Index) {
		for _, o := range h.m.others(h.n) { // as if fetched: any holder serves it
			if _, err := o.bodies.Put(head.Round+1, b); err != nil {
				h.t.Fatal(err)
			}
		}
	}
	env := wire.Seal(h.n.Key, wire.KindHeader, h.m.Run, head.Round+1, hd)
	h.n.Announce(env.Bytes())
	return env
}

// hostileSwarm runs three honest peers and one that act replaces after round 1.
func hostileSwarm(t *testing.T, act func(h hostile, head *wire.Record, base wire.CID), want func(t *testing.T, v wire.Verdict)) {
	t.Helper()
	inBubble(t, MemConfig{Peers: 4, Rounds: 3, Steps: 5, Seed: 10}, func(t *testing.T, ctx context.Context, m *Mem, ns []*MemNode) {
		bad := ns[3]
		until(t, time.Minute, "round 1 everywhere", func() bool {
			for _, n := range ns {
				if s, err := n.Version(ctx); err != nil || s.Applied < 1 {
					return false
				}
			}
			return true
		})
		s, err := bad.Version(ctx)
		if err != nil || s.Head.Round != 1 {
			t.Fatalf("round %d is decided already (%v)", s.Head.Round, err)
		}
		if err := bad.Kill(ctx); err != nil {
			t.Fatal(err)
		}
		act(hostile{t, ctx, m, bad}, s.Head, s.Version)
		until(t, 3*time.Minute, "the honest peers finish", finished(ctx, ns[:3]...))
		recs := sameEnd(t, ctx, ns[:3]...)
		if recs[2].CountedPeers() < 3 {
			t.Fatalf("round 2 counts %d of the three honest peers", recs[2].CountedPeers())
		}
		v, _ := recs[2].Verdict(bad.Key.Peer())
		want(t, v)
	})
}

func refusedFor(r wire.Reason) func(*testing.T, wire.Verdict) {
	return func(t *testing.T, v wire.Verdict) {
		t.Helper()
		if v.Status != wire.Refused || v.Reason != r {
			t.Fatalf("the contribution is %s %s, want refused %s", v.Status, v.Reason, r)
		}
	}
}

// W1: not finite, and legal oddities.
func TestNonFiniteIsRefused(t *testing.T) {
	for name, x := range map[string]float32{"nan": float32(math.NaN()), "inf": float32(math.Inf(1))} {
		t.Run(name, func(t *testing.T) {
			hostileSwarm(t, func(h hostile, head *wire.Record, base wire.CID) {
				h.serve(head, base, make([]float32, h.m.schema.Params()), func(hd *wire.Header, c *version.Contribution) {
					spoilPart(t, hd, c, x)
				})
			}, refusedFor(wire.ReasonNonFinite))
		})
	}
	t.Run("minus zero and subnormals are legal", func(t *testing.T) {
		hostileSwarm(t, func(h hostile, head *wire.Record, base wire.CID) {
			x := make([]float32, h.m.schema.Params())
			x[0], x[1] = float32(math.Copysign(0, -1)), math.Float32frombits(1)
			h.serve(head, base, x, nil)
		}, func(t *testing.T, v wire.Verdict) {
			if v.Status != wire.Counted {
				t.Fatalf("the contribution is %s %s", v.Status, v.Reason)
			}
		})
	})
}

// spoilPart writes v into the first part and commits to it, as a peer would that
// encodes without looking.
func spoilPart(t *testing.T, hd *wire.Header, c *version.Contribution, v float32) {
	t.Helper()
	var b wire.Body
	if err := wire.Unmarshal(c.Index, &b, wire.MaxBlock); err != nil {
		t.Fatal(err)
	}
	bits := math.Float32bits(v)
	c.Blocks[0] = append([]byte{byte(bits), byte(bits >> 8), byte(bits >> 16), byte(bits >> 24)}, c.Blocks[0][4:]...)
	b.Parts[0].Block = wire.Sum(c.Blocks[0])
	var leaves []wire.Digest
	for _, p := range b.Parts {
		leaves = append(leaves, p.Block)
	}
	c.Index = wire.Marshal(&b)
	hd.Root, hd.Body = wire.MerkleRoot(leaves), wire.RawCID(c.Index)
}

func TestLiesAreRefusedByName(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*wire.Header, *version.Contribution)
		want   func(*testing.T, wire.Verdict)
	}{
		"a stale base": {func(h *wire.Header, _ *version.Contribution) { h.Base = wire.RawCID([]byte("other")) }, refusedFor(wire.ReasonStale)},
		"more samples": {func(h *wire.Header, _ *version.Contribution) {
			h.Spans = []wire.Span{{Lo: h.Spans[0].Lo, Hi: h.Spans[0].Hi + 1000}}
		}, refusedFor(wire.ReasonSpans)},
		"another's samples": {func(h *wire.Header, _ *version.Contribution) { h.Spans = []wire.Span{{Lo: 0, Hi: 4}} }, refusedFor(wire.ReasonSpans)},
		"late work unheard": {func(h *wire.Header, _ *version.Contribution) { h.Late = 1 }, refusedFor(wire.ReasonSpans)},
		"another norm":      {func(h *wire.Header, _ *version.Contribution) { h.Norm = 7 }, refusedFor(wire.ReasonBody)},
		"another size":      {func(h *wire.Header, _ *version.Contribution) { h.Bytes++ }, refusedFor(wire.ReasonBody)},
		"another root":      {func(h *wire.Header, _ *version.Contribution) { h.Root[0] ^= 1 }, refusedFor(wire.ReasonBody)},
		"another nonce":     {func(h *wire.Header, _ *version.Contribution) { h.Nonce[0] ^= 1 }, refusedFor(wire.ReasonBody)},
		"a truncated index": {func(h *wire.Header, c *version.Contribution) {
			c.Index = c.Index[:len(c.Index)-1]
			h.Body = wire.RawCID(c.Index)
		}, refusedFor(wire.ReasonBody)},
	} {
		t.Run(name, func(t *testing.T) {
			hostileSwarm(t, func(h hostile, head *wire.Record, base wire.CID) {
				h.serve(head, base, make([]float32, h.m.schema.Params()), c.change)
			}, c.want)
		})
	}
}

// Two headers of one sender in a round: both stand in the record, for ever.
func TestTwoHeadersAreEquivocation(t *testing.T) {
	var first, second wire.Envelope
	hostileSwarm(t, func(h hostile, head *wire.Record, base wire.CID) {
		x := make([]float32, h.m.schema.Params())
		first = h.serve(head, base, x, nil)
		x[0] = 1
		second = h.serve(head, base, x, nil)
	}, func(t *testing.T, v wire.Verdict) {
		if v.Status != wire.Equivocated {
			t.Fatalf("two headers are %s", v.Status)
		}
		if first.Digest() == second.Digest() {
			t.Fatal("the two headers are one")
		}
	})
}

// S5: statements of earlier rounds, played again, change nothing.
func TestReplayedStatementsAreStale(t *testing.T) {
	inBubble(t, MemConfig{Peers: 4, Rounds: 8, Steps: 5, Seed: 11}, func(t *testing.T, ctx context.Context, m *Mem, ns []*MemNode) {
		until(t, time.Minute, "round 3", reached(ctx, ns[0], 3))
		var old [][]byte
		for _, r := range ns[0].Records() {
			for _, l := range [][][]byte{r.Headers, r.Haves, r.Readys, r.Attests} {
				old = append(old, l...)
			}
		}
		// Also after a restart, when every cache is empty.
		if err := ns[2].Kill(ctx); err != nil {
			t.Fatal(err)
		}
		var err error
		if ns[2], err = m.Start(ctx, 2); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			for _, b := range old {
				ns[1].Announce(b)
			}
			pause()
		}
		until(t, 3*time.Minute, "all peers finish", finished(ctx, ns...))
		sameEnd(t, ctx, ns...) // counts each position once
		// Into another run with the same peers: refused before anything is looked at.
		other, err := NewMem(MemConfig{Peers: 4, Rounds: 2, Steps: 1, Seed: 11, Change: func(g *wire.Genesis) { g.Name = "other" }})
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range old {
			e, err := wire.Open(b)
			if err != nil || decide.CheckForm(other.Run, &e) != decide.Ignore {
				t.Fatalf("a statement of another run is not ignored (%v)", err)
			}
		}
	})
}
