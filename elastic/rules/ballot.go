package rules

import (
	"fmt"
	"slices"

	"github.com/apiary-net/hived/wire"
)

// Setting is what a round is judged by: the same at every peer.
type Setting struct {
	Genesis *wire.Genesis
	Run     wire.RunID
	Prev    *wire.Record // of the round before
	Plan    *Plan        // of the round
}

// settingAfter returns the setting of the round after h's head.
func settingAfter(g *wire.Genesis, run wire.RunID, h History) Setting {
	return Setting{g, run, h.Head(), MakePlan(g, h)}
}

// ballot is what HAVEs state of the contributions of some planned peers: of all
// in a round of one group, whose voters say HAVE, or of one group's members, who
// say it themselves.
type ballot struct {
	Setting
	shares []Share    // who may have a header, ascending
	table  wire.Table // whose HAVEs have weight
	kind   wire.Kind  // of the HAVEs
	nonces bool       // a counted contribution needs its nonce in a HAVE

	envs    []wire.Envelope // headers, ascending by sender and digest
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

func (b *ballot) share(p wire.PeerID) *Share { return shareOf(b.shares, p) }

// grouped reports whether the ballot is one group's of several.
func (b *ballot) grouped() bool { return b.kind == wire.KindGroupHave }

// takeHeaders books headers and returns them encoded.
func (b *ballot) takeHeaders(list []wire.Envelope) ([][]byte, error) {
	out, err := admit(b.Run, list, wire.KindHeader, true)
	if err != nil {
		return nil, err
	}
	b.envs, b.headers, b.tally = list, map[wire.Digest]header{}, map[wire.Digest]*tally{}
	for i, e := range list {
		if e.Round != b.Plan.Round || b.share(e.Sender) == nil {
			return nil, fmt.Errorf("header of %s for round %d, who is not planned for", e.Sender.Short(), e.Round)
		}
		if len(out[i]) > wire.MaxHeader {
			return nil, fmt.Errorf("header of %s has %d bytes, limit %d", e.Sender.Short(), len(out[i]), wire.MaxHeader)
		}
		h, err := wire.Read[wire.Header](e)
		if err != nil {
			return nil, err
		}
		b.headers[e.Digest()] = header{e, *h}
	}
	return out, nil
}

// takeHaves books HAVEs and returns them encoded. Those of less than two thirds
// of the weight are ErrTooEarly.
func (b *ballot) takeHaves(list []wire.Envelope) ([][]byte, error) {
	out, err := admit(b.Run, list, b.kind, false)
	if err != nil {
		return nil, err
	}
	weight := uint64(0)
	for _, e := range list {
		power := b.table.Of(e.Sender)
		owner := b.Genesis.Preset.Reduced() && b.share(e.Sender) != nil
		if power == 0 && !owner || e.Round != b.Plan.Round {
			return nil, fmt.Errorf("HAVE of %s for round %d, who does not vote", e.Sender.Short(), e.Round)
		}
		h, err := wire.Read[wire.Have](e)
		if err != nil {
			return nil, err
		}
		if b.grouped() && !Lean(h, len(b.shares)) {
			return nil, fmt.Errorf("HAVE of %s says more than a group's member has to", e.Sender.Short())
		}
		weight += power
		for _, it := range h.Items {
			b.count(it, power)
		}
	}
	if !b.table.Quorum(weight) {
		return nil, fmt.Errorf("%w: HAVEs of weight %d of %d", ErrTooEarly, weight, b.table.Total())
	}
	for d, t := range b.tally {
		if _, ok := b.headers[d]; !ok && b.table.More(t.known) {
			return nil, fmt.Errorf("header %s is known to more than a third but missing", d.Short())
		}
	}
	return out, nil
}

// Lean reports whether a member's HAVE is as long as what it says of a group of n:
// the group's cut embeds it, and padding must not make that too big to be told.
func Lean(h *wire.Have, n int) bool {
	for _, it := range h.Items {
		if len(it.Nonce) > 0 || len(it.Parts) > 0 {
			return false
		}
	}
	return len(h.Items) <= 4*n // two headers each, and two of an earlier life
}

func (b *ballot) count(it wire.HaveItem, power uint64) {
	t := b.tally[it.Header]
	if t == nil {
		t = &tally{refused: map[wire.Reason]uint64{}}
		b.tally[it.Header] = t
	}
	t.known += power
	switch it.State {
	case wire.HaveWhole:
		t.whole += power
		t.ms = append(t.ms, it.Ms)
		t.nonces = append(t.nonces, it.Nonce)
		for i, p := range it.Parts {
			if i == len(t.parts) {
				t.parts = append(t.parts, 0)
			}
			t.parts[i] |= p
		}
	case wire.HaveRefused:
		t.refused[it.Reason] += power
	}
}

// verdicts judges every share. The later of two equal contributions is a copy.
func (b *ballot) verdicts() []wire.Verdict {
	out := make([]wire.Verdict, 0, len(b.shares))
	roots := map[wire.Digest]bool{}
	for _, s := range b.shares {
		v := b.judge(s)
		if v.Status == wire.Counted && !b.Genesis.Preset.Cadence.Window {
			root := b.headers[v.Header].Root
			if roots[root] {
				v = wire.Verdict{Peer: s.Peer, Status: wire.Refused, Reason: wire.ReasonCopy, Header: v.Header}
			}
			roots[root] = true
		}
		out = append(out, v)
	}
	return out
}

func (b *ballot) judge(s Share) wire.Verdict {
	v := wire.Verdict{Peer: s.Peer, Status: wire.Absent}
	var mine []wire.Digest
	for _, e := range b.envs { // in order
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
	h, t := b.headers[mine[0]], b.tally[mine[0]]
	if t == nil || !b.table.More(t.known) {
		return v
	}
	v.Header = mine[0]
	refuse := func(r wire.Reason) wire.Verdict {
		v.Status, v.Reason = wire.Refused, r
		return v
	}
	if !b.spansFit(s, h) {
		return refuse(wire.ReasonSpans)
	}
	for _, r := range []wire.Reason{wire.ReasonNonFinite, wire.ReasonNorm, wire.ReasonSchema, wire.ReasonStale, wire.ReasonBody, wire.ReasonOversize} {
		if b.table.More(t.refused[r]) {
			return refuse(r)
		}
	}
	nonce := nonceOf(h.Nonce, t.nonces)
	if !b.table.More(t.whole) || b.nonces && nonce == nil || b.Genesis.Preset.Reduced() && !covers(t.parts, h.Parts) {
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

// carried returns the positions of the late work of a peer that may be carried
// into the round after prev: those of its header there, if prev says late. Where
// rounds have several groups nothing rides: prev does not hold their headers.
func carried(g *wire.Genesis, prev *wire.Record, p wire.PeerID) []wire.Span {
	v, ok := prev.Verdict(p)
	if !ok || v.Status != wire.Late || g.Preset.Cadence.Window {
		return nil
	}
	for _, raw := range prev.Headers {
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
func (b *ballot) spansFit(s Share, h header) bool {
	want := []wire.Span{}
	if h.Late != 0 {
		late := carried(b.Genesis, b.Prev, s.Peer)
		if h.Late != b.Prev.Round || len(late) == 0 || b.grouped() {
			return false
		}
		want = append(want, late...)
	}
	n := wire.SpanLen(h.Spans)
	late := wire.SpanLen(want)
	empty := n == 0 && !(b.Genesis.Preset.Cadence.Window && h.Steps == 0) // a window may fail at its first step
	if n < late || empty || n >= 1<<24 {
		return false
	}
	used, _ := wire.SplitSpans(s.Spans, n-late)
	return slices.Equal(append(want, used...), h.Spans)
}

// speedOf returns the samples a second that a header says, 0 for none.
func speedOf(h *wire.Header) uint32 {
	if h.TrainMs == 0 {
		return 0
	}
	return uint32(min(max(1, wire.SpanLen(h.Spans)*1000/uint64(h.TrainMs)), 1<<31))
}
