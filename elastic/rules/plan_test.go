package rules

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/quick"
	"time"

	"github.com/apiary-net/hived/wire"
)

func spans(xs ...uint64) []wire.Span {
	out := []wire.Span{}
	for i := 0; i < len(xs); i += 2 {
		out = append(out, wire.Span{Lo: xs[i], Hi: xs[i+1]})
	}
	return out
}

func TestDealerDealsEachPositionOnce(t *testing.T) {
	f := func(seed uint64) bool {
		rng := rand.New(rand.NewPCG(seed, 1))
		cursor := 1000 + rng.Uint64N(1000)
		var back []wire.Span
		for at := uint64(0); at < 900; at += 1 + rng.Uint64N(200) {
			hi := at + 1 + rng.Uint64N(50)
			back = append(back, wire.Span{Lo: at, Hi: hi})
			at = hi
		}
		d := dealer{cursor: cursor, returned: slices.Clone(back)}
		seen := map[uint64]bool{}
		dealt := uint64(0)
		for range 1 + rng.IntN(6) {
			n := 1 + rng.Uint64N(300)
			got := d.deal(n)
			if wire.SpanLen(got) != n {
				return false
			}
			dealt += n
			for _, s := range got {
				for p := s.Lo; p < s.Hi; p++ {
					if seen[p] {
						return false
					}
					seen[p] = true
				}
			}
		}
		// Returned positions go first; what is left of them was not dealt.
		for _, s := range d.returned {
			for p := s.Lo; p < s.Hi; p++ {
				if seen[p] {
					return false
				}
			}
		}
		fresh := d.cursor - cursor
		return dealt == fresh+wire.SpanLen(back)-wire.SpanLen(d.returned) && (fresh == 0 || len(d.returned) == 0)
	}
	if err := quick.Check(f, nil); err != nil {
		t.Fatal(err)
	}
}

func TestSplitAndNormal(t *testing.T) {
	used, rest := wire.SplitSpans(spans(0, 10, 20, 30), 14)
	if !slices.Equal(used, spans(0, 10, 20, 24)) || !slices.Equal(rest, spans(24, 30)) {
		t.Fatalf("split gives %v and %v", used, rest)
	}
	if got := normal(spans(20, 30, 0, 10, 10, 20), true); !slices.Equal(got, spans(0, 30)) {
		t.Fatalf("normal gives %v", got)
	}
}

func arrivals(ms ...uint32) *wire.Record {
	r := &wire.Record{V: 1}
	for _, m := range ms {
		r.Cut = append(r.Cut, wire.Verdict{Status: wire.Counted, ArrivalMs: m})
	}
	return r
}

func TestDeadlineFollowsTheArrivals(t *testing.T) {
	g := planned()
	if d, _ := deadlines(g, History{arrivals()}); d != time.Minute {
		t.Fatalf("the first deadline is %v, want the most", d)
	}
	slow := arrivals(3000, 3000, 3000, 3000)
	h := History{slow, slow, slow, slow}
	if d, _ := deadlines(g, h); d != 9*time.Second {
		t.Fatalf("deadline %v, want three times the arrivals", d)
	}
	// The fast ones get three times faster: the deadline follows in five rounds.
	for range 5 {
		h = h.With(arrivals(1000, 1000, 1000, 1000))
	}
	if d, _ := deadlines(g, h); d != 3*time.Second {
		t.Fatalf("deadline %v after five faster rounds", d)
	}
	if _, typical := deadlines(g, h); typical != 1250*time.Millisecond {
		t.Fatalf("typically done after %v, want a quarter more than the arrivals", typical)
	}
	// One straggler among seven does not set the pace.
	if d, _ := deadlines(g, History{arrivals(1000, 1000, 1000, 1000, 1000, 1000, 1000, 50_000)}); d != 3*time.Second {
		t.Fatalf("deadline %v with a straggler", d)
	}
}

func TestShareOfASlowPeerShrinks(t *testing.T) {
	g := planned()
	r := &wire.Record{V: 1}
	for i, speed := range []uint32{1000, 1000, 1000, 10, 0} {
		r.Roster = append(r.Roster, wire.Seat{Peer: wire.PeerID{byte(i + 1)}, Rank: uint32(i), Active: true, Speed: speed})
	}
	p := MakePlan(g, History{r})
	var got []uint32
	for _, s := range p.Shares {
		got = append(got, s.Steps)
		if wire.SpanLen(s.Spans) != uint64(s.Steps)*4 {
			t.Fatalf("%d steps with %d positions", s.Steps, wire.SpanLen(s.Spans))
		}
	}
	if !slices.Equal(got, []uint32{30, 30, 30, 1, 30}) {
		t.Fatalf("steps %v", got)
	}
	if p.Cursor != 4*(30*4+1) {
		t.Fatalf("cursor %d", p.Cursor)
	}
}

func TestHistoryKeepsWhatAPlanReads(t *testing.T) {
	h := History{arrivals(1)}
	for i := range 30 {
		h = h.With(arrivals(uint32(i)))
	}
	if len(h) != PlanWindow+1 || h.Head().Cut[0].ArrivalMs != 29 {
		t.Fatalf("%d records, head %d", len(h), h.Head().Cut[0].ArrivalMs)
	}
}

// planned is a genesis as far as plans read it.
func planned() *wire.Genesis {
	g := &wire.Genesis{Rounds: 100, Group: wire.MaxMembers, Preset: Presets[slices.IndexFunc(Presets, func(p Preset) bool { return p.Name == "diloco" })].Preset,
		Deadline: wire.Deadline{MinMs: 100, MaxMs: 60_000, Mads: 4}}
	g.Preset.Inner.Batch, g.Preset.Cadence.Steps = 4, 30
	return g
}
