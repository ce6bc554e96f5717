package netsim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apiary-net/hived/consensus"
	"github.com/apiary-net/hived/elastic"
	"github.com/apiary-net/hived/wire"
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

	books    *Books
	at       []time.Time  // when each record was first known
	ends     map[int]bool // peers that said finished
	instance uint64       // that decides the next record

	diverged   string // who computed what is no number; empty: nobody
	divergedIn uint64 // the round of that

	liars string // the newest round in which a lying peer counted

	hung     int // 1 once a round has exceeded its bound: the simulation ends there
	hungAt   uint64
	quorumUp time.Time // since when a quorum has been up and connected
}

func newChecker(sw *Swarm) *checker {
	who := func(p wire.PeerID) (index int, honest, ok bool) {
		n := sw.byID[p]
		if n == nil {
			return 0, false, false
		}
		return n.Index, n.Lie == nil, true
	}
	return &checker{sw: sw, books: NewBooks(&sw.Genesis, who, sw.pool.Block), ends: map[int]bool{}}
}

func (c *checker) fail(name, format string, args ...any) {
	if c.found == nil {
		c.found = &Violation{Checker: name, Detail: fmt.Sprintf(format, args...), At: c.sw.Loop.Since(), Trail: slices.Clone(c.sw.trail.last)}
	}
}

// head returns the newest record that anybody decided, or nil.
func (c *checker) head() *wire.Record { return c.books.Head() }

// decided hears that a peer learnt a record.
func (c *checker) decided(n *Node, i *elastic.RoundInfo) {
	r := i.Record
	before := len(c.books.names)
	fresh, f := c.books.Record(fmt.Sprintf("peer %d", n.Index), r)
	if f != nil {
		c.fail(f.Checker, "%s", f.Detail)
	}
	if !fresh {
		return
	}
	now := c.sw.Loop.Now()
	e := Event{Kind: "decided", Peer: n.Index, Round: r.Round, Record: r.Digest().String()}
	if before > 0 {
		e.TookMs = now.Sub(c.at[r.Round-1]).Milliseconds()
	}
	for _, n := range c.sw.Nodes {
		e.Control, e.Payload = e.Control+n.Control, e.Payload+n.Payload
	}
	c.liar(r)
	c.books.Show(r, &e)
	c.at = append(c.at, now)
	c.instance = i.Instance + 1
	c.sw.trail.add(e)
	if c.sw.onRecord != nil {
		c.sw.onRecord(r.Round)
	}
}

// liar notes a lying peer that counts.
func (c *checker) liar(r *wire.Record) {
	for _, v := range r.Cut {
		if n := c.sw.byID[v.Peer]; n != nil && n.Lie != nil && v.Status == wire.Counted {
			c.liars = fmt.Sprintf("peer %d (%s) in round %d", n.Index, n.Lie.name, r.Round)
		}
	}
}

// appended hears of entries that are durable in a peer's log.
func (c *checker) appended(n *Node, h wire.Head, entries []wire.EntryBody) {
	if old := n.acknowledged(); h.Size != old+uint64(len(entries)) {
		c.fail(CheckLogs, "the log of peer %d has %d entries after %d and %d more", n.Index, h.Size, old, len(entries))
	}
	n.heads = append(n.heads, h)
	for _, e := range entries {
		if e.Kind != wire.EntryVersion {
			continue
		}
		n.version, n.round = e.Ref, e.Round
		fresh, f := c.books.Version(fmt.Sprintf("peer %d", n.Index), e.Round, e.Ref)
		if fresh {
			c.sw.trail.add(Event{Kind: "version", Peer: n.Index, Round: e.Round, Version: e.Ref.String()})
		}
		if f != nil {
			c.fail(f.Checker, "%s", f.Detail)
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
		c.hungAt = c.head().Round + 1
		if c.spoiled() != "" {
			return // nothing is there to decide
		}
		c.hung++
		c.sw.trail.add(Event{Kind: "hung", Round: c.hungAt})
		c.fail(CheckHang, "round %d has been open for %v with a quorum up", c.hungAt, open)
	}
}

// diverge hears of local work that is no number.
func (c *checker) diverge(n *Node, what string) {
	if c.head() != nil && c.head().Round+1 > c.divergedIn {
		c.divergedIn = c.head().Round + 1
		c.diverged = fmt.Sprintf("training diverged in round %d, of which no contribution can count: peer %d %s", c.divergedIn, n.Index, what)
	}
}

// spoiled says why the open round has nothing to count, if its work is no number.
func (c *checker) spoiled() string {
	if c.head() == nil || c.head().Round >= c.divergedIn {
		return ""
	}
	return c.diverged
}

// quorum reports whether voters of two thirds of the weight run and can talk to
// each other.
func (c *checker) quorum() bool {
	r := c.head()
	if r == nil {
		return true
	}
	// A table acts some instances after its record.
	acting := c.books.records[max(0, len(c.books.records)-1-consensus.Lookback)]
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
	c.slots()
}

// redundant checks that the newest version that a quorum attested lives on at
// least two machines that run, where two could have it.
func (c *checker) redundant() {
	r := c.head()
	if r == nil || r.Certified.Round == 0 {
		return // version 0 is the seed's: nobody needs to store it
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

// slots checks that sign-once slots long decided are deleted: those of two times
// elastic's 64 rounds may be there.
func (c *checker) slots() {
	if c.head() == nil {
		return
	}
	for _, n := range c.sw.Nodes {
		if n.life == nil {
			continue
		}
		oldest := c.head().Round
		err := n.disk.kv.Scan([]byte("slot/header/"), func(k, _ []byte) error {
			r, err := strconv.ParseUint(strings.TrimPrefix(string(k), "slot/header/"), 10, 64)
			oldest = min(oldest, r)
			return err
		})
		if err != nil || oldest+3*64 < c.head().Round {
			c.fail(checkMemory, "peer %d keeps the slot of its header of round %d in round %d (%v)", n.Index, oldest, c.head().Round, err)
		}
	}
}

// durable checks that a peer that starts has the version that its newest entry names.
func (c *checker) durable(n *Node) {
	if n.round > 0 && !c.holds(n, n.version) {
		c.fail(checkDurable, "peer %d starts without version %d, which an entry of its log names", n.Index, n.round)
	}
}

// memory checks that old versions are dropped.
func (c *checker) memory() {
	for _, n := range c.sw.Nodes {
		if epochs := n.disk.states.epochs(); epochs > 3 {
			c.fail(checkMemory, "peer %d keeps versions of %d epochs", n.Index, epochs)
		}
	}
}
