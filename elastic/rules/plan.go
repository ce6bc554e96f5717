package rules

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/apiary-net/hived/tensorops/num"
	"github.com/apiary-net/hived/wire"
)

// PlanWindow is how many records a plan looks back.
const PlanWindow = 8

// History is the tail of a run's chain of records, newest last. It holds at
// least planWindow+1 records, or all there are. It is never empty.
type History []*wire.Record

// Head returns the newest record.
func (h History) Head() *wire.Record { return h[len(h)-1] }

// With returns the history after r, without the records that no plan reads any
// more. h itself is unchanged.
func (h History) With(r *wire.Record) History {
	keep := h[max(0, len(h)-PlanWindow):]
	return append(slices.Clone(keep), r)
}

// Share is what one peer is planned to do in a round.
type Share struct {
	Peer  wire.PeerID
	Spans []wire.Span // positions in the order of use
	Steps uint32      // local steps, or most steps of the window
}

// Plan is one round's plan.
type Plan struct {
	Round    uint64
	Shares   []Share // active peers, ascending
	Deadline time.Duration
	// Typical is when a peer that began with the round should be done: for one that
	// was away meanwhile nobody waits longer.
	Typical  time.Duration
	LRScale  float32     // of the inner rate
	Cursor   uint64      // first position that is not dealt after this plan
	Returned []wire.Span // returned positions that this plan did not deal again
	// Groups holds the members of each averaging group, ascending; nil where all
	// active peers are one group.
	Groups [][]wire.PeerID
}

// Share returns p's share, or nil if p is not planned for.
func (p *Plan) Share(id wire.PeerID) *Share { return shareOf(p.Shares, id) }

func shareOf(shares []Share, id wire.PeerID) *Share {
	i, ok := slices.BinarySearchFunc(shares, id, func(s Share, id wire.PeerID) int { return s.Peer.Compare(id) })
	if !ok {
		return nil
	}
	return &shares[i]
}

// Peers returns the active peers, ascending.
func (p *Plan) Peers() []wire.PeerID {
	out := make([]wire.PeerID, len(p.Shares))
	for i, s := range p.Shares {
		out[i] = s.Peer
	}
	return out
}

// Plans makes the plans of one run and remembers the newest: all that composes or
// checks a record of a round reads the same one. It may be used concurrently, and
// by several peers of a run.
type Plans struct {
	g  *wire.Genesis
	mu sync.Mutex
	by map[wire.Digest]*Plan // of the records that they follow; a few

	start wire.Digest // the start record that was found valid
}

// ValidStart is ValidateStart, once for each record.
func (p *Plans) ValidStart(run wire.RunID, version wire.CID, r *wire.Record) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.start == r.Digest() && r.Certified.Version == version {
		return nil
	}
	if err := ValidateStart(p.g, run, version, r); err != nil {
		return err
	}
	p.start = r.Digest()
	return nil
}

// NewPlans returns the plans of a run.
func NewPlans(g *wire.Genesis) *Plans { return &Plans{g: g, by: map[wire.Digest]*Plan{}} }

// After returns the plan of the round after h's head. The caller must not change
// it.
func (p *Plans) After(h History) *Plan {
	name := h.Head().Digest()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by[name] == nil {
		if len(p.by) >= PlanWindow {
			clear(p.by)
		}
		p.by[name] = MakePlan(p.g, h)
	}
	return p.by[name]
}

// MakePlan returns the plan of the round after h's head. It is a pure function
// of genesis and the last planWindow records: every peer computes the same.
func MakePlan(g *wire.Genesis, h History) *Plan {
	head := h.Head()
	p := &Plan{Round: head.Round + 1, LRScale: num.RateScale(g.Preset.Inner.Decay, head.Round+1, g.Rounds)}
	p.Deadline, p.Typical = deadlines(g, h)
	dealer := dealer{cursor: head.Cursor, returned: slices.Clone(head.Returned)}
	median := medianSpeed(head)
	for _, s := range head.Roster {
		if !s.Active {
			continue
		}
		steps := steps(g, s.Speed, median)
		p.Shares = append(p.Shares, Share{Peer: s.Peer, Steps: steps,
			Spans: dealer.deal(uint64(steps) * uint64(g.Preset.Inner.Batch))})
	}
	p.Cursor, p.Returned = dealer.cursor, dealer.returned
	if n := int(g.Group); len(p.Shares) > n && !g.Preset.Cadence.Window && !g.Preset.Reduced() {
		p.Groups = groupsOf(head.Seed, p.Peers(), n)
	}
	return p
}

