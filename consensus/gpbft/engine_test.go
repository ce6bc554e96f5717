package gpbft

import (
	"container/heap"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/apiary-net/hived/wire"
)

// swarm runs engines on a seeded event loop with virtual time.
type swarm struct {
	t      *testing.T
	run    wire.RunID
	rng    *rand.Rand
	now    time.Time
	queue  eventQueue
	seq    int
	nodes  []*node
	lo, hi time.Duration
	loss   float64
	trace  []byte // digest over all deliveries
}

type node struct {
	key   wire.Key
	eng   *Engine
	slots map[string][]byte
	// unreadable is why slots cannot be read; nil: they can.
	unreadable error
	dead       bool
	alarm      int
	certs      []wire.Cert
	table      wire.Table
	sw         *swarm
	id         int
}

type event struct {
	at    time.Time
	seq   int
	to    int
	ev    wire.EngineEvent
	alarm int
}

type eventQueue []event

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, j int) bool {
	return q[i].at.Before(q[j].at) || q[i].at.Equal(q[j].at) && q[i].seq < q[j].seq
}
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *eventQueue) Pop() any {
	o := *q
	x := o[len(o)-1]
	*q = o[:len(o)-1]
	return x
}

func testKey(i int) wire.Key {
	var seed [32]byte
	binary.BigEndian.PutUint64(seed[:], uint64(i+1))
	k, err := wire.KeyFromSeed(seed[:])
	if err != nil {
		panic(err)
	}
	return k
}

func newSwarm(t *testing.T, powers []uint32, lo, hi time.Duration) *swarm {
	s := &swarm{t: t, run: wire.Sum([]byte("run")), rng: rand.New(rand.NewSource(7)), now: time.Unix(1000, 0), lo: lo, hi: hi}
	var table wire.Table
	for i, p := range powers {
		table = append(table, wire.Power{Rank: uint32(i), Peer: testKey(i).Peer(), Power: p})
	}
	for i := range powers {
		n := &node{key: testKey(i), slots: map[string][]byte{}, table: table, sw: s, id: i}
		n.restart()
		s.nodes = append(s.nodes, n)
	}
	return s
}

func (n *node) restart() {
	n.eng = New(Config{Key: n.key, Run: n.sw.run, Slot: func(b []byte) ([]byte, error) { return n.slots[string(b)], n.unreadable }})
}

func (s *swarm) push(at time.Time, to int, ev wire.EngineEvent, alarm int) {
	s.seq++
	heap.Push(&s.queue, event{at, s.seq, to, ev, alarm})
}

func (n *node) step(ev wire.EngineEvent) {
	s := n.sw
	for _, c := range n.eng.Step(s.now, ev) {
		switch c := c.(type) {
		case wire.EnginePersist:
			if old, ok := n.slots[string(c.Slot)]; ok && string(old) != string(c.Value) {
				s.t.Fatalf("node %d signs slot %x twice", n.id, c.Slot)
			}
			n.slots[string(c.Slot)] = c.Value
		case wire.EngineSend:
			env := wire.Seal(n.key, wire.KindVote, s.run, c.Instance, c.Body)
			for i, o := range s.nodes {
				if i != n.id && !o.dead && s.rng.Float64() >= s.loss {
					s.push(s.now.Add(s.lo+time.Duration(s.rng.Int63n(int64(s.hi)))), i, wire.EngineVote{Env: env}, 0)
				}
			}
		case wire.EngineSetAlarm:
			n.alarm++
			at := c.At
			if at.Before(s.now) {
				at = s.now
			}
			s.push(at, n.id, wire.EngineAlarm{}, n.alarm)
		case wire.EngineDecide:
			n.certs = append(n.certs, c.Cert)
		}
	}
}

// until runs the loop until done or 60 virtual seconds passed.
func (s *swarm) until(done func() bool) bool {
	end := s.now.Add(time.Minute)
	for len(s.queue) > 0 && !done() && s.now.Before(end) {
		e := heap.Pop(&s.queue).(event)
		s.now = e.at
		n := s.nodes[e.to]
		if _, ok := e.ev.(wire.EngineAlarm); ok && e.alarm != n.alarm {
			continue
		}
		if n.dead {
			continue
		}
		h := sha256.Sum256(append(s.trace, fmt.Sprint(e.at.UnixNano(), e.to)...))
		s.trace = h[:]
		n.step(e.ev)
	}
	return done()
}

