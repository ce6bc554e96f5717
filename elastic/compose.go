package elastic

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/apiary-net/hived/wire"
)

// Rules of the roster and the table.
const (
	missedToLeaveTable = 3  // records in a row without a counted contribution
	countedToVote      = 10 // records in a row with one
	latesToRest        = 2  // records in a row in which a peer was late
	maxReadyBehind     = 1  // a READY names version r-1 or later
	maxReturned        = 512
)

// Inputs is what peers signed for a round, as far as the one who composes a
// record knows it. The order is free; envelopes must have been opened.
type Inputs struct {
	Headers, Haves, Readys, Attests, Leaves, Stops []wire.Envelope
	Merged                                         []wire.CID // of a window
}

// ErrTooEarly is returned by Compose while the inputs do not yet allow a record.
var ErrTooEarly = errors.New("too early for a record")

// composer holds one composition. Its fields are filled from top to bottom.
type composer struct {
	g    *wire.Genesis
	run  wire.RunID
	prev *wire.Record
	plan *Plan
	in   Inputs
	rec  *wire.Record

	headers map[wire.Digest]header
	tally   map[wire.Digest]*tally
}

type header struct {
	env wire.Envelope
	wire.Header
}

// tally is what the HAVEs say of one header, in voting weight.
type tally struct {
	known, whole uint64
	refused      map[wire.Reason]uint64
	ms           []uint32
	nonces       [][]byte
	parts        []byte // union of the parts that somebody holds
}

// Compose returns the record of the round after h's head. It is a pure function:
// everybody who has the same inputs gets the same bytes. It returns ErrTooEarly
// while HAVEs of less than two thirds of the weight or fewer than min_counted
// contributions are there, and another error if an input has no place in the
// record.
func Compose(g *wire.Genesis, run wire.RunID, h History, in Inputs) (*wire.Record, error) {
	c := &composer{g: g, run: run, prev: h.Head(), plan: MakePlan(g, h), in: in,
		headers: map[wire.Digest]header{}, tally: map[wire.Digest]*tally{}}
	if c.prev.Last {
		return nil, errors.New("compose record: the run has ended")
	}
	c.rec = &wire.Record{V: 1, Run: run, Round: c.plan.Round, Prev: c.prev.Digest(), Certified: c.prev.Certified}
	for _, f := range []func() error{c.takeHeaders, c.takeHaves, c.cut, c.certify, c.seat, c.positions} {
		if err := f(); err != nil {
			return nil, fmt.Errorf("compose record %d: %w", c.rec.Round, err)
		}
	}
	c.finish()
	return c.rec.Finish(), nil
}

// Validate checks that r is the record that its own inputs give.
func Validate(g *wire.Genesis, run wire.RunID, h History, r *wire.Record) error {
	in, err := inputsOf(r)
	if err != nil {
		return fmt.Errorf("validate record %d: %w", r.Round, err)
	}
	want, err := Compose(g, run, h, in)
	if err != nil {
		return err
	}
	if !bytes.Equal(want.Bytes(), r.Bytes()) {
		return fmt.Errorf("validate record %d: its inputs give another record", r.Round)
	}
	return nil
}

func inputsOf(r *wire.Record) (Inputs, error) {
	in := Inputs{Merged: r.Merged}
	for _, l := range []struct {
		raw [][]byte
		out *[]wire.Envelope
	}{{r.Headers, &in.Headers}, {r.Haves, &in.Haves}, {r.Readys, &in.Readys}, {r.Attests, &in.Attests}, {r.Leaves, &in.Leaves}, {r.Stops, &in.Stops}} {
		for _, b := range l.raw {
			e, err := wire.Open(b)
			if err != nil {
				return in, err
			}
			*l.out = append(*l.out, e)
		}
	}
	return in, nil
}

// bySender orders envelopes by round, sender and bytes.
func bySender(a, b wire.Envelope) int {
	if a.Round != b.Round {
		if a.Round < b.Round {
			return -1
		}
		return 1
	}
	if c := a.Sender.Compare(b.Sender); c != 0 {
		return c
	}
	return a.Digest().Compare(b.Digest())
}

