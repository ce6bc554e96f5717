package netsim

import (
	"fmt"
	"slices"
	"time"

	"github.com/apiary-net/hived/consensus"
	"github.com/apiary-net/hived/elastic"
	"github.com/apiary-net/hived/wire"
)

// Names of the checkers.
const (
	checkRecords    = "one-record"      // one decided record per height
	checkVersions   = "equal-versions"  // equal CIDs at a version
	checkHang       = "no-hang"         // no round open past its bound while a quorum is up
	checkSamples    = "samples-once"    // each sample counts once
	checkLogs       = "append-only"     // logs only grow, and nothing acknowledged is lost
	checkHonest     = "no-false-charge" // a crash never looks like a lie
	checkRedundancy = "redundancy"      // what counted can be had from others
	checkMemory     = "memory"          // stores and queues stay bounded
)

// Violation is what a checker found.
type Violation struct {
	Checker string        `json:"checker"`
	Detail  string        `json:"detail"`
	At      time.Duration `json:"at"`
	Trail   []Event       `json:"trail"` // newest events before it
}

func (v *Violation) Error() string {
	return fmt.Sprintf("%s at %v: %s", v.Checker, v.At, v.Detail)
}

// checker watches a swarm from outside: it sees what each peer's runner and
// ledger were told, and keeps books of its own.
type checker struct {
	sw    *Swarm
	found *Violation

	records  []*wire.Record // by round: the first that anybody decided
	names    []wire.Digest
	versions map[uint64]wire.CID // by round: the first that anybody logged
	at       []time.Time         // when each record was first known
	ends     map[int]bool        // peers that said finished
	used     spanSet             // positions that counted
	counted  uint64              // local steps that counted
	instance uint64              // that decides the next record

	liars string // the newest round in which a lying peer counted

	hung     int // 1 once a round has exceeded its bound: the simulation ends there
	hungAt   uint64
	quorumUp time.Time // since when a quorum has been up and connected
}

func newChecker(sw *Swarm) *checker {
	return &checker{sw: sw, versions: map[uint64]wire.CID{}, ends: map[int]bool{}}
}

func (c *checker) fail(name, format string, args ...any) {
	if c.found == nil {
		c.found = &Violation{Checker: name, Detail: fmt.Sprintf(format, args...), At: c.sw.Loop.Since(), Trail: slices.Clone(c.sw.trail.last)}
	}
}

// head returns the newest record that anybody decided, or nil.
func (c *checker) head() *wire.Record {
	if len(c.records) == 0 {
		return nil
	}
	return c.records[len(c.records)-1]
}

// decided hears that a peer learnt a record.
func (c *checker) decided(n *Node, i *elastic.RoundInfo) {
	r, d := i.Record, i.Record.Digest()
	switch {
	case r.Round < uint64(len(c.records)):
		if c.names[r.Round] != d {
			c.fail(checkRecords, "peer %d decided %s at height %d, another peer decided %s", n.Index, d.Short(), r.Round, c.names[r.Round].Short())
		}
		return
	case r.Round > uint64(len(c.records)):
		c.fail(checkRecords, "peer %d decided height %d while nobody has decided %d", n.Index, r.Round, len(c.records))
		return
	}
	now := c.sw.Loop.Now()
	e := Event{Kind: "decided", Peer: n.Index, Round: r.Round, Record: d.String()}
	if r.Round > 0 {
		e.TookMs = now.Sub(c.at[r.Round-1]).Milliseconds()
	}
	for _, n := range c.sw.Nodes {
		e.Control, e.Payload = e.Control+n.Control, e.Payload+n.Payload
	}
	c.cut(r, &e)
	c.records, c.names, c.at = append(c.records, r), append(c.names, d), append(c.at, now)
	c.instance = i.Instance + 1
	c.forget()
	c.samples(r)
	c.sw.trail.add(e)
	if c.sw.onRecord != nil {
		c.sw.onRecord(r.Round)
	}
}

// kept is how many of the newest records the checker holds; of older ones only
// the digest.
const kept = 64

func (c *checker) forget() {
	if n := len(c.records); n > kept {
		c.records[n-1-kept] = nil
	}
}

