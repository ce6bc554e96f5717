package elastic

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apiary-net/hived/wire"
)

// Groups cut the peers into pieces of almost one size, and another seed deals
// them anew.
func TestGroupsOf(t *testing.T) {
	var peers []wire.PeerID
	for i := range 100 {
		d := wire.Sum([]byte{byte(i)})
		peers = append(peers, wire.PeerID(d))
	}
	slices.SortFunc(peers, wire.PeerID.Compare)
	for n := 1; n <= len(peers); n++ {
		for _, size := range []int{2, 3, 8, 32} {
			groups := groupsOf(wire.Sum([]byte("seed")), peers[:n], size)
			if want := (n + size - 1) / size; len(groups) != want {
				t.Fatalf("%d peers in groups of %d: %d groups, want %d", n, size, len(groups), want)
			}
			var all []wire.PeerID
			least, most := n, 0
			for _, g := range groups {
				if !slices.IsSortedFunc(g, wire.PeerID.Compare) {
					t.Fatal("members are not ascending")
				}
				least, most = min(least, len(g)), max(most, len(g))
				all = append(all, g...)
			}
			slices.SortFunc(all, wire.PeerID.Compare)
			if !slices.Equal(all, peers[:n]) || most > size || most-least > 1 {
				t.Fatalf("%d peers in groups of %d: sizes %d to %d, %d members", n, size, least, most, len(all))
			}
		}
	}
	a, b := groupsOf(wire.Sum([]byte("a")), peers, 8), groupsOf(wire.Sum([]byte("b")), peers, 8)
	same := 0
	for i := range a {
		for _, p := range a[i] {
			if slices.Contains(b[i], p) {
				same++
			}
		}
	}
	if same > 30 { // 100/13 are expected
		t.Fatalf("%d of 100 peers stay in their group under another seed", same)
	}
}

// groupBench is a run of n peers in groups of size.
func groupBench(n, size int) (*bench, *Plan) {
	b := newBench(n, func(g *wire.Genesis) { g.Group = uint32(size) })
	return b, MakePlan(b.g, b.h)
}

func (b *bench) setting(plan *Plan) setting { return setting{b.g, b.run, b.h.Head(), plan} }

func (b *bench) index(p wire.PeerID) int {
	return slices.IndexFunc(b.keys, func(k wire.Key) bool { return k.Peer() == p })
}

// groupInputs returns headers and HAVEs of a group in which everything is well.
func (b *bench) groupInputs(plan *Plan, group int) (headers, haves []wire.Envelope) {
	for _, p := range plan.Groups[group] {
		headers = append(headers, b.header(b.index(p), nil))
	}
	for _, p := range plan.Groups[group] {
		haves = append(haves, b.groupHave(b.index(p), headers))
	}
	return headers, haves
}

func (b *bench) groupHave(i int, headers []wire.Envelope) wire.Envelope {
	h := &wire.Have{Seq: 1}
	for _, e := range headers {
		h.Items = append(h.Items, wire.HaveItem{Header: e.Digest(), State: wire.HaveWhole, Ms: uint32(100 + i)})
	}
	slices.SortFunc(h.Items, func(x, y wire.HaveItem) int { return x.Header.Compare(y.Header) })
	return wire.Seal(b.keys[i], wire.KindGroupHave, b.run, b.h.Head().Round+1, h)
}

// result has the first signers members of a group sign what change makes of the
// outcome of a good cut.
func (b *bench) result(t *testing.T, plan *Plan, group, signers int, change func(*wire.GroupOutcome)) wire.GroupResult {
	t.Helper()
	headers, haves := b.groupInputs(plan, group)
	v, err := b.setting(plan).composeGroup(group, headers, haves)
	if err != nil {
		t.Fatal(err)
	}
	o := v.Outcome
	o.Merged, o.Nonces = wire.ManifestCID(fmt.Appendf(nil, "merged %d", group)), wire.Sum([]byte{byte(group)})
	if change != nil {
		change(&o)
	}
	return b.sign(plan, o, signers)
}

func (b *bench) sign(plan *Plan, o wire.GroupOutcome, signers int) wire.GroupResult {
	members := plan.Groups[o.Group]
	r := wire.GroupResult{Outcome: o, Signers: make([]byte, (len(members)+7)/8)}
	for i, p := range members[:signers] {
		e := wire.Seal(b.keys[b.index(p)], wire.KindGroupVote, b.run, plan.Round, &wire.GroupVote{Outcome: o.Digest()})
		r.Signers[i/8] |= 1 << (i % 8)
		r.Sigs = append(r.Sigs, e.Sig...)
	}
	return r
}

