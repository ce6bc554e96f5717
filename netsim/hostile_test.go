package netsim

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/wire"
)

// sworn runs three honest peers and a member, the last one, that says what lie
// makes of each new record, as often as it likes. The honest peers must finish,
// alike, and count each other.
func sworn(t *testing.T, cfg MemConfig, lie func(h hostile, head *wire.Record, base wire.CID)) []*wire.Record {
	t.Helper()
	var recs []*wire.Record
	inBubble(t, cfg, func(t *testing.T, ctx context.Context, m *Mem, ns []*MemNode) {
		bad := ns[len(ns)-1]
		honest := ns[:len(ns)-1]
		until(t, time.Minute, "the run starts", reached(ctx, bad, 0))
		if err := bad.Kill(ctx); err != nil {
			t.Fatal(err)
		}
		told := -1
		until(t, 10*time.Minute, "the honest peers finish", func() bool {
			if s, err := honest[0].Version(ctx); err == nil && s.Head != nil && int(s.Head.Round) > told && s.Applied == s.Head.Round {
				told = int(s.Head.Round)
				lie(hostile{t, ctx, m, bad}, s.Head, s.Version)
			}
			return finished(ctx, honest...)()
		})
		recs = sameEnd(t, ctx, honest...)
		for _, r := range recs[2:] {
			if r.CountedPeers() < len(honest) {
				t.Fatalf("round %d counts %d of %d honest peers", r.Round, r.CountedPeers(), len(honest))
			}
		}
	})
	return recs
}

// A header that no record has room for, of a member that is planned for.
func TestTooLongHeaderStopsNobody(t *testing.T) {
	sworn(t, MemConfig{Peers: 4, Rounds: 4, Steps: 5, Seed: 21}, func(h hostile, head *wire.Record, base wire.CID) {
		hd := &wire.Header{Base: base, Body: base}
		for i := range uint64(80) {
			hd.Spans = append(hd.Spans, wire.Span{Lo: 1<<30 + 2*i, Hi: 1<<30 + 2*i + 1})
		}
		for env := wire.Seal(h.n.Key, wire.KindHeader, h.m.Run, head.Round+1, hd); len(env.Body) > wire.MaxHeader; {
			hd.Spans = hd.Spans[1:]
			env = wire.Seal(h.n.Key, wire.KindHeader, h.m.Run, head.Round+1, hd)
		}
		h.n.Announce(wire.Seal(h.n.Key, wire.KindHeader, h.m.Run, head.Round+1, hd).Bytes())
	})
}

// A voter whose HAVE is padded to the limit of a message: records embed HAVEs.
func TestPaddedHaveStopsNobody(t *testing.T) {
	recs := sworn(t, MemConfig{Peers: 4, Rounds: 4, Steps: 5, Seed: 22}, func(h hostile, head *wire.Record, base wire.CID) {
		hv := &wire.Have{Seq: 1 << 30}
		for i := range 15 {
			hv.Items = append(hv.Items, wire.HaveItem{Header: wire.Digest{byte(i + 1)}, State: wire.HaveWhole, Parts: make([]byte, 4096)})
		}
		h.n.Announce(wire.Seal(h.n.Key, wire.KindHave, h.m.Run, head.Round+1, hv).Bytes())
	})
	for _, r := range recs {
		if n := len(wire.Marshal(r)); n > wire.MaxMessage/2 {
			t.Fatalf("record %d has %d bytes", r.Round, n)
		}
	}
}

