package rules_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/quick"

	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/elastic/rules/rulestest"
	"github.com/apiary-net/hived/wire"
)

func TestComposeIsAFunctionOfItsInputs(t *testing.T) {
	b := rulestest.New(5, nil)
	want := b.MustCompose(t, b.Full()).Digest()
	f := func(seed uint64) bool {
		in := b.Full()
		rng := rand.New(rand.NewPCG(seed, 2))
		for _, l := range []*[]wire.Envelope{&in.Headers, &in.Haves} {
			rng.Shuffle(len(*l), func(i, j int) { (*l)[i], (*l)[j] = (*l)[j], (*l)[i] })
		}
		r, err := rules.Compose(b.Genesis, b.Run, b.History, in)
		return err == nil && r.Digest() == want
	}
	if err := quick.Check(f, &quick.Config{MaxCount: 20}); err != nil {
		t.Fatal(err)
	}
}

// Every derived field of a record is recomputed: none can be changed.
func TestValidateRefusesEveryChange(t *testing.T) {
	b := rulestest.New(4, nil)
	good := b.MustCompose(t, b.Full())
	for name, change := range map[string]func(*wire.Record){
		"cut":       func(r *wire.Record) { r.Cut[1].Status = wire.Absent },
		"samples":   func(r *wire.Record) { r.Cut[0].Samples++ },
		"arrival":   func(r *wire.Record) { r.Cut[0].ArrivalMs++ },
		"root":      func(r *wire.Record) { r.Root[0] ^= 1 },
		"certified": func(r *wire.Record) { r.Certified.Round++ },
		"seat":      func(r *wire.Record) { r.Roster[0].Active = false },
		"speed":     func(r *wire.Record) { r.Roster[0].Speed++ },
		"table":     func(r *wire.Record) { r.Table[0].Power = 9 },
		"cursor":    func(r *wire.Record) { r.Cursor-- },
		"returned":  func(r *wire.Record) { r.Returned = spans(0, 1) },
		"seed":      func(r *wire.Record) { r.Seed[5] ^= 1 },
		"steps":     func(r *wire.Record) { r.Steps++ },
		"last":      func(r *wire.Record) { r.Last = true },
		"prev":      func(r *wire.Record) { r.Prev[0] ^= 1 },
		"a header":  func(r *wire.Record) { r.Headers = r.Headers[1:] },
		"a HAVE":    func(r *wire.Record) { r.Haves = r.Haves[2:] },
		"twice":     func(r *wire.Record) { r.Haves = append(r.Haves, r.Haves[0]) },
		"order":     func(r *wire.Record) { r.Haves[0], r.Haves[1] = r.Haves[1], r.Haves[0] },
	} {
		changed := &wire.Record{}
		if err := wire.Unmarshal(good.Bytes(), changed, wire.MaxBlock); err != nil {
			t.Fatal(err)
		}
		change(changed)
		r, err := wire.OpenRecord(wire.Marshal(changed))
		if err != nil {
			t.Fatal(err)
		}
		if err := rules.Validate(b.Genesis, b.Run, b.History, r); err == nil {
			t.Errorf("a record with another %s is valid", name)
		}
	}
}

func TestWhatCounts(t *testing.T) {
	seen := wire.HaveItem{State: wire.HaveSeen}
	refused := wire.HaveItem{State: wire.HaveRefused, Reason: wire.ReasonNonFinite}
	for _, c := range []struct {
		name   string
		voters []wire.HaveItem // what each of four voters says of header 0; zero: not known
		want   wire.Status
	}{
		{"whole at all", []wire.HaveItem{{State: 2}, {State: 2}, {State: 2}, {State: 2}}, wire.Counted},
		{"whole at two of four", []wire.HaveItem{{State: 2}, {State: 2}, seen, seen}, wire.Counted},
		{"whole at one of four", []wire.HaveItem{{State: 2}, seen, seen, seen}, wire.Late},
		{"seen by two", []wire.HaveItem{seen, seen, {}, {}}, wire.Late},
		{"seen by one", []wire.HaveItem{seen, {}, {}, {}}, wire.Absent},
		{"refused by two, whole at two", []wire.HaveItem{refused, refused, {State: 2}, {State: 2}}, wire.Refused},
		{"refused by one liar", []wire.HaveItem{refused, {State: 2}, {State: 2}, {State: 2}}, wire.Counted},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := rulestest.New(4, nil)
			in := b.Full()
			d := in.Headers[0].Digest()
			in.Haves = nil
			for i, it := range c.voters {
				other := map[wire.Digest]wire.HaveItem{d: it}
				if it.State == wire.HaveWhole {
					other = nil
				}
				in.Haves = append(in.Haves, b.Have(i, in.Headers, other))
			}
			r := b.MustCompose(t, in)
			if v := b.Status(r, 0); v.Status != c.want {
				t.Fatalf("%s, want %s", v.Status, c.want)
			}
			if n := r.CountedPeers(); c.want != wire.Counted && n != 3 {
				t.Fatalf("%d others count", n)
			}
		})
	}
}

