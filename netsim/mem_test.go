package netsim

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apiary-net/hived/elastic"
	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/wire"
)

func testLogger(t *testing.T) *slog.Logger {
	if os.Getenv("HIVED_TEST_LOG") == "" {
		return nil
	}
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// inBubble runs f with a swarm whose peers are all started, in virtual time.
func inBubble(t *testing.T, cfg MemConfig, f func(t *testing.T, ctx context.Context, m *Mem, ns []*MemNode)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cfg.Logger = testLogger(t)
		m, err := NewMem(cfg)
		if err != nil {
			t.Fatal(err)
		}
		var ns []*MemNode
		for i := range cfg.Peers {
			n, err := m.Start(ctx, i)
			if err != nil {
				t.Fatal(err)
			}
			ns = append(ns, n)
		}
		f(t, ctx, m, ns)
		cancel()
		for _, n := range m.nodes {
			<-n.ended
		}
		synctest.Wait()
	})
}

// until polls in virtual time; it fails the test after limit.
func until(t *testing.T, limit time.Duration, what string, done func() bool) {
	t.Helper()
	end := time.Now().Add(limit)
	for !done() {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
		pause()
	}
}

// pause lets virtual time pass.
func pause() { <-time.After(20 * time.Millisecond) }

func finished(ctx context.Context, ns ...*MemNode) func() bool {
	return func() bool {
		for _, n := range ns {
			s, err := n.Version(ctx)
			if err != nil || !s.Finished {
				return false
			}
		}
		return true
	}
}

func reached(ctx context.Context, n *MemNode, round uint64) func() bool {
	return func() bool {
		s, err := n.Version(ctx)
		return err == nil && s.Head != nil && s.Head.Round >= round
	}
}

// sameEnd checks that all peers hold one version of the last round, and returns
// the records of the first.
func sameEnd(t *testing.T, ctx context.Context, ns ...*MemNode) []*wire.Record {
	t.Helper()
	var first elastic.Snapshot
	for i, n := range ns {
		s, err := n.Version(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = s
		}
		if s.Version != first.Version || s.Head.Digest() != first.Head.Digest() || s.Applied != first.Head.Round {
			t.Fatalf("peer %d ended with %s at %d, peer 0 with %s at %d", i, s.Version.Short(), s.Applied, first.Version.Short(), first.Applied)
		}
	}
	recs := ns[0].Records()
	checkSampleBooks(t, recs)
	return recs
}