// steps cuts the share of a peer that is clearly slower than the median, so that
// it is done when the others are. Members of a window are of equal say.
func steps(g *wire.Genesis, speed, median uint32) uint32 {
	full := g.Preset.Cadence.Steps
	if g.Preset.Cadence.Window || speed == 0 || 3*uint64(speed) >= 2*uint64(median) {
		return full
	}
	return uint32(max(1, uint64(full)*uint64(speed)/uint64(median)))
}

func medianSpeed(r *wire.Record) uint32 {
	var all []uint32
	for _, s := range r.Roster {
		if s.Active && s.Speed > 0 {
			all = append(all, s.Speed)
		}
	}
	return lowerMedian(all)
}

func lowerMedian[T cmp.Ordered](xs []T) T {
	var zero T
	if len(xs) == 0 {
		return zero
	}
	xs = slices.Sorted(slices.Values(xs))
	return xs[(len(xs)-1)/2]
}

// deadlines are the median of the recorded arrivals plus a slack, clamped to the
// genesis' bounds: the larger of Mads median absolute deviations and a multiple of
// the median. Work that misses the last one is lost, while a peer that crashed is
// noticed by its connection long before: so its slack is generous, twice the
// median. The typical time's is a quarter.
func deadlines(g *wire.Genesis, h History) (last, typical time.Duration) {
	var arrivals []int64
	for _, r := range h[max(0, len(h)-PlanWindow):] {
		for _, v := range r.Cut {
			if v.Status == wire.Counted {
				arrivals = append(arrivals, int64(v.ArrivalMs))
			}
		}
	}
	clamp := func(ms int64) time.Duration {
		return time.Duration(min(max(ms, int64(g.Deadline.MinMs)), int64(g.Deadline.MaxMs))) * time.Millisecond
	}
	if len(arrivals) == 0 {
		return clamp(int64(g.Deadline.MaxMs)), clamp(int64(g.Deadline.MaxMs))
	}
	mid := lowerMedian(arrivals)
	dev := make([]int64, len(arrivals))
	for i, a := range arrivals {
		dev[i] = max(a-mid, mid-a)
	}
	slack := int64(g.Deadline.Mads) * lowerMedian(dev)
	return clamp(mid + max(slack, 2*mid)), clamp(mid + max(slack, mid/4))
}

// maxDealt bounds the pieces of one share: a header names them all, perhaps with
// as many of late work, and has 1 KiB.
const maxDealt = 12

// dealer hands out positions: returned ones first, then new ones.
type dealer struct {
	cursor   uint64
	returned []wire.Span
}

func (d *dealer) deal(n uint64) []wire.Span {
	var out []wire.Span
	for n > 0 && len(d.returned) > 0 && len(out) < maxDealt {
		s := d.returned[0]
		take := min(n, s.Len())
		out = append(out, wire.Span{Lo: s.Lo, Hi: s.Lo + take})
		if take == s.Len() {
			d.returned = d.returned[1:]
		} else {
			d.returned[0].Lo += take
		}
		n -= take
	}
	if n > 0 {
		out = append(out, wire.Span{Lo: d.cursor, Hi: d.cursor + n})
		d.cursor += n
	}
	return normal(out, false)
}

// normal joins spans that touch, in order; if sorted is set, it sorts them first.
func normal(spans []wire.Span, sorted bool) []wire.Span {
	if sorted {
		slices.SortFunc(spans, func(a, b wire.Span) int { return cmp.Compare(a.Lo, b.Lo) })
	}
	out := []wire.Span{}
	for _, s := range spans {
		if n := len(out); n > 0 && out[n-1].Hi == s.Lo {
			out[n-1].Hi = s.Hi
		} else {
			out = append(out, s)
		}
	}
	return out
}