func TestQuorumOfHaves(t *testing.T) {
	b := rulestest.New(4, nil)
	in := b.Full()
	in.Haves = in.Haves[:2]
	if _, err := rules.Compose(b.Genesis, b.Run, b.History, in); !errors.Is(err, rules.ErrTooEarly) {
		t.Fatalf("two HAVEs of four: %v", err)
	}
	// A header known to more than a third cannot be left out.
	in = b.Full()
	in.Headers = in.Headers[1:]
	if _, err := rules.Compose(b.Genesis, b.Run, b.History, in); err == nil || errors.Is(err, rules.ErrTooEarly) {
		t.Fatalf("a censored header: %v", err)
	}
}

func TestCopiesAndEquivocation(t *testing.T) {
	b := rulestest.New(4, nil)
	in := b.Full()
	in.Headers[2] = b.Header(2, func(h *wire.Header) { h.Root = wire.Sum([]byte{1, 1}) }) // that of peer 1
	in.Haves = nil
	for i := range b.Keys {
		in.Haves = append(in.Haves, b.Have(i, in.Headers, nil))
	}
	r := b.MustCompose(t, in)
	if v := b.Status(r, 2); v.Status != wire.Refused || v.Reason != wire.ReasonCopy {
		t.Fatalf("the copy is %s %s", v.Status, v.Reason)
	}
	in = b.Full()
	in.Headers = append(in.Headers, b.Header(3, func(h *wire.Header) { h.Loss = 2 }))
	r = b.MustCompose(t, in)
	if v := b.Status(r, 3); v.Status != wire.Equivocated {
		t.Fatalf("two headers are %s", v.Status)
	}
	if len(r.Headers) != 5 {
		t.Fatalf("%d headers stand in the record, want both of the equivocator", len(r.Headers))
	}
}

// Who says READY in time is back, and votes on: a kill and a restart miss three
// records, and a table that lost a voter at each would soon have none to spare. Who
// says READY and does nothing is out.
func TestReadyKeepsTheVote(t *testing.T) {
	b := rulestest.New(5, nil)
	p := b.Keys[4].Peer()
	ready := func() *wire.Record {
		in := b.Full()
		in.Readys = []wire.Envelope{wire.Seal(b.Keys[4], wire.KindReady, b.Run, b.History.Head().Round, &wire.Ready{Version: wire.ManifestCID([]byte("v")), Schema: b.Genesis.Schema, Data: b.Genesis.Data[0].Root})}
		b.History = b.History.With(b.MustCompose(t, in))
		return b.History.Head()
	}
	b.Drive(t, 2, 4)
	if r := ready(); r.Table.Of(p) == 0 {
		t.Fatalf("it is back in the third record, and the table is %+v", r.Table)
	}
	if r := b.Drive(t, 1); r.Table.Of(p) == 0 {
		t.Fatalf("it counts, and the table is %+v", r.Table)
	}
	b.Drive(t, 1, 4)
	ready()
	if r := b.Drive(t, 1, 4); r.Table.Of(p) != 0 {
		t.Fatalf("it was ready and did nothing, and the table is %+v", r.Table)
	}
}

// Losses one after another never stop a run: the table shrinks by record.
func TestTableShrinksAndGrows(t *testing.T) {
	b := rulestest.New(4, nil)
	if r := b.Drive(t, 3, 3); len(r.Table) != 3 || r.Table.Of(b.Keys[3].Peer()) != 0 {
		t.Fatalf("after three records without it the table is %+v", r.Table)
	}
	if r := b.Drive(t, 3, 3, 2); len(r.Table) != 2 || r.Table[0].Power != 2 || r.Table[1].Power != 1 {
		t.Fatalf("a table of two is %+v, want powers 2 and 1", r.Table)
	}
	light := 0
	if b.History.Head().Table[0].Peer == b.Keys[0].Peer() {
		light = 1
	}
	if r := b.Drive(t, 3, 3, 2, light); len(r.Table) != 1 || r.Table[0].Power != 1 {
		t.Fatalf("a table of one is %+v", r.Table)
	}
	// Peer 3 is back: READY makes it active, ten counted records make it vote.
	in := b.Full()
	in.Readys = []wire.Envelope{wire.Seal(b.Keys[3], wire.KindReady, b.Run, b.History.Head().Round, &wire.Ready{Version: wire.ManifestCID([]byte("v")), Schema: b.Genesis.Schema, Data: b.Genesis.Data[0].Root})}
	b.History = b.History.With(b.MustCompose(t, in))
	if s, _ := b.History.Head().Seat(b.Keys[3].Peer()); !s.Active {
		t.Fatal("READY did not make the peer active")
	}
	if r := b.Drive(t, 9); r.Table.Of(b.Keys[3].Peer()) != 0 {
		t.Fatal("nine counted records make a voter")
	}
	if r := b.Drive(t, 1); r.Table.Of(b.Keys[3].Peer()) == 0 || len(r.Table) != 2 {
		t.Fatalf("after ten counted records the table is %+v", r.Table)
	}
}

