package elastic

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/quick"

	"github.com/apiary-net/hived/wire"
)

// bench is a run of n peers whose start record is made.
type bench struct {
	g    *wire.Genesis
	run  wire.RunID
	keys []wire.Key // in peer order
	h    History
}

func newBench(n int, change func(*wire.Genesis)) *bench {
	b := &bench{g: genesis()}
	for i := range n {
		var seed [32]byte
		binary.BigEndian.PutUint64(seed[:], uint64(i+1))
		k, err := wire.KeyFromSeed(seed[:])
		if err != nil {
			panic(err)
		}
		b.keys = append(b.keys, k)
	}
	slices.SortFunc(b.keys, func(x, y wire.Key) int { return x.Peer().Compare(y.Peer()) })
	b.g.Creator, b.g.MinPeers = b.keys[0].Peer(), uint32(n)
	if change != nil {
		change(b.g)
	}
	b.run = wire.Sum(wire.Marshal(b.g))
	start := wire.ManifestCID([]byte("start"))
	var readys []wire.Envelope
	for _, k := range b.keys {
		readys = append(readys, wire.Seal(k, wire.KindReady, b.run, 0, &wire.Ready{Version: start, Schema: b.g.Schema, Data: b.g.Data[0].Root}))
	}
	r, err := ComposeStart(b.g, b.run, start, readys)
	if err != nil {
		panic(err)
	}
	b.h = History{r}
	return b
}

func nonceFor(k wire.Key, round uint64) []byte {
	d := wire.Sum(binary.BigEndian.AppendUint64(k.Seed(), round))
	return d[:]
}

// header seals the header of peer i for the open round; change may spoil it.
func (b *bench) header(i int, change func(*wire.Header)) wire.Envelope {
	p := MakePlan(b.g, b.h)
	s := p.Share(b.keys[i].Peer())
	h := &wire.Header{Base: wire.ManifestCID([]byte("base")), Root: wire.Sum([]byte{byte(i), byte(p.Round)}), Body: wire.RawCID([]byte{byte(i)}),
		Nonce: wire.Sum(nonceFor(b.keys[i], p.Round)), TrainMs: 100, Loss: 1}
	if s != nil {
		h.Spans, h.Steps = s.Spans, s.Steps
	}
	if change != nil {
		change(h)
	}
	return wire.Seal(b.keys[i], wire.KindHeader, b.run, p.Round, h)
}

// have seals the HAVE of voter i: whole for all headers, but for those in other.
func (b *bench) have(i int, headers []wire.Envelope, other map[wire.Digest]wire.HaveItem) wire.Envelope {
	h := &wire.Have{Seq: 1}
	for _, e := range headers {
		it := wire.HaveItem{Header: e.Digest(), State: wire.HaveWhole, Ms: uint32(100 + i)}
		for _, k := range b.keys {
			if k.Peer() == e.Sender {
				it.Nonce = nonceFor(k, e.Round)
			}
		}
		if o, ok := other[e.Digest()]; ok {
			it = o
			it.Header = e.Digest()
		}
		if it.State != 0 {
			h.Items = append(h.Items, it)
		}
	}
	slices.SortFunc(h.Items, func(x, y wire.HaveItem) int { return x.Header.Compare(y.Header) })
	return wire.Seal(b.keys[i], wire.KindHave, b.run, b.h.Head().Round+1, h)
}

// full returns the inputs of a round in which everything is well.
func (b *bench) full() Inputs {
	var in Inputs
	for i := range b.keys {
		if s, ok := b.h.Head().Seat(b.keys[i].Peer()); ok && s.Active {
			in.Headers = append(in.Headers, b.header(i, nil))
		}
	}
	for i := range b.keys {
		if b.h.Head().Table.Of(b.keys[i].Peer()) > 0 {
			in.Haves = append(in.Haves, b.have(i, in.Headers, nil))
		}
	}
	return in
}