func tip(i uint64, tag string) wire.Tip {
	return wire.Tip{Round: i, Record: wire.Sum([]byte(fmt.Sprint(i, tag))), Table: wire.Sum([]byte("table"))}
}

func (s *swarm) decide(instance uint64, base wire.Tip, proposal func(i int) *wire.Tip) []wire.Cert {
	s.t.Helper()
	want := map[int]int{}
	for i, n := range s.nodes {
		want[i] = len(n.certs) + 1
		if !n.dead {
			n.step(wire.EngineStart{Instance: instance, Base: base, Proposal: proposal(i), Table: n.table})
		}
	}
	ok := s.until(func() bool {
		for i, n := range s.nodes {
			if !n.dead && len(n.certs) < want[i] {
				return false
			}
		}
		return true
	})
	if !ok {
		for i, n := range s.nodes {
			if n.eng.run != nil {
				s.t.Logf("node %d: %s delta %v", i, n.eng.run.part.Describe(), n.eng.delta)
			}
		}
		s.t.Fatalf("instance %d: no decision in a virtual minute", instance)
	}
	var out []wire.Cert
	for _, n := range s.nodes {
		if !n.dead {
			out = append(out, n.certs[len(n.certs)-1])
		}
	}
	return out
}

func TestDecidesAndVerifies(t *testing.T) {
	for _, c := range []struct {
		name   string
		powers []uint32
		dead   []int
	}{
		{"one", []uint32{1}, nil},
		{"two", []uint32{2, 1}, nil},
		{"two, light one dead", []uint32{2, 1}, []int{1}},
		{"three", []uint32{1, 1, 1}, nil},
		{"four", []uint32{1, 1, 1, 1}, nil},
		{"four, one dead", []uint32{1, 1, 1, 1}, []int{2}},
		{"twenty-one, seven dead", []uint32{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, []int{0, 3, 6, 9, 12, 15, 18}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSwarm(t, c.powers, time.Millisecond, time.Millisecond)
			for _, d := range c.dead {
				s.nodes[d].dead = true
			}
			base := tip(0, "A")
			for i := uint64(0); i < 3; i++ {
				next := tip(i+1, "A")
				for k, cert := range s.decide(i, base, func(int) *wire.Tip { return &next }) {
					if cert.Value != next.Record || cert.Round != i+1 {
						t.Fatalf("instance %d decided %+v, want record %d", i, cert, i+1)
					}
					if err := Verify(s.run, &cert, s.nodes[0].table); err != nil {
						t.Fatal(err)
					}
					if k == 0 {
						checkTampered(t, s, cert)
					}
				}
				base = next
			}
		})
	}
}

// checkTampered changes each field of a good certificate and wants a refusal.
func checkTampered(t *testing.T, s *swarm, good wire.Cert) {
	t.Helper()
	for name, change := range map[string]func(*wire.Cert){
		"value":    func(c *wire.Cert) { c.Value[0] ^= 1 },
		"base":     func(c *wire.Cert) { c.Base[31] ^= 1 },
		"table":    func(c *wire.Cert) { c.ValTable[3] ^= 1 },
		"instance": func(c *wire.Cert) { c.Instance++ },
		"round":    func(c *wire.Cert) { c.Round++ },
		"sigs":     func(c *wire.Cert) { c.Sigs = append([]byte{c.Sigs[0] ^ 1}, c.Sigs[1:]...) },
		"signer":   func(c *wire.Cert) { c.Signers = append([]uint32{99}, c.Signers[1:]...) },
		"quorum": func(c *wire.Cert) {
			c.Signers, c.Sigs = c.Signers[:len(c.Signers)/3], c.Sigs[:64*(len(c.Signers)/3)]
		},
	} {
		c := good
		change(&c)
		if err := Verify(s.run, &c, s.nodes[0].table); err == nil {
			t.Fatalf("certificate with another %s verifies", name)
		}
	}
	if err := Verify(wire.Sum([]byte("other run")), &good, s.nodes[0].table); err == nil {
		t.Fatal("certificate verifies in another run")
	}
}