func TestReadyIsChecked(t *testing.T) {
	outsider := wire.NewKey()
	for name, c := range map[string]struct {
		ready wire.Ready
		round uint64
		admit bool
	}{
		"another model":   {wire.Ready{Schema: wire.Sum([]byte("x"))}, 0, true},
		"other data":      {wire.Ready{Data: wire.Sum([]byte("x"))}, 0, true},
		"a later version": {wire.Ready{}, 5, true},
		"not on the list": {wire.Ready{}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := rulestest.New(3, func(g *wire.Genesis) {
				if !c.admit {
					g.Admission = wire.Admission{Mode: "allow-list"}
					for i := range 3 {
						var seed [32]byte
						binary.BigEndian.PutUint64(seed[:], uint64(i+1))
						k, _ := wire.KeyFromSeed(seed[:])
						g.Admission.Allow = append(g.Admission.Allow, k.Peer())
					}
					slices.SortFunc(g.Admission.Allow, wire.PeerID.Compare)
				}
			})
			in := b.Full()
			in.Readys = []wire.Envelope{wire.Seal(outsider, wire.KindReady, b.Run, c.round, &c.ready)}
			if _, err := rules.Compose(b.Genesis, b.Run, b.History, in); err == nil {
				t.Fatal("the READY is taken")
			}
		})
	}
}

// Late work rides once into the next round with its positions; each position
// counts once.
func TestLateWorkRidesOnce(t *testing.T) {
	b := rulestest.New(4, nil)
	in := b.Full()
	late := in.Headers[1]
	in.Haves = nil
	for i := range b.Keys {
		in.Haves = append(in.Haves, b.Have(i, in.Headers, map[wire.Digest]wire.HaveItem{late.Digest(): {State: wire.HaveSeen}}))
	}
	b.History = b.History.With(b.MustCompose(t, in))
	var old wire.Header
	if v := b.Status(b.History.Head(), 1); v.Status != wire.Late || late.Decode(&old) != nil {
		t.Fatalf("peer 1 is %s", v.Status)
	}
	if len(b.History.Head().Returned) != 0 {
		t.Fatalf("positions of late work are returned at once: %v", b.History.Head().Returned)
	}
	ride := func(h *wire.Header) {
		h.Late = 1
		h.Spans = append(slices.Clone(old.Spans), h.Spans...)
	}
	in = b.Full()
	in.Headers[1] = b.Header(1, ride)
	in.Haves = nil
	for i := range b.Keys {
		in.Haves = append(in.Haves, b.Have(i, in.Headers, nil))
	}
	rode := b.MustCompose(t, in)
	if v := b.Status(rode, 1); v.Status != wire.Counted || uint64(v.Samples) != 2*wire.SpanLen(old.Spans) {
		t.Fatalf("riding work is %s with %d samples", v.Status, v.Samples)
	}
	// Not carried: its positions are dealt again.
	dropped := b.Drive(t, 1)
	if !slices.Equal(dropped.Returned, old.Spans) {
		t.Fatalf("returned %v, want %v", dropped.Returned, old.Spans)
	}
}

func TestWindowCountsWhatMoreThanAThirdFinished(t *testing.T) {
	merged := []wire.CID{wire.ManifestCID([]byte("1")), wire.ManifestCID([]byte("2")), wire.ManifestCID([]byte("3"))}
	for _, c := range []struct {
		steps []uint32
		want  int
	}{
		{[]uint32{3, 3, 3, 3}, 3}, {[]uint32{2, 2, 2, 2}, 2}, {[]uint32{2, 2, 2, 3}, 2}, {[]uint32{2, 3, 3, 3}, 3}, {[]uint32{0, 0, 0, 0}, 0},
	} {
		b := rulestest.New(4, func(g *wire.Genesis) {
			p, err := rules.PresetNamed("ddp")
			if err != nil {
				panic(err)
			}
			g.Preset = p.Preset
			g.Preset.Inner.Batch, g.Preset.Cadence.Steps = 4, 3
		})
		in := rules.Inputs{}
		most := uint32(0)
		for i, n := range c.steps {
			in.Headers = append(in.Headers, b.Header(i, func(h *wire.Header) {
				h.Steps = n
				h.Spans, _ = wire.SplitSpans(h.Spans, uint64(n)*4)
				h.Root = rules.WindowRoot(merged[:n])
			}))
			most = max(most, n)
		}
		in.Merged = merged[:most]
		for i := range b.Keys {
			in.Haves = append(in.Haves, b.Have(i, in.Headers, nil))
		}
		r := b.MustCompose(t, in)
		if got := rules.WindowSteps(r, b.History.Head()); got != c.want {
			t.Errorf("steps %v: %d count, want %d", c.steps, got, c.want)
		}
		unused := 0
		for _, n := range c.steps {
			unused += 3 - min(int(n), c.want)
		}
		if back := wire.SpanLen(r.Returned); back != uint64(4*unused) {
			t.Errorf("steps %v: %d positions return, want %d", c.steps, back, 4*unused)
		}
	}
}

func spans(xs ...uint64) []wire.Span {
	out := []wire.Span{}
	for i := 0; i < len(xs); i += 2 {
		out = append(out, wire.Span{Lo: xs[i], Hi: xs[i+1]})
	}
	return out
}