func (b *bench) compose(t *testing.T, in Inputs) *wire.Record {
	t.Helper()
	r, err := Compose(b.g, b.run, b.h, in)
	if err != nil {
		t.Fatal(err)
	}
	if err := Validate(b.g, b.run, b.h, r); err != nil {
		t.Fatal(err)
	}
	back, err := wire.OpenRecord(wire.Marshal(r))
	if err != nil || back.Digest() != r.Digest() {
		t.Fatalf("the record does not survive its encoding: %v", err)
	}
	return r
}

func (b *bench) status(r *wire.Record, i int) wire.Verdict {
	v, _ := r.Verdict(b.keys[i].Peer())
	return v
}

func TestComposeIsAFunctionOfItsInputs(t *testing.T) {
	b := newBench(5, nil)
	want := b.compose(t, b.full()).Digest()
	f := func(seed uint64) bool {
		in := b.full()
		rng := rand.New(rand.NewPCG(seed, 2))
		for _, l := range []*[]wire.Envelope{&in.Headers, &in.Haves} {
			rng.Shuffle(len(*l), func(i, j int) { (*l)[i], (*l)[j] = (*l)[j], (*l)[i] })
		}
		r, err := Compose(b.g, b.run, b.h, in)
		return err == nil && r.Digest() == want
	}
	if err := quick.Check(f, &quick.Config{MaxCount: 20}); err != nil {
		t.Fatal(err)
	}
}

// Every derived field of a record is recomputed: none can be changed.
func TestValidateRefusesEveryChange(t *testing.T) {
	b := newBench(4, nil)
	good := b.compose(t, b.full())
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
		if err := Validate(b.g, b.run, b.h, r); err == nil {
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
			b := newBench(4, nil)
			in := b.full()
			d := in.Headers[0].Digest()
			in.Haves = nil
			for i, it := range c.voters {
				other := map[wire.Digest]wire.HaveItem{d: it}
				if it.State == wire.HaveWhole {
					other = nil
				}
				in.Haves = append(in.Haves, b.have(i, in.Headers, other))
			}
			r := b.compose(t, in)
			if v := b.status(r, 0); v.Status != c.want {
				t.Fatalf("%s, want %s", v.Status, c.want)
			}
			if n := r.CountedPeers(); c.want != wire.Counted && n != 3 {
				t.Fatalf("%d others count", n)
			}
		})
	}
}

func TestQuorumOfHaves(t *testing.T) {
	b := newBench(4, nil)
	in := b.full()
	in.Haves = in.Haves[:2]
	if _, err := Compose(b.g, b.run, b.h, in); !errors.Is(err, ErrTooEarly) {
		t.Fatalf("two HAVEs of four: %v", err)
	}
	// A header known to more than a third cannot be left out.
	in = b.full()
	in.Headers = in.Headers[1:]
	if _, err := Compose(b.g, b.run, b.h, in); err == nil || errors.Is(err, ErrTooEarly) {
		t.Fatalf("a censored header: %v", err)
	}
}

func TestCopiesAndEquivocation(t *testing.T) {
	b := newBench(4, nil)
	in := b.full()
	in.Headers[2] = b.header(2, func(h *wire.Header) { h.Root = wire.Sum([]byte{1, 1}) }) // that of peer 1
	in.Haves = nil
	for i := range b.keys {
		in.Haves = append(in.Haves, b.have(i, in.Headers, nil))
	}
	r := b.compose(t, in)
	if v := b.status(r, 2); v.Status != wire.Refused || v.Reason != wire.ReasonCopy {
		t.Fatalf("the copy is %s %s", v.Status, v.Reason)
	}
	in = b.full()
	in.Headers = append(in.Headers, b.header(3, func(h *wire.Header) { h.Loss = 2 }))
	r = b.compose(t, in)
	if v := b.status(r, 3); v.Status != wire.Equivocated {
		t.Fatalf("two headers are %s", v.Status)
	}
	if len(r.Headers) != 5 {
		t.Fatalf("%d headers stand in the record, want both of the equivocator", len(r.Headers))
	}
}

