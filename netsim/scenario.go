package netsim

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/wire"
)

//go:embed scenarios/*.toml
var scenarioFiles embed.FS

// Scenario is one simulation as its file says it.
type Scenario struct {
	Name  string `toml:"name"`
	About string `toml:"about"`

	// Tiers says where the scenario runs: event, net, proc. None is event alone.
	Tiers []string `toml:"tiers"`

	Swarm  SwarmSpec   `toml:"swarm"`
	Model  ModelSpec   `toml:"model"`
	Link   LinkSpec    `toml:"link"`
	Groups []GroupSpec `toml:"group"`
	Faults []FaultSpec `toml:"fault"`
	Expect ExpectSpec  `toml:"expect"`
}

// SwarmSpec says who trains, and how.
type SwarmSpec struct {
	Peers       int    `toml:"peers"`        // started with the run
	Spare       int    `toml:"spare"`        // further machines that may be started later
	Rounds      uint64 `toml:"rounds"`       // of the run; 0: until the time is up
	Time        Span   `toml:"time"`         // virtual; the simulation ends then
	Failures    int    `toml:"failures"`     // the simulation ends after so many kills
	Seed        uint64 `toml:"seed"`         //
	Preset      string `toml:"preset"`       // diloco, ddp
	Codec       string `toml:"codec"`        // default: the preset's
	Topology    string `toml:"topology"`     // default: the preset's
	Aggregator  string `toml:"aggregator"`   // default: the preset's
	Steps       uint32 `toml:"steps"`        // local steps of a round or window
	Group       uint32 `toml:"group"`        // most peers that average as one group; 2 to 32
	MinPeers    uint32 `toml:"min_peers"`    // that begin the run
	DeadlineMin Span   `toml:"deadline_min"` // of a round
	DeadlineMax Span   `toml:"deadline_max"` //
	Detect      Span   `toml:"detect"`       // until a dead connection is noticed
}

// ModelSpec says what they train; see ModelConfig.
type ModelSpec struct {
	Kind   string  `toml:"kind"`
	Params int     `toml:"params"`
	Batch  uint32  `toml:"batch"`
	LR     float64 `toml:"lr"`
	Step   Span    `toml:"step"`
	Floor  float64 `toml:"floor"`
	Scale  float64 `toml:"scale"`
	Power  float64 `toml:"power"`
	// Args replace sizes of the small classifier that whole daemons train.
	Args map[string]int64 `toml:"args"`
}

// LinkSpec is a Link; rates are bits a second such as "10Mbit".
type LinkSpec struct {
	Latency Span    `toml:"latency"`
	Jitter  Span    `toml:"jitter"`
	Up      string  `toml:"up"`
	Down    string  `toml:"down"`
	Loss    float64 `toml:"loss"`
}

// GroupSpec sets machines apart from the others. Machines are given to groups in
// order, from the highest index down: the creator is in the last one to be taken.
type GroupSpec struct {
	Name  string   `toml:"name"`
	Count int      `toml:"count"`
	Speed float64  `toml:"speed"` // default 1
	Skew  Span     `toml:"skew"`  // of the clock
	Slow  Span     `toml:"slow"`  // what a durable write takes
	Link  LinkSpec `toml:"link"`  // default: the scenario's
	Lie   string   `toml:"lie"`   // how its peers lie; see Adversaries
}

// FaultSpec is something that happens at a time or again and again.
type FaultSpec struct {
	What string `toml:"what"` // see faults
	Who  string `toml:"who"`  // random voter leader bootstrap down group:NAME all, or indexes "3,4,7-9"
	// Count is how many of them are picked; 0 is one, except that groups, all and
	// indexes mean everybody.
	Count int `toml:"count"`
	// Share is the same as a part of the running peers.
	Share   float64 `toml:"share"`
	At      When    `toml:"at"`      // "30s" or "round 10"
	Every   When    `toml:"every"`   // "60s" or "round 1"; from At on
	Until   Span    `toml:"until"`   // a time; default: the end
	Restart Span    `toml:"restart"` // after a kill or leave: when the process comes back; empty: never
	For     Span    `toml:"for"`     // how long cut, partition, full, slow and skew last; empty: for good
	Power   bool    `toml:"power"`   // a kill loses what was not synced
	By      Span    `toml:"by"`      // the amount of slow and skew
}

// ExpectSpec is what the scenario promises; a run that breaks it fails.
type ExpectSpec struct {
	Useful   float64 `toml:"useful"`    // at least
	LossMost float64 `toml:"loss_most"` // final loss at most
	Finished bool    `toml:"finished"`  // every honest running peer ends the run
	Liars    bool    `toml:"liars"`     // the lying peers never count
}

// Scenarios returns the names of the built-in scenarios.
func Scenarios() []string {
	var out []string
	es, err := fs.ReadDir(scenarioFiles, "scenarios")
	if err != nil {
		panic(err) // embedded
	}
	for _, e := range es {
		out = append(out, strings.TrimSuffix(e.Name(), ".toml"))
	}
	return out
}