// admit checks and sorts one kind of input and returns it encoded. A sender
// stands once in a list unless twice is set.
func (c *composer) admit(list []wire.Envelope, kind wire.Kind, twice bool) ([][]byte, error) {
	slices.SortFunc(list, bySender)
	out := [][]byte{}
	for i, e := range list {
		if e.Kind != kind || e.Run != c.run {
			return nil, fmt.Errorf("a %s of run %s among the %ss", e.Kind, e.Run.Short(), kind)
		}
		if i > 0 && list[i-1].Sender == e.Sender && list[i-1].Round == e.Round && (!twice || list[i-1].Digest() == e.Digest()) {
			return nil, fmt.Errorf("two %ss of %s", kind, e.Sender.Short())
		}
		out = append(out, e.Bytes())
	}
	return out, nil
}

func (c *composer) takeHeaders() (err error) {
	if c.rec.Headers, err = c.admit(c.in.Headers, wire.KindHeader, true); err != nil {
		return err
	}
	for i, e := range c.in.Headers {
		if e.Round != c.rec.Round || c.plan.Share(e.Sender) == nil {
			return fmt.Errorf("header of %s for round %d, who is not planned for", e.Sender.Short(), e.Round)
		}
		if len(c.rec.Headers[i]) > wire.MaxHeader {
			return fmt.Errorf("header of %s has %d bytes, limit %d", e.Sender.Short(), len(c.rec.Headers[i]), wire.MaxHeader)
		}
		var h wire.Header
		if err := e.Decode(&h); err != nil {
			return err
		}
		c.headers[e.Digest()] = header{e, h}
	}
	return nil
}

func (c *composer) takeHaves() (err error) {
	if c.rec.Haves, err = c.admit(c.in.Haves, wire.KindHave, false); err != nil {
		return err
	}
	weight := uint64(0)
	for _, e := range c.in.Haves {
		power := c.prev.Table.Of(e.Sender)
		owner := c.g.Preset.Reduced() && c.plan.Share(e.Sender) != nil
		if power == 0 && !owner || e.Round != c.rec.Round {
			return fmt.Errorf("HAVE of %s for round %d, who does not vote", e.Sender.Short(), e.Round)
		}
		var h wire.Have
		if err := e.Decode(&h); err != nil {
			return err
		}
		weight += power
		for _, it := range h.Items {
			c.count(it, power)
		}
	}
	if !c.prev.Table.Quorum(weight) {
		return fmt.Errorf("%w: HAVEs of weight %d of %d", ErrTooEarly, weight, c.prev.Table.Total())
	}
	for d, t := range c.tally {
		if _, ok := c.headers[d]; !ok && c.prev.Table.More(t.known) {
			return fmt.Errorf("header %s is known to more than a third but missing", d.Short())
		}
	}
	return nil
}

func (c *composer) count(it wire.HaveItem, power uint64) {
	t := c.tally[it.Header]
	if t == nil {
		t = &tally{refused: map[wire.Reason]uint64{}}
		c.tally[it.Header] = t
	}
	t.known += power
	switch it.State {
	case wire.HaveWhole:
		t.whole += power
		t.ms = append(t.ms, it.Ms)
		t.nonces = append(t.nonces, it.Nonce)
		for i, b := range it.Parts {
			if i == len(t.parts) {
				t.parts = append(t.parts, 0)
			}
			t.parts[i] |= b
		}
	case wire.HaveRefused:
		t.refused[it.Reason] += power
	}
}

