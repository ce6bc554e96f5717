package netsim

import (
	"fmt"
	"slices"

	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/wire"
)

// Names of the checkers.
const (
	CheckRecords = "one-record"   // one decided record per height
	CheckSamples = "samples-once" // each sample counts once
	CheckLogs    = "append-only"  // logs only grow, and nothing acknowledged is lost

	checkVersions   = "equal-versions"  // equal CIDs at a version
	CheckHang       = "no-hang"         // no round open past its bound while a quorum is up
	checkHonest     = "no-false-charge" // a crash never looks like a lie
	checkRedundancy = "redundancy"      // what counted can be had from others
	checkMemory     = "memory"          // stores and queues stay bounded
	checkDurable    = "durable"         // what a signed entry names is on disk after a power cut
)

// Finding is what a checker has against what it was told.
type Finding struct{ Checker, Detail string }

func finding(checker, format string, args ...any) *Finding {
	return &Finding{checker, fmt.Sprintf(format, args...)}
}

// Books are what is known of one run, whoever tells it: an observer in the event
// tier, exports in the others. They find records that differ, versions that
// differ, samples that count twice and charges against honest peers.
type Books struct {
	Counted uint64 // local steps that counted

	genesis  *wire.Genesis
	who      func(wire.PeerID) (index int, honest, ok bool)
	block    func(wire.CID) []byte
	records  []*wire.Record // by round; only the newest are kept
	names    []wire.Digest  // by round
	versions map[uint64]wire.CID
	used     spanSet // positions that counted
}

// NewBooks returns empty books of a run. who says which machine a peer is, and
// whether it tells the truth; block returns a block that anybody holds, or nil.
func NewBooks(g *wire.Genesis, who func(wire.PeerID) (index int, honest, ok bool), block func(wire.CID) []byte) *Books {
	return &Books{genesis: g, who: who, block: block, versions: map[uint64]wire.CID{}}
}

// Head returns the newest record, or nil.
func (b *Books) Head() *wire.Record {
	if len(b.records) == 0 {
		return nil
	}
	return b.records[len(b.records)-1]
}

// Record hears of a record that someone holds. It is fresh if nobody told it
// before.
func (b *Books) Record(teller string, r *wire.Record) (fresh bool, f *Finding) {
	d := r.Digest()
	switch {
	case r.Round < uint64(len(b.records)):
		if b.names[r.Round] != d {
			f = finding(CheckRecords, "%s decided %s at height %d, another peer decided %s", teller, d.Short(), r.Round, b.names[r.Round].Short())
		}
		return false, f
	case r.Round > uint64(len(b.records)):
		return false, finding(CheckRecords, "%s decided height %d while nobody has decided %d", teller, r.Round, len(b.records))
	}
	b.records, b.names = append(b.records, r), append(b.names, d)
	if n := len(b.records); n > kept {
		b.records[n-1-kept] = nil
	}
	f = b.charges(r)
	if g := b.samples(r); f == nil {
		f = g
	}
	return true, f
}

// kept is how many of the newest records are held; of older ones only the digest.
const kept = 64

// charges checks that a record does not wrong an honest peer.
func (b *Books) charges(r *wire.Record) *Finding {
	for _, v := range r.Cut {
		index, honest, ok := b.who(v.Peer)
		if !ok {
			return finding(CheckRecords, "record %d judges a peer that does not exist", r.Round)
		}
		if (v.Status == wire.Equivocated || v.Status == wire.Refused) && honest {
			return finding(checkHonest, "record %d says %s (%s) of the honest peer %d", r.Round, v.Status, v.Reason, index)
		}
	}
	return nil
}

