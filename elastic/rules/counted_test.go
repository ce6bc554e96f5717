package rules_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/elastic/rules/rulestest"
	"github.com/apiary-net/hived/wire"
)

// What a record counts is told from its own bytes: headers in peer order, their mean
// loss by samples and the lower median of their norms.
func TestWhatARecordCounts(t *testing.T) {
	b := rulestest.New(4, nil)
	in := b.Full()
	in.Headers, in.Haves = nil, nil
	for i := range 4 {
		in.Headers = append(in.Headers, b.Header(i, func(h *wire.Header) { h.Loss, h.Norm = float32(i+1), float32(10-i) }))
	}
	for i := range 4 {
		in.Haves = append(in.Haves, b.Have(i, in.Headers, map[wire.Digest]wire.HaveItem{in.Headers[3].Digest(): {State: wire.HaveSeen}}))
	}
	r := b.MustCompose(t, in)
	hs, err := rules.CountedHeaders(r)
	if err != nil || len(hs) != 3 {
		t.Fatalf("%d headers count (%v), want 3", len(hs), err)
	}
	for i, h := range hs {
		if h.Env.Digest() != in.Headers[i].Digest() || h.Samples != 120 {
			t.Errorf("header %d is of %s with %d samples", i, h.Env.Sender.Short(), h.Samples)
		}
	}
	if loss, n := rules.MeanLoss(r); loss != 2 || n != 360 {
		t.Errorf("mean loss %v of %d samples, want 2 of 360", loss, n)
	}
	if m := rules.MedianNorm(r); m != 9 {
		t.Errorf("median norm %v, want 9", m)
	}
	if ps := rules.ActiveIn(r); len(ps) != 4 { // who was late may carry its work
		t.Errorf("%d are active", len(ps))
	}
	r.Headers = r.Headers[1:]
	if _, err := rules.CountedHeaders(r); err == nil {
		t.Error("a counted header that the record lacks is not missed")
	}
	if loss, n := rules.MeanLoss(r); loss != 0 || n != 0 {
		t.Error("a record that lacks a header has a loss")
	}
}

// The same of a record of several groups, whose headers stand in evidence.
func TestWhatARecordOfGroupsCounts(t *testing.T) {
	b, plan := rulestest.NewGroups(6, 3)
	var results []wire.GroupResult
	for g := range plan.Groups {
		results = append(results, b.Result(t, plan, g, 3, func(o *wire.GroupOutcome) { o.Loss, o.Norm = float32(g+1), float32(g+5) }))
	}
	in := rules.Inputs{Haves: b.GroupHaves(results), Groups: slices.Clone(results)}
	r := b.MustCompose(t, in)
	if hs, err := rules.CountedHeaders(r); hs != nil || err != nil {
		t.Fatalf("%v, %v", hs, err)
	}
	if loss, n := rules.MeanLoss(r); loss != 1.5 || n != 720 {
		t.Errorf("mean loss %v of %d samples, want 1.5 of 720", loss, n)
	}
	if m := rules.MedianNorm(r); m != 5 {
		t.Errorf("median norm %v, want 5", m)
	}
	for g, o := range rules.CountedGroups(r) {
		if got := rules.MembersOf(r, o); !slices.Equal(got, plan.Groups[g]) {
			t.Errorf("group %d counts %v, want %v", g, got, plan.Groups[g])
		}
		for _, p := range plan.Groups[g] {
			if plan.GroupOf(p) != g {
				t.Errorf("%s is in group %d, want %d", p.Short(), plan.GroupOf(p), g)
			}
		}
		leaders := rules.GroupLeaders(b.History.Head().Seed, plan.Groups[g])
		if slices.SortFunc(leaders, wire.PeerID.Compare); !slices.Equal(leaders, plan.Groups[g]) {
			t.Errorf("group %d is led by others than its members", g)
		}
	}
	if plan.GroupOf(wire.PeerID{}) != -1 {
		t.Error("a stranger has a group")
	}
}

// A version is certified once two thirds of the weight computed it alike, and an
// attestation that has no place is refused.
func TestCertified(t *testing.T) {
	b := rulestest.New(4, nil)
	b.Drive(t, 2)
	attest := func(i int, round uint64, of string) wire.Envelope {
		return wire.Seal(b.Keys[i], wire.KindAttest, b.Run, round, &wire.Attest{Version: wire.ManifestCID([]byte(of))})
	}
	for name, c := range map[string]struct {
		attests []wire.Envelope
		round   uint64
		fails   bool
	}{
		"three alike":        {attests: []wire.Envelope{attest(0, 2, "v"), attest(1, 2, "v"), attest(2, 2, "v")}, round: 2},
		"two alike":          {attests: []wire.Envelope{attest(0, 2, "v"), attest(1, 2, "v")}},
		"one differs":        {attests: []wire.Envelope{attest(0, 2, "v"), attest(1, 2, "v"), attest(2, 2, "w"), attest(3, 2, "w")}},
		"the newest of both": {attests: []wire.Envelope{attest(0, 1, "u"), attest(1, 1, "u"), attest(2, 1, "u"), attest(0, 2, "v"), attest(1, 2, "v"), attest(3, 2, "v")}, round: 2},
		"of the open round":  {attests: []wire.Envelope{attest(0, 3, "v")}, fails: true},
		"of version 0":       {attests: []wire.Envelope{attest(0, 0, "v")}, fails: true},
		"of one twice":       {attests: []wire.Envelope{attest(0, 2, "v"), attest(0, 2, "w")}, fails: true},
	} {
		in := b.Full()
		in.Attests = c.attests
		r, err := rules.Compose(b.Genesis, b.Run, b.History, in)
		if c.fails != (err != nil) || err == nil && r.Certified.Round != c.round {
			t.Errorf("%s: %v, certified %+v", name, err, r)
		}
	}
}

