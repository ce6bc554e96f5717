package rules

import (
	"bytes"
	"slices"

	"github.com/apiary-net/hived/wire"
	"github.com/apiary-net/hived/wire/invariants"
)

// checkRecord panics unless the record that was composed is valid: unless its inputs,
// as others will read them, give it again. It is called only where invariants are on.
func (s Setting) checkRecord(rec *wire.Record) {
	in, err := inputsOf(rec)
	invariants.Check(err == nil, "rules: record %d was composed and its inputs cannot be read: %v", rec.Round, err)
	again, err := s.compose(in)
	invariants.Check(err == nil, "rules: record %d was composed and its inputs give none: %v", rec.Round, err)
	invariants.Check(bytes.Equal(again.Bytes(), rec.Bytes()), "rules: record %d was composed as %s and its inputs give %s", rec.Round, rec.Digest().Short(), again.Digest().Short())
}

// checkPositions panics unless every position that was open is in one place now. Open
// were those returned by the record before, those dealt since, and those of late work
// that could ride. Now they count, may ride into the next round, or are returned.
func (c *composer) checkPositions() {
	if len(c.rec.Returned) == maxReturned {
		return // some may have been dropped
	}
	was, is := slices.Clone(c.Prev.Returned), slices.Clone(c.rec.Returned)
	if c.Plan.Cursor > c.Prev.Cursor {
		was = append(was, wire.Span{Lo: c.Prev.Cursor, Hi: c.Plan.Cursor})
	}
	for _, v := range c.Prev.Cut {
		was = append(was, carried(c.Genesis, c.Prev, v.Peer)...)
	}
	for _, v := range c.rec.Cut {
		is = append(is, carried(c.Genesis, c.rec, v.Peer)...)
		h, known := c.headers[v.Header]
		switch {
		case v.Status != wire.Counted:
		case c.Genesis.Preset.Cadence.Window:
			counts, _ := wire.SplitSpans(h.Spans, uint64(WindowSteps(c.rec, c.Prev))*uint64(c.Genesis.Preset.Inner.Batch))
			is = append(is, counts...)
		case known:
			is = append(is, h.Spans...)
		default: // of a group: its header is not here
			counts, _ := wire.SplitSpans(c.share(v.Peer).Spans, uint64(v.Samples))
			is = append(is, counts...)
		}
	}
	was, is = normal(was, true), normal(is, true)
	for i := range was[:max(0, len(was)-1)] {
		invariants.Check(was[i].Hi < was[i+1].Lo, "rules: positions %v and %v are open twice before record %d", was[i], was[i+1], c.rec.Round)
	}
	invariants.Check(slices.Equal(was, is), "rules: the positions open before record %d were %v, those that it counts, returns or lets ride are %v", c.rec.Round, was, is)
}