func TestSplitProposalsDecideBase(t *testing.T) {
	s := newSwarm(t, []uint32{1, 1, 1, 1}, time.Millisecond, time.Millisecond)
	a, b := tip(1, "A"), tip(1, "B")
	certs := s.decide(0, tip(0, "A"), func(i int) *wire.Tip {
		if i%2 == 0 {
			return &a
		}
		return &b
	})
	for _, c := range certs {
		if c.Decided() {
			t.Fatalf("two against two decided %+v", c)
		}
		if err := Verify(s.run, &c, s.nodes[0].table); err != nil {
			t.Fatal(err)
		}
	}
	if d := s.nodes[0].eng.delta; d <= s.nodes[0].eng.cfg.MinDelta {
		t.Fatalf("delta is %v after a base decision with a proposal held", d)
	}
	// The next instance goes on from there.
	for _, c := range s.decide(1, tip(0, "A"), func(int) *wire.Tip { return &a }) {
		if c.Value != a.Record {
			t.Fatal("the instance after a base decision decided base again")
		}
	}
}

func TestSlowLinksMakeProgress(t *testing.T) {
	s := newSwarm(t, []uint32{1, 1, 1, 1}, 300*time.Millisecond, 700*time.Millisecond)
	base, decided := tip(0, "A"), 0
	for i := uint64(0); i < 12; i++ {
		next := tip(base.Round+1, "A")
		if s.decide(i, base, func(int) *wire.Tip { return &next })[0].Decided() {
			decided++
			base = next
		}
	}
	if decided < 3 {
		t.Fatalf("%d of 12 instances decided a record over slow links: delta does not adapt", decided)
	}
}

func TestRestartNeverSignsTwice(t *testing.T) {
	s := newSwarm(t, []uint32{1, 1, 1, 1}, time.Millisecond, time.Millisecond)
	a, b := tip(1, "A"), tip(1, "B")
	base := tip(0, "A")
	n := s.nodes[2]
	n.step(wire.EngineStart{Instance: 0, Base: base, Proposal: &a, Table: n.table})
	before := len(n.slots)
	if before == 0 {
		t.Fatal("nothing was signed")
	}
	n.restart()
	// The new life holds another proposal: step fails the test if a slot changes.
	n.step(wire.EngineStart{Instance: 0, Base: base, Proposal: &b, Table: n.table})
	for _, c := range s.decide(0, base, func(i int) *wire.Tip {
		if i == 2 {
			return &b
		}
		return &a
	}) {
		if c.Value != a.Record {
			t.Fatal("the three others did not decide")
		}
	}
}

func TestSameSeedSameTrace(t *testing.T) {
	run := func() string {
		s := newSwarm(t, []uint32{1, 1, 1, 1, 1, 1, 1}, time.Millisecond, 40*time.Millisecond)
		base := tip(0, "A")
		for i := uint64(0); i < 4; i++ {
			next := tip(i+1, "A")
			if !s.decide(i, base, func(int) *wire.Tip { return &next })[0].Decided() {
				continue
			}
			base = next
		}
		return fmt.Sprintf("%x", s.trace)
	}
	first := run()
	for range 3 {
		if again := run(); again != first {
			t.Fatalf("traces differ: %s and %s", first, again)
		}
	}
}

func FuzzVote(f *testing.F) {
	f.Add([]byte{0x85})
	s := newSwarm(&testing.T{}, []uint32{1}, 1, 1)
	for _, c := range s.nodes[0].eng.Step(s.now, wire.EngineStart{Base: tip(0, "A"), Table: s.nodes[0].table}) {
		if c, ok := c.(wire.EngineSend); ok {
			f.Add(c.Body)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := wire.OpenVote(b)
		if err == nil && string(wire.Marshal(v)) != string(b) {
			t.Fatal("vote decodes from two encodings")
		}
	})
}

// A slot that cannot be read is not an empty one: the peer signs nothing, and the others
// decide without it.
func TestUnreadableSlotIsSilence(t *testing.T) {
	s := newSwarm(t, []uint32{1, 1, 1, 1}, time.Millisecond, 5*time.Millisecond)
	s.nodes[3].unreadable = errors.New("input/output error")
	base := wire.Tip{Record: wire.Sum([]byte("base"))}
	value := wire.Tip{Round: 1, Record: wire.Sum([]byte("one"))}
	s.decide(0, base, func(int) *wire.Tip { return &value })
	if n := len(s.nodes[3].slots); n != 0 {
		t.Fatalf("it has signed %d votes", n)
	}
}
