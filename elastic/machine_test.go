package elastic

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apiary-net/hived/wire"
)

// electorate is an agreement in which every instance has one table and one leader.
type electorate struct {
	table  wire.Table
	leader wire.PeerID
}

func (e electorate) Table(uint64) wire.Table                        { return e.table }
func (e electorate) Leader(wire.Digest, uint64, uint64) wire.PeerID { return e.leader }
func (e electorate) Held(uint64) uint64                             { return 0 }

// machine returns that of a peer in the round that is open, from its beginning on.
func (b *bench) machine(self int) (m *Machine, start time.Time) {
	head := b.h.Head()
	m = NewMachine(MachineConfig{Genesis: b.g, Run: b.run, Self: b.keys[self].Peer(), Voters: electorate{head.Table, b.keys[len(b.keys)-1].Peer()}, Parts: 1})
	start = time.Unix(1_700_000_000, 0)
	m.Restore(start, b.h, 0, head.Certified.Version, head.Round)
	m.round.late = false // it was there when the round began
	return m, start
}

// told names commands in order, without Wake.
func told(cs []Command) string {
	var out []string
	for _, c := range cs {
		switch c := c.(type) {
		case Wake:
		case Say:
			out = append(out, "say "+c.Kind.String())
		default:
			out = append(out, strings.TrimPrefix(fmt.Sprintf("%T", c), "elastic."))
		}
	}
	return strings.Join(out, ", ")
}

// Nobody shows a body of the open round to a peer that has not committed itself:
// bodies are asked for from the own header on, or from the deadline on.
func TestBodiesAreAskedForOnceTheyAreShown(t *testing.T) {
	b := newBench(4, nil)
	own, other := b.header(0, nil), b.header(1, nil)
	for name, c := range map[string]struct {
		then  func(m *Machine, start time.Time) []Command
		wants string
	}{
		"own header": {func(m *Machine, start time.Time) []Command { return m.Step(start.Add(time.Millisecond), Heard{own}) }, "FetchBody, FetchBody"},
		"deadline": {func(m *Machine, start time.Time) []Command {
			return m.Step(start.Add(m.Plan().Deadline), Tick{})
		}, "FetchBody, say have"},
	} {
		m, start := b.machine(0)
		if got := told(m.Step(start, Tick{})); got != "Train" {
			t.Fatalf("%s: the round begins with %q", name, got)
		}
		if got := told(m.Step(start, Heard{other})); got != "" {
			t.Fatalf("%s: a header of another leads to %q", name, got)
		}
		if got := told(c.then(m, start)); got != c.wants {
			t.Errorf("%s: %q, want %q", name, got, c.wants)
		}
	}
}

// A peer that leaves as a round begins does that round's work: the record that
// puts it to rest counts it, and its group needs its vote until then.
func TestWhoLeavesFinishesItsRound(t *testing.T) {
	b := newBench(4, nil)
	m, start := b.machine(0)
	m.Leave()
	if got := told(m.Step(start, Tick{})); got != "say leave, Train" {
		t.Fatalf("the round of a leave begins with %q", got)
	}
	in := b.full()
	in.Leaves = []wire.Envelope{wire.Seal(b.keys[0], wire.KindLeave, b.run, 1, &wire.Leave{Reason: "stopped"})}
	r := b.compose(t, in)
	if s, _ := r.Seat(b.keys[0].Peer()); s.Active || b.status(r, 0).Status != wire.Counted {
		t.Fatalf("after its leave the peer is active: %v, its work has status %v", s.Active, b.status(r, 0).Status)
	}
	b.h = b.h.With(r)
	m, start = b.machine(0)
	m.Leave()
	if got := told(m.Step(start, Tick{})); got != "" {
		t.Fatalf("at rest it does %q", got)
	}
	if slices.Contains(m.Plan().Peers(), b.keys[0].Peer()) {
		t.Fatal("it is planned for")
	}
}
