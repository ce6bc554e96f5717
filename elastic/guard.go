package elastic

import (
	"github.com/apiary-net/hived/elastic/decide"
	"github.com/apiary-net/hived/wire"
)

// progress is who belongs to the run and where it stands, for the goroutines that
// take messages: what cannot matter is dropped before it costs anything. The
// loop replaces it; others only read.
type progress struct {
	record *wire.Record // the head; nil before the start
}

// head returns the round of the head, 0 before the start.
func (c *progress) head() uint64 {
	if c.record == nil {
		return 0
	}
	return c.record.Round
}

// seated reports whether a peer has a seat.
func (c *progress) seated(p wire.PeerID) bool {
	if c.record == nil {
		return false
	}
	_, ok := c.record.Seat(p)
	return ok
}

// Belongs reports whether a peer has a seat in the run or may get one. It may be
// called concurrently.
func (r *Runner) Belongs(p wire.PeerID) bool {
	return r.progress.Load().seated(p) || p == r.cfg.Genesis.Creator || r.cfg.Genesis.Admission.Admits(p)
}

// concerns reports whether an announcement can still matter here: from somebody
// who belongs to the run, and not about a round that is decided. One that does
// not is not passed on, but nobody is to blame: it may be new to others.
func (r *Runner) concerns(e *wire.Envelope) bool {
	if !r.Belongs(e.Sender) {
		return false
	}
	c := r.progress.Load()
	switch e.Kind {
	case wire.KindHeader, wire.KindHave, wire.KindGroupHave, wire.KindGroupCut, wire.KindGroupVote, wire.KindGroup:
		return c.record == nil || e.Round > c.head()
	}
	return true
}

// mayVote reports whether a peer may have a vote. Before the start record is known
// everybody who belongs to the run may.
func (r *Runner) mayVote(p wire.PeerID) bool {
	c := r.progress.Load()
	return c.seated(p) || c.record == nil && r.Belongs(p)
}

// sliceFits reports whether a slice is one that a member sends about now, and no
// longer than its part.
func (r *Runner) sliceFits(from wire.PeerID, s *wire.Slice) bool {
	c, p := r.progress.Load(), r.cfg.Genesis.Preset
	window := p.Cadence.Window
	if s.Run != r.cfg.Run || int(s.Part) >= len(r.model.Parts()) || s.Round < c.head() || s.Round > c.head()+2 {
		return false
	}
	if !c.seated(from) && s.Round < c.head()+2 { // the next record may seat it
		return false
	}
	if !window && (!p.Reduced() || !s.Merged || s.Step != 0) || s.Step >= wire.MaxWindow {
		return false
	}
	if s.Merged {
		return len(s.Data) == r.model.MergedLen(int(s.Part))
	}
	return len(s.Data) <= r.model.MaxPart(int(s.Part))
}

// keepEarly adds a slice of a later round to those that wait for it. One sender
// has room for each part once on its way there and once back.
func keepEarly(early []sliceIn, in sliceIn, parts int) []sliceIn {
	mine := 0
	for _, e := range early {
		if e.from == in.from {
			mine++
		}
	}
	if mine >= 2*parts || len(early) >= maxEarly {
		return early
	}
	return append(early, in)
}

// maxAnswered is more envelopes than the open round of an honest peer has, but for
// the READYs of very many newcomers, which come last.
const maxAnswered = 1 << 12

// openAll opens the envelopes of a pull's answer, outside of the loop. A record
// that is too big for a topic comes this way.
func (r *Runner) openAll(from wire.PeerID, raws [][]byte) []wire.Envelope {
	if len(raws) > maxAnswered {
		r.log.Warn("pull answer cut short", "peer", from.Short(), "envelopes", len(raws), "limit", maxAnswered)
		raws = raws[:maxAnswered]
	}
	var out []wire.Envelope
	for _, raw := range raws {
		e, err := wire.OpenBlock(raw)
		if err == nil && (len(raw) <= wire.MaxMessage || e.Kind == wire.KindProposal || e.Kind == wire.KindGroupCut) && decide.CheckForm(r.cfg.Run, &e) == decide.Accept && r.concerns(&e) {
			out = append(out, e)
		}
	}
	return out
}

// trouble tells people of an error that passes by itself, or that it has passed.
// It runs in the loop.
func (r *Runner) trouble(err error) {
	if err != nil || r.troubled {
		r.cfg.Observe(Info{Trouble: &Trouble{err}})
	}
	r.troubled = err != nil
}