// groupHaves has every voter hold the outcomes.
func (b *bench) groupHaves(results []wire.GroupResult) []wire.Envelope {
	var out []wire.Envelope
	for i := range b.keys {
		if b.h.Head().Table.Of(b.keys[i].Peer()) == 0 {
			continue
		}
		h := &wire.Have{Seq: 1}
		for _, r := range results {
			h.Items = append(h.Items, wire.HaveItem{Header: r.Outcome.Digest(), State: wire.HaveWhole, Ms: 500})
		}
		slices.SortFunc(h.Items, func(x, y wire.HaveItem) int { return x.Header.Compare(y.Header) })
		out = append(out, wire.Seal(b.keys[i], wire.KindHave, b.run, b.h.Head().Round+1, h))
	}
	return out
}

func TestGroupCutIsAFunctionOfItsInputs(t *testing.T) {
	b, plan := groupBench(9, 3)
	headers, haves := b.groupInputs(plan, 1)
	v, err := b.setting(plan).composeGroup(1, headers, haves)
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Counted) != len(plan.Groups[1]) || v.Outcome.Weight() == 0 {
		t.Fatalf("%d of %d count, weight %d", len(v.Counted), len(plan.Groups[1]), v.Outcome.Weight())
	}
	slices.Reverse(headers)
	slices.Reverse(haves)
	again, err := b.setting(plan).composeGroup(1, headers, haves)
	if err != nil || again.Outcome.Digest() != v.Outcome.Digest() {
		t.Fatalf("the order of the inputs changes the outcome: %v", err)
	}
	opened, err := b.setting(plan).openGroupCut(&v.Cut)
	if err != nil || opened.Outcome.Digest() != v.Outcome.Digest() {
		t.Fatalf("a cut opens as another: %v", err)
	}
	slices.Reverse(v.Cut.Headers)
	if _, err := b.setting(plan).openGroupCut(&v.Cut); err == nil {
		t.Fatal("a cut out of order opens")
	}
}

// What belongs to another group, lacks two thirds, or is known but left out, makes
// no cut.
func TestGroupCutIsRefused(t *testing.T) {
	b, plan := groupBench(9, 3)
	headers, haves := b.groupInputs(plan, 0)
	others, otherHaves := b.groupInputs(plan, 1)
	for name, c := range map[string]struct {
		group          int
		headers, haves []wire.Envelope
		early          bool
	}{
		"a header of another group":  {0, append(slices.Clone(headers), others[0]), haves, false},
		"a HAVE of another group":    {0, headers, append(slices.Clone(haves), otherHaves[0]), false},
		"one HAVE of three":          {0, headers, haves[:1], true},
		"a known header is left out": {0, headers[1:], haves, false},
		"no such group":              {3, headers, haves, false},
		"voters' HAVEs":              {0, headers, []wire.Envelope{b.have(0, headers, nil)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := b.setting(plan).composeGroup(c.group, c.headers, c.haves)
			if err == nil || errors.Is(err, ErrTooEarly) != c.early {
				t.Fatalf("gives %v", err)
			}
		})
	}
}

// Late work does not ride into a round of several groups.
func TestNothingRidesInGroups(t *testing.T) {
	b, plan := groupBench(9, 3)
	headers, _ := b.groupInputs(plan, 0)
	i := b.index(plan.Groups[0][0])
	headers[slices.IndexFunc(headers, func(e wire.Envelope) bool { return e.Sender == b.keys[i].Peer() })] = b.header(i, func(h *wire.Header) { h.Late = 1 })
	var haves []wire.Envelope
	for _, p := range plan.Groups[0] {
		haves = append(haves, b.groupHave(b.index(p), headers))
	}
	v, err := b.setting(plan).composeGroup(0, headers, haves)
	if err != nil {
		t.Fatal(err)
	}
	if r := v.Outcome.Rows[0]; r.Status != wire.Refused || r.Reason != wire.ReasonSpans {
		t.Fatalf("the row is %+v", r)
	}
}

