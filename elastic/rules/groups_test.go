package rules_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/elastic/rules/rulestest"
	"github.com/apiary-net/hived/wire"
)

func TestGroupCutIsAFunctionOfItsInputs(t *testing.T) {
	b, plan := rulestest.NewGroups(9, 3)
	headers, haves := b.GroupInputs(plan, 1)
	v, err := b.Setting(plan).ComposeGroup(1, headers, haves)
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Counted) != len(plan.Groups[1]) || v.Outcome.Weight() == 0 {
		t.Fatalf("%d of %d count, weight %d", len(v.Counted), len(plan.Groups[1]), v.Outcome.Weight())
	}
	slices.Reverse(headers)
	slices.Reverse(haves)
	again, err := b.Setting(plan).ComposeGroup(1, headers, haves)
	if err != nil || again.Outcome.Digest() != v.Outcome.Digest() {
		t.Fatalf("the order of the inputs changes the outcome: %v", err)
	}
	opened, err := b.Setting(plan).OpenGroupCut(&v.Cut)
	if err != nil || opened.Outcome.Digest() != v.Outcome.Digest() {
		t.Fatalf("a cut opens as another: %v", err)
	}
	slices.Reverse(v.Cut.Headers)
	if _, err := b.Setting(plan).OpenGroupCut(&v.Cut); err == nil {
		t.Fatal("a cut out of order opens")
	}
}

// What belongs to another group, lacks two thirds, or is known but left out, makes
// no cut.
func TestGroupCutIsRefused(t *testing.T) {
	b, plan := rulestest.NewGroups(9, 3)
	headers, haves := b.GroupInputs(plan, 0)
	others, otherHaves := b.GroupInputs(plan, 1)
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
		"voters' HAVEs":              {0, headers, []wire.Envelope{b.Have(0, headers, nil)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := b.Setting(plan).ComposeGroup(c.group, c.headers, c.haves)
			if err == nil || errors.Is(err, rules.ErrTooEarly) != c.early {
				t.Fatalf("gives %v", err)
			}
		})
	}
}

// Late work does not ride into a round of several groups.
func TestNothingRidesInGroups(t *testing.T) {
	b, plan := rulestest.NewGroups(9, 3)
	headers, _ := b.GroupInputs(plan, 0)
	i := b.Index(plan.Groups[0][0])
	headers[slices.IndexFunc(headers, func(e wire.Envelope) bool { return e.Sender == b.Keys[i].Peer() })] = b.Header(i, func(h *wire.Header) { h.Late = 1 })
	var haves []wire.Envelope
	for _, p := range plan.Groups[0] {
		haves = append(haves, b.GroupHave(b.Index(p), headers))
	}
	v, err := b.Setting(plan).ComposeGroup(0, headers, haves)
	if err != nil {
		t.Fatal(err)
	}
	if r := v.Outcome.Rows[0]; r.Status != wire.Refused || r.Reason != wire.ReasonSpans {
		t.Fatalf("the row is %+v", r)
	}
}