// cut judges every planned peer.
func (c *composer) cut() error {
	c.rec.Cut = []wire.Verdict{}
	roots := map[wire.Digest]bool{}
	leaves := []wire.Digest{}
	for _, s := range c.plan.Shares {
		v := c.judge(s)
		if v.Status == wire.Counted && !c.g.Preset.Cadence.Window {
			root := c.headers[v.Header].Root
			if roots[root] { // the later of two equal contributions is a copy
				v = wire.Verdict{Peer: s.Peer, Status: wire.Refused, Reason: wire.ReasonCopy, Header: v.Header}
			}
			roots[root] = true
		}
		if v.Status == wire.Counted {
			leaves = append(leaves, v.Header)
		}
		c.rec.Cut = append(c.rec.Cut, v)
	}
	c.rec.Root = wire.MerkleRoot(leaves)
	if err := c.window(); err != nil {
		return err
	}
	enough := c.rec.CountedPeers() >= int(c.g.MinCounted)
	// A record without contributions only lets newcomers in, or ends the run.
	if !enough && len(c.in.Readys) == 0 && len(c.in.Stops) == 0 {
		return fmt.Errorf("%w: %d contributions, want %d", ErrTooEarly, c.rec.CountedPeers(), c.g.MinCounted)
	}
	return nil
}

func (c *composer) judge(s Share) wire.Verdict {
	v := wire.Verdict{Peer: s.Peer, Status: wire.Absent}
	var mine []wire.Digest
	for _, e := range c.in.Headers { // in order
		if e.Sender == s.Peer {
			mine = append(mine, e.Digest())
		}
	}
	switch {
	case len(mine) == 0:
		return v
	case len(mine) > 1:
		v.Status, v.Header = wire.Equivocated, mine[0]
		return v
	}
	h, t := c.headers[mine[0]], c.tally[mine[0]]
	if t == nil || !c.prev.Table.More(t.known) {
		return v
	}
	v.Header = mine[0]
	refuse := func(r wire.Reason) wire.Verdict {
		v.Status, v.Reason = wire.Refused, r
		return v
	}
	if !c.spansFit(s, h) {
		return refuse(wire.ReasonSpans)
	}
	for _, r := range []wire.Reason{wire.ReasonNonFinite, wire.ReasonNorm, wire.ReasonSchema, wire.ReasonStale, wire.ReasonBody, wire.ReasonOversize} {
		if c.prev.Table.More(t.refused[r]) {
			return refuse(r)
		}
	}
	nonce := nonceOf(h.Nonce, t.nonces)
	if !c.prev.Table.More(t.whole) || nonce == nil || c.g.Preset.Reduced() && !covers(t.parts, h.Parts) {
		v.Status = wire.Late
		return v
	}
	v.Status, v.Nonce, v.ArrivalMs = wire.Counted, nonce, lowerMedian(t.ms)
	v.Samples = uint32(wire.SpanLen(h.Spans))
	return v
}

// covers reports whether the bitmap has the first n parts.
func covers(bitmap []byte, n uint32) bool {
	for i := range n {
		if int(i/8) >= len(bitmap) || bitmap[i/8]&(1<<(i%8)) == 0 {
			return false
		}
	}
	return true
}

func nonceOf(want wire.Digest, nonces [][]byte) []byte {
	for _, n := range nonces {
		if len(n) == 32 && wire.Sum(n) == want {
			return n
		}
	}
	return nil
}

// ridden returns the positions of the late work that p may carry into this
// round: those of its header in record r-1, if that says late.
func (c *composer) ridden(p wire.PeerID) []wire.Span {
	v, ok := c.prev.Verdict(p)
	if !ok || v.Status != wire.Late || c.g.Preset.Cadence.Window {
		return nil
	}
	for _, raw := range c.prev.Headers {
		e, err := wire.Open(raw)
		var h wire.Header
		if err == nil && e.Digest() == v.Header && e.Decode(&h) == nil && h.Late == 0 {
			return h.Spans
		}
	}
	return nil
}

// spansFit reports whether h uses late work of record r-1 whole, or none, and
// then a prefix of what the plan dealt.
func (c *composer) spansFit(s Share, h header) bool {
	want := []wire.Span{}
	if h.Late != 0 {
		late := c.ridden(s.Peer)
		if h.Late != c.prev.Round || len(late) == 0 {
			return false
		}
		want = append(want, late...)
	}
	n := wire.SpanLen(h.Spans)
	late := wire.SpanLen(want)
	empty := n == 0 && !(c.g.Preset.Cadence.Window && h.Steps == 0) // a window may fail at its first step
	if n < late || empty || n >= 1<<24 {
		return false
	}
	used, _ := wire.SplitSpans(s.Spans, n-late)
	return slices.Equal(append(want, used...), h.Spans)
}