// Thousands of statements about far rounds and instances, from a member and from
// strangers: what is kept has a bound, and the round goes on.
func TestFloodIsBounded(t *testing.T) {
	strangers := make([]wire.Key, 180)
	for i := range strangers {
		strangers[i] = wire.NewKey()
	}
	sworn(t, MemConfig{Peers: 4, Rounds: 4, Steps: 5, Seed: 23, Change: func(g *wire.Genesis) { g.Admission = wire.Admission{Mode: "open"} }}, func(h hostile, head *wire.Record, base wire.CID) {
		for i := range 60 {
			far := head.Round + 2 + uint64(i)*uint64(i)
			say := func(k wire.Key, kind wire.Kind, round uint64, body any) {
				h.n.Announce(wire.Seal(k, kind, h.m.Run, round, body).Bytes())
			}
			say(h.n.Key, wire.KindAttest, far, &wire.Attest{Version: base})
			say(h.n.Key, wire.KindHave, far, &wire.Have{Seq: uint32(i)})
			say(h.n.Key, wire.KindHeader, far, &wire.Header{Base: base, Body: base})
			say(h.n.Key, wire.KindProposal, far, head)
			say(h.n.Key, wire.KindReady, far, &wire.Ready{Version: base, Schema: h.m.Genesis.Schema, Data: h.m.root})
			for _, k := range strangers[3*i : 3*i+3] {
				say(k, wire.KindReady, 1<<63+far, &wire.Ready{Version: base, Schema: h.m.Genesis.Schema, Data: h.m.root})
			}
		}
		known := 0
		for _, o := range h.m.others(h.n) {
			go o.Runner.Connected(h.ctx, strangers[0].Peer(), false)
			req := wire.Marshal([]any{h.m.Run[:], uint64(0), uint64(0), [][]byte{}, true})
			ans, err := o.Runner.Answer(h.ctx, req)
			if err != nil {
				h.t.Fatal(err)
			}
			known = max(known, ans.Size())
		}
		if known > 200<<10 {
			h.t.Fatalf("a peer keeps %d bytes of round state", known)
		}
	})
}

// W7 (d): a peer that says READY with other weights cannot keep the others from
// starting.
func TestOtherWeightsDoNotStopTheStart(t *testing.T) {
	inBubble(t, MemConfig{Peers: 3, Spare: 1, Rounds: 2, Steps: 5, Seed: 24, Change: func(g *wire.Genesis) { g.MinPeers = 3 }}, func(t *testing.T, ctx context.Context, m *Mem, ns []*MemNode) {
		bad := &MemNode{Key: m.Keys[3], mem: m}
		bad.Announce(wire.Seal(bad.Key, wire.KindReady, m.Run, 0, &wire.Ready{Version: wire.RawCID([]byte("other")), Schema: m.Genesis.Schema, Data: m.root}).Bytes())
		until(t, time.Minute, "the three finish", finished(ctx, ns...))
		sameEnd(t, ctx, ns...)
	})
}

// In a window the one who claims the most steps does not choose the gradients.
func TestInventedWindowIsRefused(t *testing.T) {
	recs := sworn(t, MemConfig{Peers: 4, Rounds: 3, Preset: "ddp", Steps: 4, Seed: 25}, func(h hostile, head *wire.Record, base wire.CID) {
		share := rules.MakePlan(&h.m.Genesis, rules.History{head}).Share(h.n.Key.Peer())
		if share == nil {
			return
		}
		body := wire.WindowBody{Nonce: make([]byte, 32)}
		for i := range share.Steps {
			body.Merged = append(body.Merged, wire.ManifestCID(fmt.Appendf(nil, "invented %d", i)))
		}
		index := wire.Marshal(&body)
		for _, o := range h.m.others(h.n) {
			if _, err := o.bodies.Put(head.Round+1, index); err != nil {
				h.t.Fatal(err)
			}
		}
		h.n.Announce(wire.Seal(h.n.Key, wire.KindHeader, h.m.Run, head.Round+1, &wire.Header{Base: base, Root: rules.WindowRoot(body.Merged),
			Body: wire.RawCID(index), Bytes: uint64(len(index)), Spans: share.Spans, Steps: share.Steps, Nonce: wire.Sum(body.Nonce), TrainMs: 1}).Bytes())
	})
	for i, r := range recs[1:] {
		if slices.Contains(r.Merged[:rules.WindowSteps(r, recs[i])], wire.ManifestCID([]byte("invented 0"))) {
			t.Fatalf("round %d takes invented gradients", r.Round)
		}
	}
}