// samples checks that each position counts in at most one record, and counts the
// local steps.
func (b *Books) samples(r *wire.Record) *Finding {
	if r.Round == 0 {
		return nil
	}
	hs, err := b.headers(r)
	if err != nil {
		return finding(CheckRecords, "record %d: %v", r.Round, err)
	}
	done := r.Steps - b.records[r.Round-1].Steps
	for _, h := range hs {
		spans := h.Header.Spans
		steps := uint64(h.Header.Steps)
		if h.Header.Parts == 0 && len(spans) > 0 { // of a window only the common steps count
			steps = min(done, uint64(h.Header.Steps))
			spans, _ = wire.SplitSpans(spans, wire.SpanLen(spans)/uint64(h.Header.Steps)*steps)
		}
		if h.Header.Parts > 0 {
			b.Counted += steps
		}
		for _, s := range spans {
			if !b.used.add(s) {
				return finding(CheckSamples, "record %d counts positions %d to %d, of which some counted before", r.Round, s.Lo, s.Hi)
			}
		}
	}
	if b.genesis.Preset.Cadence.Window {
		// A step of a window is the mean over all that were planned, also over one
		// that did not live to say so.
		b.Counted += done * uint64(len(r.Cut))
	}
	if dealt := r.Cursor - wire.SpanLen(r.Returned); r.Last && b.used.size > dealt {
		return finding(CheckSamples, "%d positions counted, %d were dealt and not returned", b.used.size, dealt)
	}
	return nil
}

// headers returns the headers that a record counts: its own, or those that the
// evidence of its groups holds.
func (b *Books) headers(r *wire.Record) ([]rules.CountedHeader, error) {
	out, err := rules.CountedHeaders(r)
	if err != nil {
		return nil, err
	}
	for _, o := range rules.CountedGroups(r) {
		id := wire.RawDigestCID(o.Cut)
		held := b.block(id)
		if held == nil || !id.Names(held) {
			return nil, fmt.Errorf("nobody holds the cut of group %d", o.Group)
		}
		var cut wire.GroupCut
		if err := wire.Unmarshal(held, &cut, wire.MaxBlock); err != nil {
			return nil, err
		}
		hs, err := groupHeaders(o, &cut)
		if err != nil {
			return nil, fmt.Errorf("group %d: %w", o.Group, err)
		}
		out = append(out, hs...)
	}
	return out, nil
}

// groupHeaders returns the headers of a group's cut that its outcome counts.
func groupHeaders(o *wire.GroupOutcome, cut *wire.GroupCut) (out []rules.CountedHeader, err error) {
	counts := map[wire.Digest]uint32{}
	for _, row := range o.Rows {
		if row.Status == wire.Counted {
			counts[row.Header] = row.Samples
		}
	}
	for _, raw := range cut.Headers {
		e, err := wire.Open(raw)
		if err != nil {
			return nil, err
		}
		n, counted := counts[e.Digest()]
		if !counted {
			continue
		}
		h := rules.CountedHeader{Env: e, Samples: n}
		if err := e.Decode(&h.Header); err != nil {
			return nil, err
		}
		if uint64(n) != wire.SpanLen(h.Header.Spans) {
			return nil, fmt.Errorf("%d samples are said of a header of %d", n, wire.SpanLen(h.Header.Spans))
		}
		out = append(out, h)
		delete(counts, e.Digest())
	}
	if len(counts) > 0 {
		return nil, fmt.Errorf("%d headers count that its cut does not hold", len(counts))
	}
	return out, nil
}

// Version hears that someone holds a version.
func (b *Books) Version(teller string, round uint64, version wire.CID) (fresh bool, f *Finding) {
	first, ok := b.versions[round]
	switch {
	case !ok:
		b.versions[round] = version
		return true, nil
	case first != version:
		return false, finding(checkVersions, "version %d is %s at %s, %s at another", round, version.Short(), teller, first.Short())
	}
	return false, nil
}

// Show puts into an event what a record says of everybody.
func (b *Books) Show(r *wire.Record, e *Event) {
	for _, v := range r.Cut {
		index, _, _ := b.who(v.Peer)
		if v.Status == wire.Counted {
			e.Counted = append(e.Counted, index)
			continue
		}
		e.Lost = append(e.Lost, fmt.Sprintf("%d:%s", index, v.Status))
	}
	slices.Sort(e.Counted)
	hs, err := b.headers(r)
	if err != nil || len(hs) == 0 {
		return
	}
	loss := 0.0
	for _, h := range hs {
		if h.Header.Steps > 0 {
			loss += float64(h.Header.Loss)
		}
	}
	e.Loss = loss / float64(len(hs))
}