// window sets how many steps of a window count: the last one that more than a
// third of the counted members finished. Members whose merged gradients differ
// from the listed ones are refused.
func (c *composer) window() error {
	c.rec.Steps = c.prev.Steps
	if !c.g.Preset.Cadence.Window {
		if len(c.in.Merged) > 0 {
			return errors.New("merged gradients outside of a window")
		}
		if c.rec.CountedPeers() > 0 {
			c.rec.Steps++
		}
		return nil
	}
	c.rec.Merged = append([]wire.CID{}, c.in.Merged...)
	var steps []uint32
	longest := uint32(0)
	others := map[wire.Digest]int{} // members by the root of another list
	for i := range c.rec.Cut {
		v := &c.rec.Cut[i]
		if v.Status != wire.Counted {
			continue
		}
		h := c.headers[v.Header]
		if int(h.Steps) > len(c.rec.Merged) || h.Root != WindowRoot(c.rec.Merged[:h.Steps]) ||
			wire.SpanLen(h.Spans) != uint64(h.Steps)*uint64(c.g.Preset.Inner.Batch) {
			*v = wire.Verdict{Peer: v.Peer, Status: wire.Refused, Reason: wire.ReasonBody, Header: v.Header}
			others[h.Root]++
			continue
		}
		steps = append(steps, h.Steps)
		longest = max(longest, h.Steps)
	}
	if int(longest) != len(c.rec.Merged) {
		return fmt.Errorf("%d merged gradients listed, %d finished", len(c.rec.Merged), longest)
	}
	for root, n := range others {
		if n > len(steps) {
			return fmt.Errorf("the merged gradients listed are those of %d members, root %s is of %d", len(steps), root.Short(), n)
		}
	}
	slices.Sort(steps)
	if n := len(steps); n > 0 {
		c.rec.Steps += uint64(steps[n-1-n/3])
	}
	return nil
}

// WindowRoot is the header root of a peer that finished the given steps.
func WindowRoot(merged []wire.CID) wire.Digest {
	leaves := make([]wire.Digest, len(merged))
	for i, m := range merged {
		leaves[i] = m.Digest()
	}
	return wire.MerkleRoot(leaves)
}

// WindowSteps returns how many steps of the window r count.
func WindowSteps(r, prev *wire.Record) int { return int(r.Steps - prev.Steps) }

// certify takes the attestations and moves Certified to the newest version that
// two thirds of the weight computed alike.
func (c *composer) certify() (err error) {
	if c.rec.Attests, err = c.admit(c.in.Attests, wire.KindAttest, false); err != nil {
		return err
	}
	weight := map[wire.Certified]uint64{}
	for _, e := range c.in.Attests {
		var a wire.Attest
		if err := e.Decode(&a); err != nil {
			return err
		}
		if e.Round <= c.prev.Certified.Round || e.Round >= c.rec.Round || c.prev.Table.Of(e.Sender) == 0 {
			return fmt.Errorf("attestation of %s for version %d has no place here", e.Sender.Short(), e.Round)
		}
		k := wire.Certified{Round: e.Round, Version: a.Version, Merged: a.Merged}
		weight[k] += c.prev.Table.Of(e.Sender)
		if c.prev.Table.Quorum(weight[k]) && k.Round > c.rec.Certified.Round {
			c.rec.Certified = k
		}
	}
	return nil
}

func (c *composer) finish() {
	seed := append([]byte("hived/seed/v1\n"), c.prev.Seed[:]...)
	for _, v := range c.rec.Cut {
		seed = append(seed, v.Nonce...)
	}
	c.rec.Seed = wire.Sum(seed)
	c.rec.Last = c.rec.Round >= c.g.Rounds || len(c.rec.Stops) > 0
}