// drive decides rounds in which the peers in away take no part.
func (b *bench) drive(t *testing.T, rounds int, away ...int) *wire.Record {
	t.Helper()
	for range rounds {
		in := b.full()
		drop := func(e wire.Envelope) bool {
			return slices.ContainsFunc(away, func(i int) bool { return b.keys[i].Peer() == e.Sender })
		}
		in.Headers = slices.DeleteFunc(in.Headers, drop)
		in.Haves = nil
		for i, k := range b.keys {
			if b.h.Head().Table.Of(k.Peer()) > 0 && !slices.Contains(away, i) {
				in.Haves = append(in.Haves, b.have(i, in.Headers, nil))
			}
		}
		b.h = b.h.With(b.compose(t, in))
	}
	return b.h.Head()
}

// Who says READY in time is back, and votes on: a kill and a restart miss three
// records, and a table that lost a voter at each would soon have none to spare. Who
// says READY and does nothing is out.
func TestReadyKeepsTheVote(t *testing.T) {
	b := newBench(5, nil)
	p := b.keys[4].Peer()
	ready := func() *wire.Record {
		in := b.full()
		in.Readys = []wire.Envelope{wire.Seal(b.keys[4], wire.KindReady, b.run, b.h.Head().Round, &wire.Ready{Version: wire.ManifestCID([]byte("v")), Schema: b.g.Schema, Data: b.g.Data[0].Root})}
		b.h = b.h.With(b.compose(t, in))
		return b.h.Head()
	}
	b.drive(t, 2, 4)
	if r := ready(); r.Table.Of(p) == 0 {
		t.Fatalf("it is back in the third record, and the table is %+v", r.Table)
	}
	if r := b.drive(t, 1); r.Table.Of(p) == 0 {
		t.Fatalf("it counts, and the table is %+v", r.Table)
	}
	b.drive(t, 1, 4)
	ready()
	if r := b.drive(t, 1, 4); r.Table.Of(p) != 0 {
		t.Fatalf("it was ready and did nothing, and the table is %+v", r.Table)
	}
}

// Losses one after another never stop a run: the table shrinks by record.
func TestTableShrinksAndGrows(t *testing.T) {
	b := newBench(4, nil)
	if r := b.drive(t, 3, 3); len(r.Table) != 3 || r.Table.Of(b.keys[3].Peer()) != 0 {
		t.Fatalf("after three records without it the table is %+v", r.Table)
	}
	if r := b.drive(t, 3, 3, 2); len(r.Table) != 2 || r.Table[0].Power != 2 || r.Table[1].Power != 1 {
		t.Fatalf("a table of two is %+v, want powers 2 and 1", r.Table)
	}
	light := 0
	if b.h.Head().Table[0].Peer == b.keys[0].Peer() {
		light = 1
	}
	if r := b.drive(t, 3, 3, 2, light); len(r.Table) != 1 || r.Table[0].Power != 1 {
		t.Fatalf("a table of one is %+v", r.Table)
	}
	// Peer 3 is back: READY makes it active, ten counted records make it vote.
	in := b.full()
	in.Readys = []wire.Envelope{wire.Seal(b.keys[3], wire.KindReady, b.run, b.h.Head().Round, &wire.Ready{Version: wire.ManifestCID([]byte("v")), Schema: b.g.Schema, Data: b.g.Data[0].Root})}
	b.h = b.h.With(b.compose(t, in))
	if s, _ := b.h.Head().Seat(b.keys[3].Peer()); !s.Active {
		t.Fatal("READY did not make the peer active")
	}
	if r := b.drive(t, 9); r.Table.Of(b.keys[3].Peer()) != 0 {
		t.Fatal("nine counted records make a voter")
	}
	if r := b.drive(t, 1); r.Table.Of(b.keys[3].Peer()) == 0 || len(r.Table) != 2 {
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
			b := newBench(3, func(g *wire.Genesis) {
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
			in := b.full()
			in.Readys = []wire.Envelope{wire.Seal(outsider, wire.KindReady, b.run, c.round, &c.ready)}
			if _, err := Compose(b.g, b.run, b.h, in); err == nil {
				t.Fatal("the READY is taken")
			}
		})
	}
}