// A start record is what its READYs give, and nothing else.
func TestStartIsValidated(t *testing.T) {
	b := rulestest.New(3, nil)
	start := b.History.Head()
	if err := rules.ValidateStart(b.Genesis, b.Run, start.Certified.Version, start); err != nil {
		t.Fatal(err)
	}
	plans := rules.NewPlans(b.Genesis)
	for range 2 {
		if err := plans.ValidStart(b.Run, start.Certified.Version, start); err != nil {
			t.Fatal(err)
		}
	}
	for name, change := range map[string]func(*wire.Record){
		"another table":     func(r *wire.Record) { r.Table = r.Table[:2] },
		"another seat":      func(r *wire.Record) { r.Roster[1].Rank = 7 },
		"a READY less":      func(r *wire.Record) { r.Readys = r.Readys[:2] },
		"a READY twice":     func(r *wire.Record) { r.Readys = append(r.Readys, r.Readys[0]) },
		"a READY that lies": func(r *wire.Record) { r.Readys[0] = []byte("no envelope") },
	} {
		r := *start
		r.Table, r.Roster, r.Readys = slices.Clone(r.Table), slices.Clone(r.Roster), slices.Clone(r.Readys)
		change(&r)
		if err := rules.ValidateStart(b.Genesis, b.Run, start.Certified.Version, r.Finish()); err == nil {
			t.Errorf("%s: valid", name)
		}
	}
	if err := plans.ValidStart(b.Run, wire.ManifestCID([]byte("other weights")), start); err == nil {
		t.Error("a start from other weights is valid")
	}
}

// Plans remembers what MakePlan gives.
func TestPlansAreThePlans(t *testing.T) {
	b := rulestest.New(3, nil)
	plans := rules.NewPlans(b.Genesis)
	for range 12 {
		want, got := rules.MakePlan(b.Genesis, b.History), plans.After(b.History)
		if fmt.Sprint(*want) != fmt.Sprint(*got) || plans.After(b.History) != got {
			t.Fatalf("round %d: %v, want %v", want.Round, *got, *want)
		}
		b.Drive(t, 1)
	}
}

// Parts are owned in order, by everybody about as many values, and each by one.
func TestPartOwners(t *testing.T) {
	var parts []wire.Part
	at := 0
	for i := range 40 {
		n := 100 + 37*(i%5)
		parts = append(parts, wire.Part{Lo: at, Hi: at + n})
		at += n
	}
	for members := 1; members <= 9; members++ {
		owned := make([]int, members)
		last := 0
		for i, o := range rules.PartOwners(parts, members) {
			if o < last || o >= members {
				t.Fatalf("%d members: part %d belongs to %d after %d", members, i, o, last)
			}
			last = o
			owned[o] += parts[i].Hi - parts[i].Lo
		}
		for o, n := range owned {
			if n < at/members-250 || n > at/members+250 {
				t.Errorf("%d members: %d owns %d of %d values", members, o, n, at)
			}
		}
	}
}

// Of the others two hold a body, whoever looks, and never its sender.
func TestTwoHold(t *testing.T) {
	b := rulestest.New(7, nil)
	var peers []wire.PeerID
	for _, k := range b.Keys {
		peers = append(peers, k.Peer())
	}
	turns := map[wire.PeerID]int{}
	for i := range 200 {
		header := wire.Sum([]byte{byte(i)})
		n := 0
		for _, p := range peers[1:] {
			if rules.Holds(header, peers[0], p, peers) {
				n++
				turns[p]++
			}
		}
		if n != 2 {
			t.Fatalf("%d hold header %d", n, i)
		}
	}
	for _, p := range peers[1:] {
		if turns[p] < 33 || turns[p] > 100 {
			t.Errorf("%s holds %d of 200 bodies, want about 67", p.Short(), turns[p])
		}
	}
}

// Inputs are ordered by round, sender and bytes.
func TestBySender(t *testing.T) {
	b := rulestest.New(2, nil)
	one := wire.Seal(b.Keys[0], wire.KindLeave, b.Run, 1, &wire.Leave{Reason: "a"})
	two := wire.Seal(b.Keys[0], wire.KindLeave, b.Run, 1, &wire.Leave{Reason: "b"})
	other := wire.Seal(b.Keys[1], wire.KindLeave, b.Run, 1, &wire.Leave{Reason: "a"})
	later := wire.Seal(b.Keys[0], wire.KindLeave, b.Run, 2, &wire.Leave{Reason: "a"})
	first, second := one.Digest(), two.Digest()
	if c := bytes.Compare(first[:], second[:]); rules.BySender(one, two) != c || rules.BySender(two, one) != -c {
		t.Error("two of one sender are not ordered by their digests")
	}
	for _, l := range [][2]wire.Envelope{{one, other}, {one, later}, {other, later}} {
		if rules.BySender(l[0], l[1]) >= 0 || rules.BySender(l[1], l[0]) <= 0 {
			t.Errorf("round %d of %s is not before round %d of %s", l[0].Round, l[0].Sender.Short(), l[1].Round, l[1].Sender.Short())
		}
	}
	if _, err := rules.PresetNamed("no such"); err == nil {
		t.Error("a preset that there is not is found")
	}
}