func TestGroupResultIsChecked(t *testing.T) {
	b, plan := rulestest.NewGroups(9, 3)
	good := b.Result(t, plan, 0, 3, nil)
	if err := rules.CheckGroupResult(b.Run, plan, &good); err != nil {
		t.Fatal(err)
	}
	two := b.Result(t, plan, 0, 2, nil)
	if err := rules.CheckGroupResult(b.Run, plan, &two); err != nil {
		t.Fatalf("two thirds: %v", err)
	}
	for name, r := range map[string]wire.GroupResult{
		"one signature of three": b.Result(t, plan, 0, 1, nil),
		"no such group":          {Outcome: wire.GroupOutcome{Group: 9, Rows: good.Outcome.Rows}, Signers: good.Signers, Sigs: good.Sigs},
		"a changed outcome": func() wire.GroupResult {
			r := good
			r.Outcome.Norm++
			return r
		}(),
		"a row too few":          b.Result(t, plan, 0, 3, func(o *wire.GroupOutcome) { o.Rows = o.Rows[1:] }),
		"samples without count":  b.Result(t, plan, 0, 3, func(o *wire.GroupOutcome) { o.Rows[0].Status = wire.Late }),
		"more samples than deal": b.Result(t, plan, 0, 3, func(o *wire.GroupOutcome) { o.Rows[0].Samples = 1 << 20 }),
		"weight without update":  b.Result(t, plan, 0, 3, func(o *wire.GroupOutcome) { o.Merged = wire.CID{} }),
		"another run's":          b.Result(t, plan, 0, 3, nil),
	} {
		run := b.Run
		if name == "another run's" {
			run = wire.Sum([]byte("other"))
		}
		if err := rules.CheckGroupResult(run, plan, &r); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestRecordOfGroups(t *testing.T) {
	b, plan := rulestest.NewGroups(9, 3)
	results := []wire.GroupResult{b.Result(t, plan, 0, 3, nil), b.Result(t, plan, 2, 2, nil)}
	in := rules.Inputs{Groups: results, Haves: b.GroupHaves(results)}
	r := b.MustCompose(t, in)
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
	if again := b.MustCompose(t, in); again.Digest() != r.Digest() {
		t.Error("the order of the results changes the record")
	}
}

// Of two results of one group the heavier counts, whoever proposes.
func TestTwoResultsOfOneGroup(t *testing.T) {
	b, plan := rulestest.NewGroups(9, 3)
	whole := b.Result(t, plan, 0, 3, nil)
	part := b.Result(t, plan, 0, 3, func(o *wire.GroupOutcome) {
		o.Rows = slices.Clone(o.Rows)
		o.Rows[1] = wire.GroupRow{Status: wire.Absent}
	})
	for _, list := range [][]wire.GroupResult{{whole, part}, {part, whole}} {
		r := b.MustCompose(t, rules.Inputs{Groups: list, Haves: b.GroupHaves(list)})
		if len(r.Counting) != 1 || rules.CountedGroups(r)[0].Digest() != whole.Outcome.Digest() {
			t.Fatalf("%d count, the first weighs %d", len(r.Counting), rules.CountedGroups(r)[0].Weight())
		}
	}
}

func TestRecordOfGroupsIsRefused(t *testing.T) {
	b, plan := rulestest.NewGroups(9, 3)
	results := []wire.GroupResult{b.Result(t, plan, 0, 3, nil), b.Result(t, plan, 1, 2, nil)}
	haves := b.GroupHaves(results)
	for name, c := range map[string]struct {
		in   rules.Inputs
		want string
	}{
		"a result that voters hold is left out": {rules.Inputs{Groups: results[:1], Haves: haves}, "missing"},
		"one result twice":                      {rules.Inputs{Groups: []wire.GroupResult{results[0], results[0]}, Haves: haves}, "say the same"},
		"a result without votes":                {rules.Inputs{Groups: []wire.GroupResult{results[0], b.Result(t, plan, 1, 1, nil)}, Haves: haves}, "signatures"},
		"headers":                               {rules.Inputs{Groups: results, Haves: haves, Headers: []wire.Envelope{b.Header(0, nil)}}, "headers"},
	} {
		if _, err := rules.Compose(b.Genesis, b.Run, b.History, c.in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	one := rulestest.New(3, nil)
	if _, err := rules.Compose(one.Genesis, one.Run, one.History, rules.Inputs{Groups: results, Haves: one.Full().Haves}); err == nil {
		t.Error("a round of one group takes group results")
	}
	good, err := rules.Compose(b.Genesis, b.Run, b.History, rules.Inputs{Groups: results, Haves: haves})
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
		if err := rules.Validate(b.Genesis, b.Run, b.History, bad.Finish()); err == nil {
			t.Errorf("%s: a record with a changed field is valid", name)
		}
	}
}

// A member that pads its HAVE is not heard in a cut, which must stay small enough
// to be told.
func TestPaddedHaveIsRefused(t *testing.T) {
	b, plan := rulestest.NewGroups(9, 3)
	headers, haves := b.GroupInputs(plan, 0)
	for name, spoil := range map[string]func(*wire.HaveItem){
		"parts": func(it *wire.HaveItem) { it.Parts = make([]byte, 100) },
		"nonce": func(it *wire.HaveItem) { it.Nonce = make([]byte, 32) },
	} {
		var h wire.Have
		if err := haves[0].Decode(&h); err != nil {
			t.Fatal(err)
		}
		spoil(&h.Items[0])
		i := b.Index(haves[0].Sender)
		bad := append([]wire.Envelope{wire.Seal(b.Keys[i], wire.KindGroupHave, b.Run, plan.Round, &h)}, haves[1:]...)
		if _, err := b.Setting(plan).ComposeGroup(0, slices.Clone(headers), bad); err == nil {
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
	b, plan := rulestest.NewGroups(9, 3)
	headers, haves := b.GroupInputs(plan, 0)
	v, err := b.Setting(plan).ComposeGroup(0, headers, haves)
	if err != nil {
		f.Fatal(err)
	}
	o := v.Outcome
	o.Merged = wire.ManifestCID([]byte("merged"))
	good := b.Sign(plan, o, 3)
	f.Add(wire.Marshal(&v.Cut))
	f.Add(wire.Marshal(&good))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var c wire.GroupCut
		if wire.Unmarshal(raw, &c, wire.MaxBlock) == nil {
			_, _ = b.Setting(plan).OpenGroupCut(&c) // must not panic
		}
		var r wire.GroupResult
		if wire.Unmarshal(raw, &r, wire.MaxMessage) == nil && rules.CheckGroupResult(b.Run, plan, &r) == nil && r.Outcome.Digest() != good.Outcome.Digest() {
			t.Fatal("a result that nobody signed is good")
		}
	})
}