// cut notes what a record says of everybody, and whether it wrongs an honest peer.
func (c *checker) cut(r *wire.Record, e *Event) {
	loss, n := 0.0, 0
	for _, v := range r.Cut {
		node := c.sw.byID[v.Peer]
		if node == nil {
			c.fail(checkRecords, "record %d judges a peer that does not exist", r.Round)
			return
		}
		if v.Status == wire.Counted {
			e.Counted = append(e.Counted, node.Index)
			if node.Lie != nil {
				c.liars = fmt.Sprintf("peer %d (%s) in round %d", node.Index, node.Lie.Kind, r.Round)
			}
			continue
		}
		e.Lost = append(e.Lost, fmt.Sprintf("%d:%s", node.Index, v.Status))
		if (v.Status == wire.Equivocated || v.Status == wire.Refused) && node.Lie == nil {
			c.fail(checkHonest, "record %d says %s (%s) of the honest peer %d", r.Round, v.Status, v.Reason, node.Index)
		}
	}
	hs, err := c.headers(r)
	if err != nil {
		c.fail(checkRecords, "record %d: %v", r.Round, err)
		return
	}
	for _, h := range hs {
		if n++; h.Header.Steps > 0 {
			loss += float64(h.Header.Loss)
		}
	}
	if n > 0 {
		e.Loss = loss / float64(n)
	}
	slices.Sort(e.Counted)
}

// headers returns the headers that a record counts: its own, or those that the
// evidence of its groups holds.
func (c *checker) headers(r *wire.Record) ([]elastic.CountedHeader, error) {
	out, err := elastic.CountedHeaders(r)
	for _, o := range elastic.CountedGroups(r) {
		var cut wire.GroupCut
		id := wire.RawDigestCID(o.Cut)
		held := c.sw.pool.blocks[id]
		if held == nil || !id.Names(held.b) {
			return nil, fmt.Errorf("nobody holds the cut of group %d", o.Group)
		}
		if err := wire.Unmarshal(held.b, &cut, wire.MaxBlock); err != nil {
			return nil, err
		}
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
			h := elastic.CountedHeader{Env: e, Samples: n}
			if err := e.Decode(&h.Header); err != nil {
				return nil, err
			}
			if uint64(n) != wire.SpanLen(h.Header.Spans) {
				return nil, fmt.Errorf("group %d says %d samples of a header of %d", o.Group, n, wire.SpanLen(h.Header.Spans))
			}
			out = append(out, h)
			delete(counts, e.Digest())
		}
		if len(counts) > 0 {
			return nil, fmt.Errorf("group %d counts %d headers that its cut does not hold", o.Group, len(counts))
		}
	}
	return out, err
}

// samples checks that each position counts in at most one record.
func (c *checker) samples(r *wire.Record) {
	if r.Round == 0 {
		return
	}
	hs, err := c.headers(r)
	if err != nil {
		return // said by cut
	}
	for _, h := range hs {
		spans := h.Header.Spans
		steps := uint64(h.Header.Steps)
		if h.Header.Parts == 0 && len(spans) > 0 { // of a window only the common steps count
			steps = min(r.Steps-c.records[r.Round-1].Steps, uint64(h.Header.Steps))
			spans, _ = wire.SplitSpans(spans, wire.SpanLen(spans)/uint64(h.Header.Steps)*steps)
		}
		if h.Header.Parts > 0 {
			c.counted += steps
		}
		for _, s := range spans {
			if !c.used.add(s) {
				c.fail(checkSamples, "record %d counts positions %d to %d, of which some counted before", r.Round, s.Lo, s.Hi)
			}
		}
	}
	if steps := r.Steps - c.records[r.Round-1].Steps; c.sw.Genesis.Preset.Cadence.Window {
		// A step of a window is the mean over all that were planned, also over one
		// that did not live to say so.
		c.counted += steps * uint64(len(r.Cut))
	}
	if r.Last {
		dealt := r.Cursor - wire.SpanLen(r.Returned)
		if c.used.size > dealt {
			c.fail(checkSamples, "%d positions counted, %d were dealt and not returned", c.used.size, dealt)
		}
	}
}