// Late work rides once into the next round with its positions; each position
// counts once.
func TestLateWorkRidesOnce(t *testing.T) {
	b := newBench(4, nil)
	in := b.full()
	late := in.Headers[1]
	in.Haves = nil
	for i := range b.keys {
		in.Haves = append(in.Haves, b.have(i, in.Headers, map[wire.Digest]wire.HaveItem{late.Digest(): {State: wire.HaveSeen}}))
	}
	b.h = b.h.With(b.compose(t, in))
	var old wire.Header
	if v := b.status(b.h.Head(), 1); v.Status != wire.Late || late.Decode(&old) != nil {
		t.Fatalf("peer 1 is %s", v.Status)
	}
	if len(b.h.Head().Returned) != 0 {
		t.Fatalf("positions of late work are returned at once: %v", b.h.Head().Returned)
	}
	ride := func(h *wire.Header) {
		h.Late = 1
		h.Spans = append(slices.Clone(old.Spans), h.Spans...)
	}
	in = b.full()
	in.Headers[1] = b.header(1, ride)
	in.Haves = nil
	for i := range b.keys {
		in.Haves = append(in.Haves, b.have(i, in.Headers, nil))
	}
	rode := b.compose(t, in)
	if v := b.status(rode, 1); v.Status != wire.Counted || uint64(v.Samples) != 2*wire.SpanLen(old.Spans) {
		t.Fatalf("riding work is %s with %d samples", v.Status, v.Samples)
	}
	// Not ridden: its positions are dealt again.
	dropped := b.drive(t, 1)
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
		b := newBench(4, func(g *wire.Genesis) {
			p, err := PresetNamed("ddp")
			if err != nil {
				panic(err)
			}
			g.Preset = p.Preset
			g.Preset.Inner.Batch, g.Preset.Cadence.Steps = 4, 3
		})
		in := Inputs{}
		most := uint32(0)
		for i, n := range c.steps {
			in.Headers = append(in.Headers, b.header(i, func(h *wire.Header) {
				h.Steps = n
				h.Spans, _ = wire.SplitSpans(h.Spans, uint64(n)*4)
				h.Root = WindowRoot(merged[:n])
			}))
			most = max(most, n)
		}
		in.Merged = merged[:most]
		for i := range b.keys {
			in.Haves = append(in.Haves, b.have(i, in.Headers, nil))
		}
		r := b.compose(t, in)
		if got := WindowSteps(r, b.h.Head()); got != c.want {
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

func TestCoversIsBounded(t *testing.T) {
	if covers([]byte{0xff}, 9) || !covers([]byte{0xff, 1}, 9) || !covers(nil, 0) || covers(nil, 1) {
		t.Fatal("bitmap of parts is read wrongly")
	}
}

func FuzzPull(f *testing.F) {
	f.Add(wire.Marshal(pullRequest{Next: 3, Known: [][]byte{{1, 2, 3, 4, 5, 6, 7, 8}}}))
	f.Add(wire.Marshal(Answer{Items: [][]byte{wire.Marshal(chainItem{Record: []byte{1}})}}))
	f.Add(wire.Marshal(slice{Round: 1, Data: []byte{1}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var q pullRequest
		if wire.Unmarshal(b, &q, maxPullRequest) == nil && !bytes.Equal(wire.Marshal(q), b) {
			t.Fatal("a request has two encodings")
		}
		var a Answer
		if wire.Unmarshal(b, &a, maxPullAnswer) == nil && !bytes.Equal(wire.Marshal(a), b) {
			t.Fatal("an answer has two encodings")
		}
		var s slice
		if wire.Unmarshal(b, &s, MaxSlice) == nil && !bytes.Equal(wire.Marshal(s), b) {
			t.Fatal("a slice has two encodings")
		}
		if p, err := ParseProven(b); err == nil && p.Record == nil {
			t.Fatal("a record file without a record")
		}
		_, _ = ParseAttests(b) // must not panic
	})
}