// ScenarioText returns the file of a built-in scenario.
func ScenarioText(name string) ([]byte, error) {
	b, err := scenarioFiles.ReadFile(path.Join("scenarios", path.Base(name)+".toml"))
	if err != nil {
		return nil, fmt.Errorf("no scenario %q; there are: %s", name, strings.Join(Scenarios(), " "))
	}
	return b, nil
}

// ParseScenario reads and checks a scenario. file is for messages. set changes
// keys, as "swarm.peers=200"; what a changed scenario does not reach is no error.
func ParseScenario(file string, b []byte, set ...string) (*Scenario, error) {
	var s Scenario
	if err := exit.DecodeFile(file, b, &s); err != nil {
		return nil, err
	}
	for _, kv := range set {
		if err := exit.DecodeSet(kv, &s); err != nil {
			return nil, err
		}
	}
	if bad := s.refusals(len(set) == 0); len(bad) > 0 {
		for i := range bad {
			bad[i].line = lineOf(b, bad[i].key)
		}
		return nil, refused(file, bad)
	}
	return &s, nil
}

// link returns l with what is not said taken from def.
func (l LinkSpec) link(def Link) (Link, error) {
	out := def
	var err error
	out.Latency, out.Jitter = l.Latency.Or(def.Latency), l.Jitter.Or(def.Jitter)
	if out.Latency < 0 || out.Jitter < 0 {
		return out, fmt.Errorf("latency %v, jitter %v: a time is negative", out.Latency, out.Jitter)
	}
	for _, r := range []struct {
		name, text string
		to         *float64
	}{{"up", l.Up, &out.Up}, {"down", l.Down, &out.Down}} {
		if r.text == "" {
			continue
		}
		if *r.to, err = rate(r.text); err != nil {
			return out, fmt.Errorf("%s: %w", r.name, err)
		}
	}
	if l.Loss != 0 {
		out.Loss = l.Loss
	}
	if !(out.Loss >= 0 && out.Loss < 1) {
		return out, fmt.Errorf("loss: %v, want 0 to below 1", l.Loss)
	}
	return out, nil
}

// config returns the swarm of a scenario that was checked.
func (s *Scenario) config() SwarmConfig {
	w := s.Swarm
	link, err := s.Link.link(Link{Latency: time.Millisecond})
	if err != nil {
		panic(err)
	}
	rounds := w.Rounds
	if rounds == 0 {
		rounds = wire.MaxRounds
	}
	strangers := 0
	for _, g := range s.Groups {
		if isStranger(g.Lie) {
			strangers += g.Count
		}
	}
	return SwarmConfig{Peers: w.Peers, Strangers: strangers, Spare: w.Spare, Rounds: rounds, Preset: w.Preset, Codec: w.Codec, Topology: w.Topology, Steps: w.Steps, Seed: w.Seed,
		Model: ModelConfig{Kind: s.Model.Kind, Params: s.Model.Params, Batch: s.Model.Batch, LR: float32(s.Model.LR), Step: s.Model.Step.D,
			Floor: s.Model.Floor, Scale: s.Model.Scale, Power: s.Model.Power},
		MinPeers: w.MinPeers, Group: w.Group, MinDeadline: w.DeadlineMin.D, MaxDeadline: w.DeadlineMax.D, Link: link, Detect: w.Detect.D,
		Change: func(g *wire.Genesis) {
			if w.Aggregator != "" {
				g.Preset.Aggregator = w.Aggregator
			}
		}}
}

// GroupOf returns the group of each of n machines, empty for none.
func (s *Scenario) GroupOf(n int) []string {
	out := make([]string, n)
	for _, g := range s.Groups {
		for range g.Count {
			n--
			out[n] = g.Name
		}
	}
	return out
}

// Access returns the link and the time of a local step of each of n machines.
func (s *Scenario) Access(n int) (links []Link, steps []time.Duration) {
	base := s.config()
	for _, name := range s.GroupOf(n) {
		link, step := base.Link, base.Model.Step
		for _, g := range s.Groups {
			if g.Name != name {
				continue
			}
			link, _ = g.Link.link(link) // Check has seen it
			if g.Speed > 0 {
				step = time.Duration(float64(step) / g.Speed)
			}
		}
		links, steps = append(links, link), append(steps, step)
	}
	return links, steps
}

// outfit gives the machines of a swarm to the groups.
func (s *Scenario) outfit(sw *Swarm) {
	next := len(sw.Nodes)
	for _, g := range s.Groups {
		for range g.Count {
			next--
			n := sw.Nodes[next]
			n.Group = g.Name
			if g.Speed > 0 {
				n.Speed = g.Speed
			}
			n.Skew, n.disk.slow = g.Skew.D, g.Slow.D
			link, err := g.Link.link(sw.cfg.Link)
			if err != nil {
				panic(err)
			}
			n.wires.link = link
			if g.Lie != "" {
				n.Lie = newLiar(g.Lie, n)
				sw.omniscient = true
			}
		}
	}
}
