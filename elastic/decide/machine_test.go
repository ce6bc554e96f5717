package decide_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apiary-net/hived/elastic/decide"
	"github.com/apiary-net/hived/elastic/rules/rulestest"
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
func machine(b *rulestest.Swarm, self int) (m *decide.Machine, start time.Time) {
	head := b.History.Head()
	m = decide.NewMachine(decide.MachineConfig{Genesis: b.Genesis, Run: b.Run, Self: b.Keys[self].Peer(), Voters: electorate{head.Table, b.Keys[len(b.Keys)-1].Peer()}, Parts: []wire.Part{{Hi: 1}}, Rand: rand.New(rand.NewPCG(1, 2))})
	start = time.Unix(1_700_000_000, 0)
	if len(b.History) > 1 {
		m.Restore(start, b.History, 0, head.Certified.Version, head.Round, head.Certified.Version)
		return m, start
	}
	m.Step(start, decide.Applied{Version: head.Certified.Version})
	m.Step(start, decide.Started{Record: head}) // Persisted is the next event
	return m, start
}

// told names commands in order, without Wake.
func told(cs []decide.Command) string {
	var out []string
	for _, c := range cs {
		switch c := c.(type) {
		case decide.Wake:
		case decide.Say:
			out = append(out, "say "+c.Kind.String())
		default:
			out = append(out, strings.TrimPrefix(fmt.Sprintf("%T", c), "decide."))
		}
	}
	return strings.Join(out, ", ")
}

// Nobody shows a body of the open round to a peer that has not committed itself:
// bodies are asked for from the own header on, or from the deadline on.
func TestBodiesAreAskedForOnceTheyAreShown(t *testing.T) {
	b := rulestest.New(4, nil)
	own, other := b.Header(0, nil), b.Header(1, nil)
	for name, c := range map[string]struct {
		then  func(m *decide.Machine, start time.Time) []decide.Command
		wants string
	}{
		"own header": {func(m *decide.Machine, start time.Time) []decide.Command {
			return m.Step(start.Add(time.Millisecond), decide.Heard{Env: own})
		}, "ShowTo, FetchBody, FetchBody"},
		"deadline": {func(m *decide.Machine, start time.Time) []decide.Command {
			return m.Step(start.Add(m.View().Plan.Deadline), decide.Tick{})
		}, "FetchBody, say have, ShowAll"},
	} {
		m, start := machine(b, 0)
		if got := told(m.Step(start, decide.Persisted{})); !strings.HasSuffix(got, "Train") {
			t.Fatalf("%s: the round begins with %q", name, got)
		}
		if got := told(m.Step(start, decide.Heard{Env: other})); got != "ShowTo, EndWindow" {
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
	b := rulestest.New(4, nil)
	m, start := machine(b, 0)
	m.Step(start, decide.Persisted{})
	if got := told(m.Step(start, decide.Leaving{})); got != "say leave" {
		t.Fatalf("the round of a leave begins with %q", got)
	}
	in := b.Full()
	in.Leaves = []wire.Envelope{wire.Seal(b.Keys[0], wire.KindLeave, b.Run, 1, &wire.Leave{Reason: "stopped"})}
	r := b.MustCompose(t, in)
	if s, _ := r.Seat(b.Keys[0].Peer()); s.Active || b.Status(r, 0).Status != wire.Counted {
		t.Fatalf("after its leave the peer is active: %v, its work has status %v", s.Active, b.Status(r, 0).Status)
	}
	b.History = b.History.With(r)
	m, start = machine(b, 0)
	if got := told(m.Step(start, decide.Leaving{})); got != "" && got != "Left" {
		t.Fatalf("at rest it does %q", got)
	}
	if slices.Contains(m.View().Plan.Peers(), b.Keys[0].Peer()) {
		t.Fatal("it is planned for")
	}
}