func TestGroupResultIsChecked(t *testing.T) {
	b, plan := groupBench(9, 3)
	good := b.result(t, plan, 0, 3, nil)
	if err := CheckGroupResult(b.run, plan, &good); err != nil {
		t.Fatal(err)
	}
	two := b.result(t, plan, 0, 2, nil)
	if err := CheckGroupResult(b.run, plan, &two); err != nil {
		t.Fatalf("two thirds: %v", err)
	}
	for name, r := range map[string]wire.GroupResult{
		"one signature of three": b.result(t, plan, 0, 1, nil),
		"no such group":          {Outcome: wire.GroupOutcome{Group: 9, Rows: good.Outcome.Rows}, Signers: good.Signers, Sigs: good.Sigs},
		"a changed outcome": func() wire.GroupResult {
			r := good
			r.Outcome.Norm++
			return r
		}(),
		"a row too few":          b.result(t, plan, 0, 3, func(o *wire.GroupOutcome) { o.Rows = o.Rows[1:] }),
		"samples without count":  b.result(t, plan, 0, 3, func(o *wire.GroupOutcome) { o.Rows[0].Status = wire.Late }),
		"more samples than deal": b.result(t, plan, 0, 3, func(o *wire.GroupOutcome) { o.Rows[0].Samples = 1 << 20 }),
		"weight without update":  b.result(t, plan, 0, 3, func(o *wire.GroupOutcome) { o.Merged = wire.CID{} }),
		"another run's":          b.result(t, plan, 0, 3, nil),
	} {
		run := b.run
		if name == "another run's" {
			run = wire.Sum([]byte("other"))
		}
		if err := CheckGroupResult(run, plan, &r); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestRecordOfGroups(t *testing.T) {
	b, plan := groupBench(9, 3)
	results := []wire.GroupResult{b.result(t, plan, 0, 3, nil), b.result(t, plan, 2, 2, nil)}
	in := Inputs{Groups: results, Haves: b.groupHaves(results)}
	r := b.compose(t, in)
	if len(r.Counting) != 2 || r.CountedPeers() != len(plan.Groups[0])+len(plan.Groups[2]) {
		t.Fatalf("%d groups, %d peers count", len(r.Counting), r.CountedPeers())
	}
	for _, p := range plan.Groups[1] {
		if v, _ := r.Verdict(p); v.Status != wire.Absent {
			t.Errorf("a member of the group without a result is %s", v.Status)
		}
		if s, _ := r.Seat(p); s.Active {
			t.Error("a member of the group without a result stays active")
		}
	}
	dealt := uint64(0)
	for _, p := range plan.Groups[1] {
		dealt += wire.SpanLen(plan.Share(p).Spans)
	}
	if got := wire.SpanLen(r.Returned); got != dealt {
		t.Errorf("%d positions return, %d were dealt to the absent group", got, dealt)
	}
	if s, _ := r.Seat(plan.Groups[0][0]); s.Speed == 0 {
		t.Error("the speed of a counted member is not booked")
	}
	slices.Reverse(in.Groups)
	if again := b.compose(t, in); again.Digest() != r.Digest() {
		t.Error("the order of the results changes the record")
	}
}

// Of two results of one group the heavier counts, whoever proposes.
func TestTwoResultsOfOneGroup(t *testing.T) {
	b, plan := groupBench(9, 3)
	whole := b.result(t, plan, 0, 3, nil)
	part := b.result(t, plan, 0, 3, func(o *wire.GroupOutcome) {
		o.Rows = slices.Clone(o.Rows)
		o.Rows[1] = wire.GroupRow{Status: wire.Absent}
	})
	for _, list := range [][]wire.GroupResult{{whole, part}, {part, whole}} {
		r := b.compose(t, Inputs{Groups: list, Haves: b.groupHaves(list)})
		if len(r.Counting) != 1 || CountedGroups(r)[0].Digest() != whole.Outcome.Digest() {
			t.Fatalf("%d count, the first weighs %d", len(r.Counting), CountedGroups(r)[0].Weight())
		}
	}
}

func TestRecordOfGroupsIsRefused(t *testing.T) {
	b, plan := groupBench(9, 3)
	results := []wire.GroupResult{b.result(t, plan, 0, 3, nil), b.result(t, plan, 1, 2, nil)}
	haves := b.groupHaves(results)
	for name, c := range map[string]struct {
		in   Inputs
		want string
	}{
		"a result that voters hold is left out": {Inputs{Groups: results[:1], Haves: haves}, "missing"},
		"one result twice":                      {Inputs{Groups: []wire.GroupResult{results[0], results[0]}, Haves: haves}, "say the same"},
		"a result without votes":                {Inputs{Groups: []wire.GroupResult{results[0], b.result(t, plan, 1, 1, nil)}, Haves: haves}, "signatures"},
		"headers":                               {Inputs{Groups: results, Haves: haves, Headers: []wire.Envelope{b.header(0, nil)}}, "headers"},
	} {
		if _, err := Compose(b.g, b.run, b.h, c.in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	one := newBench(3, nil)
	if _, err := Compose(one.g, one.run, one.h, Inputs{Groups: results, Haves: one.full().Haves}); err == nil {
		t.Error("a round of one group takes group results")
	}
	good, err := Compose(b.g, b.run, b.h, Inputs{Groups: results, Haves: haves})
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*wire.Record){
		"another group counts": func(r *wire.Record) { r.Counting = r.Counting[:1] },
		"a verdict":            func(r *wire.Record) { r.Cut[0].Samples++ },
		"the seed":             func(r *wire.Record) { r.Seed[0]++ },
	} {
		r, err := wire.OpenRecord(wire.Marshal(good))
		if err != nil {
			t.Fatal(err)
		}
		bad := *r
		bad.Cut, bad.Counting = slices.Clone(r.Cut), slices.Clone(r.Counting)
		spoil(&bad)
		if err := Validate(b.g, b.run, b.h, bad.Finish()); err == nil {
			t.Errorf("%s: a record with a changed field is valid", name)
		}
	}
}

// A member that pads its HAVE is not heard in a cut, which must stay small enough
// to be told.
func TestPaddedHaveIsRefused(t *testing.T) {
	b, plan := groupBench(9, 3)
	headers, haves := b.groupInputs(plan, 0)
	for name, spoil := range map[string]func(*wire.HaveItem){
		"parts": func(it *wire.HaveItem) { it.Parts = make([]byte, 100) },
		"nonce": func(it *wire.HaveItem) { it.Nonce = make([]byte, 32) },
	} {
		var h wire.Have
		if err := haves[0].Decode(&h); err != nil {
			t.Fatal(err)
		}
		spoil(&h.Items[0])
		i := b.index(haves[0].Sender)
		bad := append([]wire.Envelope{wire.Seal(b.keys[i], wire.KindGroupHave, b.run, plan.Round, &h)}, haves[1:]...)
		if _, err := b.setting(plan).composeGroup(0, slices.Clone(headers), bad); err == nil {
			t.Errorf("%s: the cut takes it", name)
		}
	}
}

// The largest group's cut can be told, and the largest run's record encoded.
func TestLargestCutAndRecord(t *testing.T) {
	item := wire.HaveItem{Header: wire.Sum(nil), State: wire.HaveRefused, Reason: wire.ReasonOversize, Ms: 1 << 30}
	have := wire.Have{Seq: 1 << 20}
	for range wire.MaxMembers {
		have.Items = append(have.Items, item)
	}
	k := wire.NewKey()
	cut := wire.GroupCut{}
	for range wire.MaxMembers {
		cut.Headers = append(cut.Headers, make([]byte, wire.MaxHeader))
		cut.Haves = append(cut.Haves, wire.Seal(k, wire.KindGroupHave, wire.RunID{}, 1<<20, &have).Bytes())
	}
	if n := len(wire.Seal(k, wire.KindGroupCut, wire.RunID{}, 1<<20, &cut).Bytes()); n > wire.MaxSaid {
		t.Errorf("the largest cut has %d bytes, limit %d", n, wire.MaxSaid)
	}
	const groups = wire.MaxSeats / 16
	r := wire.Record{Round: 1 << 20}
	votes := wire.Have{Items: slices.Repeat([]wire.HaveItem{{Header: wire.Sum(nil), State: wire.HaveWhole, Ms: 1 << 20}}, groups)}
	for range wire.MaxVoters {
		r.Haves = append(r.Haves, wire.Seal(k, wire.KindHave, wire.RunID{}, 1<<20, &votes).Bytes())
	}
	row := wire.GroupRow{Status: wire.Counted, Header: wire.Sum(nil), Samples: 1 << 16, ArrivalMs: 1 << 16, Speed: 1 << 16}
	for range groups {
		r.Groups = append(r.Groups, wire.GroupResult{Outcome: wire.GroupOutcome{Merged: wire.ManifestCID(nil), Rows: slices.Repeat([]wire.GroupRow{row}, 16)},
			Signers: make([]byte, 2), Sigs: make([]byte, 64*11)})
	}
	for range wire.MaxSeats {
		r.Cut = append(r.Cut, wire.Verdict{Status: wire.Counted, Header: wire.Sum(nil), Samples: 1 << 16, ArrivalMs: 1 << 16})
		r.Roster = append(r.Roster, wire.Seat{Rank: 1 << 13, Counted: 1 << 10, Active: true, Speed: 1 << 16})
	}
	if n := len(wire.Marshal(&r)); n > wire.MaxRecord {
		t.Errorf("a record of %d members has %d bytes, limit %d", wire.MaxSeats, n, wire.MaxRecord)
	}
}

func FuzzGroups(f *testing.F) {
	b, plan := groupBench(9, 3)
	headers, haves := b.groupInputs(plan, 0)
	v, err := b.setting(plan).composeGroup(0, headers, haves)
	if err != nil {
		f.Fatal(err)
	}
	o := v.Outcome
	o.Merged = wire.ManifestCID([]byte("merged"))
	good := b.sign(plan, o, 3)
	f.Add(wire.Marshal(&v.Cut))
	f.Add(wire.Marshal(&good))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var c wire.GroupCut
		if wire.Unmarshal(raw, &c, wire.MaxBlock) == nil {
			_, _ = b.setting(plan).openGroupCut(&c) // must not panic
		}
		var r wire.GroupResult
		if wire.Unmarshal(raw, &r, wire.MaxMessage) == nil && CheckGroupResult(b.run, plan, &r) == nil && r.Outcome.Digest() != good.Outcome.Digest() {
			t.Fatal("a result that nobody signed is good")
		}
	})
}