// checkSampleBooks checks that every position is in at most one counted header, and
// that all positions below the cursor were used, returned or ride.
func checkSampleBooks(t *testing.T, recs []*wire.Record) {
	t.Helper()
	used := map[uint64]uint64{}
	for i, r := range recs {
		if r.Round == 0 {
			continue
		}
		hs, err := rules.CountedHeaders(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range hs {
			spans := h.Header.Spans
			if h.Header.Parts == 0 && len(spans) > 0 { // of a window only the common steps count
				steps := min(r.Steps-recs[i-1].Steps, uint64(h.Header.Steps))
				spans, _ = wire.SplitSpans(spans, wire.SpanLen(spans)/uint64(h.Header.Steps)*steps)
			}
			for _, s := range spans {
				for p := s.Lo; p < s.Hi; p++ {
					if old, twice := used[p]; twice {
						t.Fatalf("position %d counts in rounds %d and %d", p, old, r.Round)
					}
					used[p] = r.Round
				}
			}
		}
	}
	last := recs[len(recs)-1]
	missing := last.Cursor - uint64(len(used)) - wire.SpanLen(last.Returned)
	late := uint64(0)
	for _, raw := range last.Headers {
		var h wire.Header
		e, err := wire.Open(raw)
		if err == nil && e.Decode(&h) == nil {
			if v, ok := last.Verdict(e.Sender); ok && v.Status == wire.Late && h.Late == 0 {
				late += wire.SpanLen(h.Spans)
			}
		}
	}
	if missing != late {
		t.Fatalf("%d positions were dealt, %d counted, %d returned, %d ride", last.Cursor, len(used), wire.SpanLen(last.Returned), late)
	}
}

func TestSwarmsOfManySizes(t *testing.T) {
	for _, c := range []MemConfig{
		{Peers: 1, Rounds: 4}, {Peers: 2, Rounds: 4}, {Peers: 3, Rounds: 4}, {Peers: 4, Rounds: 6},
		{Peers: 4, Rounds: 5, Codec: "int8"}, {Peers: 4, Rounds: 5, Codec: "bf16"},
		{Peers: 12, Rounds: 2}, {Peers: 23, Rounds: 1},
		{Peers: 4, Rounds: 4, Topology: "butterfly"}, {Peers: 7, Rounds: 3, Topology: "butterfly"},
		{Peers: 1, Rounds: 3, Preset: "ddp"}, {Peers: 4, Rounds: 3, Preset: "ddp"},
	} {
		c.Steps, c.Seed = 5, 3
		t.Run(c.Preset+c.Codec+c.Topology, func(t *testing.T) {
			inBubble(t, c, func(t *testing.T, ctx context.Context, m *Mem, ns []*MemNode) {
				until(t, 2*time.Minute, "all peers finish", finished(ctx, ns...))
				recs := sameEnd(t, ctx, ns...)
				for _, r := range recs[1:] {
					if r.CountedPeers() != c.Peers {
						t.Fatalf("round %d counted %d of %d", r.Round, r.CountedPeers(), c.Peers)
					}
				}
				if got, want := len(recs[0].Table), min(c.Peers, wire.MaxVoters); got != want {
					t.Fatalf("%d voters, want %d", got, want)
				}
				h1, err1 := rules.CountedHeaders(recs[1])
				hl, err2 := rules.CountedHeaders(recs[len(recs)-1])
				if c.Rounds > 1 && (err1 != nil || err2 != nil) || c.Rounds > 1 && !(hl[0].Header.Loss < h1[0].Header.Loss) {
					t.Fatalf("the loss did not fall: %v to %v (%v, %v)", h1[0].Header.Loss, hl[0].Header.Loss, err1, err2)
				}
			})
		})
	}
}

// H1: a peer dies at any moment; the others go on with the same bits.
func TestKillAtAnyMoment(t *testing.T) {
	for _, preset := range []string{"diloco", "ddp", "butterfly"} {
		for _, victim := range []int{0, 2} { // the creator, another
			for _, after := range []time.Duration{5, 55, 63, 80} {
				t.Run(fmt.Sprintf("%s peer %d after %d ms", preset, victim, after), func(t *testing.T) {
					cfg := MemConfig{Peers: 4, Rounds: 6, Steps: 5, Seed: uint64(after), Preset: preset}
					if preset == "butterfly" {
						cfg.Preset, cfg.Topology = "diloco", "butterfly"
					}
					inBubble(t, cfg, func(t *testing.T, ctx context.Context, m *Mem, ns []*MemNode) {
						until(t, time.Minute, "the first round", reached(ctx, ns[1], 1))
						<-time.After(after * time.Millisecond)
						if err := ns[victim].Kill(ctx); err != nil {
							t.Fatal(err)
						}
						rest := slices.Delete(slices.Clone(ns), victim, victim+1)
						began := time.Now()
						until(t, time.Minute, "a round without the victim", func() bool {
							s, err := rest[0].Version(ctx)
							if err != nil || s.Head == nil {
								return false
							}
							seat, _ := s.Head.Seat(ns[victim].Key.Peer())
							return !seat.Active
						})
						// One deadline at most, not a time-out of the transport.
						if took := time.Since(began); took > 25*time.Second {
							t.Fatalf("%s: the others took %v to go on without peer %d", preset, took, victim)
						}
						again, err := m.Start(ctx, victim)
						if err != nil {
							t.Fatal(err)
						}
						until(t, 3*time.Minute, "all peers finish", finished(ctx, append(rest, again)...))
						sameEnd(t, ctx, append(rest, again)...)
					})
				})
			}
		}
	}
}

// A lost disk: a fresh key joins late and takes the state from the others.
func TestLoseDiskAndJoinLate(t *testing.T) {
	inBubble(t, MemConfig{Peers: 4, Spare: 1, Rounds: 14, Steps: 5, Seed: 5}, func(t *testing.T, ctx context.Context, m *Mem, ns []*MemNode) {
		until(t, time.Minute, "round 2", reached(ctx, ns[0], 2))
		if err := ns[3].Kill(ctx); err != nil {
			t.Fatal(err)
		}
		ns[3].Wipe()
		fresh, err := m.Start(ctx, 4)
		if err != nil {
			t.Fatal(err)
		}
		all := append(slices.Clone(ns[:3]), fresh)
		until(t, 3*time.Minute, "all peers finish", finished(ctx, all...))
		recs := sameEnd(t, ctx, all...)
		last := recs[len(recs)-1]
		if v, ok := last.Verdict(fresh.Key.Peer()); !ok || v.Status != wire.Counted {
			t.Fatalf("the fresh peer did not count in the last round: %+v", v)
		}
		if last.Table.Of(ns[3].Key.Peer()) != 0 {
			t.Fatal("the lost peer still votes")
		}
	})
}

// A third of the voters and more are gone: nobody decides, and all go on when
// they return.
func TestNoQuorumHoldsAndGoesOn(t *testing.T) {
	inBubble(t, MemConfig{Peers: 4, Rounds: 5, Steps: 5, Seed: 6}, func(t *testing.T, ctx context.Context, m *Mem, ns []*MemNode) {
		until(t, time.Minute, "round 1", reached(ctx, ns[0], 1))
		for _, i := range []int{1, 2} {
			if err := ns[i].Kill(ctx); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(time.Minute)
		a, err := ns[0].Version(ctx)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		b, err := ns[0].Version(ctx)
		if err != nil || a.Head.Digest() != b.Head.Digest() {
			t.Fatalf("two of four decided record %d (%v)", b.Head.Round, err)
		}
		for _, i := range []int{1, 2} {
			if ns[i], err = m.Start(ctx, i); err != nil {
				t.Fatal(err)
			}
		}
		until(t, 3*time.Minute, "all peers finish", finished(ctx, ns...))
		sameEnd(t, ctx, ns...)
	})
}

// H5 (d): a split 3/1 goes on where the quorum is, and heals into one.
func TestPartitionHeals(t *testing.T) {
	inBubble(t, MemConfig{Peers: 4, Rounds: 12, Steps: 20, Seed: 7}, func(t *testing.T, ctx context.Context, m *Mem, ns []*MemNode) {
		until(t, time.Minute, "round 1", reached(ctx, ns[0], 1))
		for _, n := range ns[:3] {
			m.Cut(ctx, n, ns[3], true)
		}
		until(t, 2*time.Minute, "the three go on", reached(ctx, ns[0], 4))
		s, err := ns[3].Version(ctx)
		if err != nil || s.Head.Round > 2 {
			t.Fatalf("the one alone is at round %d (%v)", s.Head.Round, err)
		}
		for _, n := range ns[:3] {
			m.Cut(ctx, n, ns[3], false)
		}
		until(t, 3*time.Minute, "all peers finish", finished(ctx, ns...))
		sameEnd(t, ctx, ns...)
	})
}

// H3: a straggler is late first, then gets a share that it can finish.
func TestStragglerGetsASmallerShare(t *testing.T) {
	inBubble(t, MemConfig{Peers: 5, Rounds: 12, Steps: 40, Seed: 8}, func(t *testing.T, ctx context.Context, m *Mem, ns []*MemNode) {
		ns[4].SetSpeed(0.05)
		until(t, 5*time.Minute, "the fast ones finish", finished(ctx, ns[:4]...))
		recs := sameEnd(t, ctx, ns[:4]...)
		counted := 0
		for _, r := range recs[len(recs)-4:] {
			if v, ok := r.Verdict(ns[4].Key.Peer()); ok && v.Status == wire.Counted {
				counted++
			}
		}
		if counted == 0 {
			t.Fatal("the straggler never counted at the end")
		}
	})
}