// appended hears of entries that are durable in a peer's log.
func (c *checker) appended(n *Node, h wire.Head, entries []wire.EntryBody) {
	if old := n.acknowledged(); h.Size != old+uint64(len(entries)) {
		c.fail(checkLogs, "the log of peer %d has %d entries after %d and %d more", n.Index, h.Size, old, len(entries))
	}
	n.heads = append(n.heads, h)
	for _, e := range entries {
		if e.Kind != wire.EntryVersion {
			continue
		}
		n.version, n.round = e.Ref, e.Round
		first, ok := c.versions[e.Round]
		if !ok {
			c.versions[e.Round] = e.Ref
			c.sw.trail.add(Event{Kind: "version", Peer: n.Index, Round: e.Round, Version: e.Ref.String()})
		} else if first != e.Ref {
			c.fail(checkVersions, "version %d is %s at peer %d, %s at another", e.Round, e.Ref.Short(), n.Index, first.Short())
		}
	}
}

func (c *checker) finished(n *Node) {
	if !c.ends[n.Index] {
		c.ends[n.Index] = true
		c.sw.trail.add(Event{Kind: "finished", Peer: n.Index})
	}
}

// bound is how long a round may stay open while a quorum is up: its deadline, and
// a minute for leaders in a row that are not there.
func (c *checker) bound() time.Duration { return c.sw.cfg.MaxDeadline + time.Minute }

// tick looks at what time alone shows. It is called about once a virtual second.
func (c *checker) tick() {
	now := c.sw.Loop.Now()
	if !c.quorum() {
		c.quorumUp = time.Time{}
		return
	}
	if c.quorumUp.IsZero() {
		c.quorumUp = now
	}
	if c.head() == nil || c.head().Last {
		return
	}
	since := later(c.at[len(c.at)-1], c.quorumUp)
	if open := now.Sub(since); open > c.bound() && c.hungAt != c.head().Round+1 {
		c.hung, c.hungAt = c.hung+1, c.head().Round+1
		c.sw.trail.add(Event{Kind: "hung", Round: c.hungAt})
		c.fail(checkHang, "round %d has been open for %v with a quorum up", c.hungAt, open)
	}
}

// quorum reports whether voters of two thirds of the weight run and can talk to
// each other.
func (c *checker) quorum() bool {
	r := c.head()
	if r == nil {
		return true
	}
	// A table acts some instances after its record.
	acting := c.records[max(0, len(c.records)-1-consensus.Lookback)]
	return c.quorate(r.Table) && c.quorate(acting.Table)
}

// quorate reports whether those who run and can talk have a quorum of a table.
func (c *checker) quorate(table wire.Table) bool {
	var up []*Node
	for _, p := range table {
		if n := c.sw.byID[p.Peer]; n != nil && n.life != nil && n.Lie == nil && !n.disk.full {
			up = append(up, n)
		}
	}
	// A majority side is enough: count around each voter those that it reaches.
	for _, a := range up {
		w := table.Of(a.ID)
		for _, b := range up {
			if c.sw.linked(a, b) {
				w += table.Of(b.ID)
			}
		}
		if table.Quorum(w) {
			return true
		}
	}
	return false
}

// end checks what must hold when a simulation is over.
func (c *checker) end() {
	for _, n := range c.sw.Nodes {
		c.proveLog(n)
	}
	c.redundant()
	c.memory()
}

// redundant checks that the newest version that a quorum attested lives on at
// least two machines that run, where two could have it.
func (c *checker) redundant() {
	r := c.head()
	if r == nil || r.Certified.Version.IsZero() {
		return
	}
	up, holds := 0, 0
	for _, n := range c.sw.Nodes {
		if n.life == nil || n.disk.full {
			continue
		}
		up++
		if len(n.heads) > 0 && c.holds(n, r.Certified.Version) {
			holds++
		}
	}
	if up >= 2 && holds < 2 {
		c.fail(checkRedundancy, "version %d is held by %d of %d running peers", r.Certified.Round, holds, up)
	}
}

// holds reports whether a node's disk has the manifest of a version.
func (c *checker) holds(n *Node, version wire.CID) bool {
	_, err := n.disk.states.Get(wire.RawDigestCID(version.Digest()))
	return err == nil
}

// memory checks that old versions are dropped.
func (c *checker) memory() {
	for _, n := range c.sw.Nodes {
		epochs := map[uint64]bool{}
		for _, e := range n.disk.states.ids {
			epochs[e] = true
		}
		if len(epochs) > 3 {
			c.fail(checkMemory, "peer %d keeps versions of %d epochs", n.Index, len(epochs))
		}
	}
}