// U7: who leaves is not waited for.
func TestLeaveCostsNoDeadline(t *testing.T) {
	inBubble(t, MemConfig{Peers: 4, Rounds: 5, Steps: 600, Seed: 27}, func(t *testing.T, ctx context.Context, m *Mem, ns []*MemNode) {
		until(t, time.Minute, "round 2", reached(ctx, ns[0], 2))
		ns[3].SetSpeed(0.01) // its training would go on for long
		until(t, time.Minute, "round 3", reached(ctx, ns[0], 3))
		began := time.Now()
		ns[3].Runner.Leave(ctx)
		if took := time.Since(began); took > 10*time.Second {
			t.Fatalf("the good-bye took %v", took)
		}
		if err := ns[3].Kill(ctx); err != nil {
			t.Fatal(err)
		}
		until(t, time.Minute, "the others finish", finished(ctx, ns[:3]...))
		recs := sameEnd(t, ctx, ns[:3]...)
		if took := time.Since(began); took > 16*time.Second {
			t.Fatalf("the others took %v for the last two rounds of 6 s", took)
		}
		if s, _ := recs[len(recs)-1].Seat(ns[3].Key.Peer()); s.Active {
			t.Fatal("who left is still planned for")
		}
	})
}

// C4 (c): a full disk stops its peer, nothing is lost, and the run goes on when
// there is space again, also where every disk was full.
func TestFullDiskPasses(t *testing.T) {
	for _, full := range []int{1, 3} {
		inBubble(t, MemConfig{Peers: 3, Rounds: 8, Steps: 5, Seed: 28}, func(t *testing.T, ctx context.Context, m *Mem, ns []*MemNode) {
			until(t, time.Minute, "round 2", reached(ctx, ns[0], 2))
			for _, n := range ns[:full] {
				n.FillDisk(true)
			}
			s, err := ns[0].Version(ctx)
			if err != nil {
				t.Fatal(err)
			}
			end := time.Now().Add(30 * time.Second)
			for time.Now().Before(end) {
				pause()
			}
			if now, err := ns[0].Version(ctx); err != nil || now.Applied > s.Applied+1 {
				t.Fatalf("version %d was kept on a full disk (%v)", now.Applied, err)
			}
			for _, n := range ns[:full] {
				n.FillDisk(false)
			}
			until(t, time.Minute, "all finish", finished(ctx, ns...))
			sameEnd(t, ctx, ns...)
		})
	}
}

// A lone peer that is killed between its HAVE and the record says it again.
func TestKilledBetweenHaveAndRecord(t *testing.T) {
	inBubble(t, MemConfig{Peers: 1, Rounds: 3, Steps: 5, Seed: 29}, func(t *testing.T, ctx context.Context, m *Mem, ns []*MemNode) {
		n := ns[0]
		until(t, time.Minute, "round 1", reached(ctx, n, 1))
		if err := n.Kill(ctx); err != nil {
			t.Fatal(err)
		}
		// The slot of an earlier life: HAVE of round 2 with nothing but its header.
		env, err := n.kv.Get([]byte("slot/have/1"))
		if err != nil {
			t.Fatal(err)
		}
		old, err := wire.Open(env)
		var hv wire.Have
		if err != nil || old.Decode(&hv) != nil || len(hv.Items) != 1 {
			t.Fatalf("HAVE of round 1: %v", err)
		}
		// Take round 1 back: as if the kill had come before its record.
		dels := [][]byte{}
		for _, prefix := range []string{"rec/\x00\x00\x00\x00\x00\x00\x00\x01", "slot/proposal/", "slot/vote/", "slot/have/2", "slot/header/2", "slot/attest/", "state"} {
			err := n.kv.Scan([]byte(prefix), func(k, _ []byte) error {
				dels = append(dels, slices.Clone(k))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		for r := uint64(2); ; r++ {
			if _, err := n.kv.Get(fmt.Appendf(nil, "slot/header/%d", r)); err != nil {
				break
			}
			dels = append(dels, fmt.Appendf(nil, "slot/header/%d", r), fmt.Appendf(nil, "slot/have/%d", r))
		}
		if err := n.kv.Apply(nil, dels, true); err != nil {
			t.Fatal(err)
		}
		if ns[0], err = m.Start(ctx, 0); err != nil {
			t.Fatal(err)
		}
		until(t, time.Minute, "the run ends", finished(ctx, ns[0]))
	})
}
