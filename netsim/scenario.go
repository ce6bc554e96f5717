package netsim

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apiary-net/hived/daemon"
	"github.com/apiary-net/hived/elastic"
	"github.com/apiary-net/hived/wire"
)

//go:embed scenarios/*.toml
var scenarioFiles embed.FS

// Scenario is one simulation as its file says it. Durations are texts such as
// "250ms"; an empty one is the default.
type Scenario struct {
	Name  string `toml:"name"`
	About string `toml:"about"`

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
	Time        string `toml:"time"`         // virtual; the simulation ends then
	Failures    int    `toml:"failures"`     // the simulation ends after so many kills
	Seed        uint64 `toml:"seed"`         //
	Preset      string `toml:"preset"`       // diloco, ddp
	Codec       string `toml:"codec"`        // none, bf16, int8
	Topology    string `toml:"topology"`     // allgather, butterfly
	Aggregator  string `toml:"aggregator"`   // mean, clip-median
	Steps       uint32 `toml:"steps"`        // local steps of a round or window
	Group       uint32 `toml:"group"`        // most peers that average as one group; 2 to 32
	MinPeers    uint32 `toml:"min_peers"`    // that begin the run
	DeadlineMin string `toml:"deadline_min"` // of a round
	DeadlineMax string `toml:"deadline_max"` //
	Detect      string `toml:"detect"`       // until a dead connection is noticed
}

// ModelSpec says what they train; see ModelConfig.
type ModelSpec struct {
	Kind   string  `toml:"kind"`
	Params int     `toml:"params"`
	Batch  uint32  `toml:"batch"`
	LR     float64 `toml:"lr"`
	Step   string  `toml:"step"`
	Floor  float64 `toml:"floor"`
	Scale  float64 `toml:"scale"`
	Power  float64 `toml:"power"`
}

// LinkSpec is a Link; rates are bits a second such as "10Mbit".
type LinkSpec struct {
	Latency string  `toml:"latency"`
	Jitter  string  `toml:"jitter"`
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
	Skew  string   `toml:"skew"`  // of the clock
	Slow  string   `toml:"slow"`  // what a durable write takes
	Link  LinkSpec `toml:"link"`  // default: the scenario's
	Lie   string   `toml:"lie"`   // how its peers lie; see Adversaries
}

// FaultSpec is something that happens at a time or again and again.
type FaultSpec struct {
	What string `toml:"what"` // kill leave start wipe cut heal partition full free slow skew
	Who  string `toml:"who"`  // random voter leader bootstrap down group:NAME all, or indexes "3,4,7-9"
	// Count is how many of them are picked; 0 is one, except that groups, all and
	// indexes mean everybody.
	Count int `toml:"count"`
	// Share is the same as a part of the running peers.
	Share   float64 `toml:"share"`
	At      string  `toml:"at"`      // "30s" or "round 10"
	Every   string  `toml:"every"`   // "60s" or "round 1"; from At on
	Until   string  `toml:"until"`   // a time; default: the end
	Restart string  `toml:"restart"` // after a kill or leave: when the process comes back; empty: never
	For     string  `toml:"for"`     // how long cut, partition, full, slow and skew last; empty: for good
	Power   bool    `toml:"power"`   // a kill loses what was not synced
	By      string  `toml:"by"`      // the amount of slow and skew
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
// keys, as "swarm.peers=200".
func ParseScenario(file string, b []byte, set ...string) (*Scenario, error) {
	var s Scenario
	if err := daemon.DecodeFile(file, b, &s); err != nil {
		return nil, err
	}
	for _, kv := range set {
		if err := daemon.DecodeSet(kv, &s); err != nil {
			return nil, err
		}
	}
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &s, nil
}

// Check finds what cannot be, before anything runs.
func (s *Scenario) Check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	w := s.Swarm
	if w.Peers < 1 || w.Peers+w.Spare > MaxPeers {
		bad("swarm.peers: %d and %d spare, want 1 to %d in all", w.Peers, w.Spare, MaxPeers)
	}
	if w.Rounds == 0 && w.Time == "" && w.Failures == 0 {
		bad("swarm: rounds, time or failures must say when it ends")
	}
	if w.Group != 0 && (w.Group < 2 || w.Group > wire.MaxMembers) {
		bad("swarm.group: %d, want 2 to %d", w.Group, wire.MaxMembers)
	}
	if one := w.Preset == "ddp" || w.Topology == "butterfly"; one && w.Peers+w.Spare > wire.MaxMembers {
		bad("swarm.peers: %d and %d spare: ddp and butterfly are for one group of at most %d", w.Peers, w.Spare, wire.MaxMembers)
	}
	if int(w.MinPeers) > w.Peers {
		bad("swarm.min_peers: %d peers begin the run, %d are started", w.MinPeers, w.Peers)
	}
	if _, err := elastic.PresetNamed(w.Preset); err != nil {
		bad("swarm.preset: %w", err)
	}
	in := func(key, v string, of ...string) {
		if v != "" && !slices.Contains(of, v) {
			bad("%s: %q is not one of %s", key, v, strings.Join(of, ", "))
		}
	}
	in("swarm.codec", w.Codec, "none", "bf16", "int8")
	in("swarm.topology", w.Topology, "allgather", "butterfly")
	in("swarm.aggregator", w.Aggregator, "mean", "clip-median")
	in("model.kind", s.Model.Kind, "quadratic", "mlp", "cost")
	if s.Model.Params < 0 || s.Model.Params > 1<<26 {
		bad("model.params: %d, want at most %d", s.Model.Params, 1<<26)
	}
	for _, d := range [][2]string{{"swarm.time", w.Time}, {"swarm.deadline_min", w.DeadlineMin}, {"swarm.deadline_max", w.DeadlineMax}, {"swarm.detect", w.Detect}, {"model.step", s.Model.Step}} {
		if _, err := span(d[1], 0); err != nil {
			bad("%s: %w", d[0], err)
		}
	}
	if _, err := s.Link.link(Link{}); err != nil {
		bad("link.%w", err)
	}
	errs = append(errs, s.checkGroups()...)
	for i := range s.Faults {
		if err := s.checkFault(&s.Faults[i]); err != nil {
			bad("fault %d (%s): %w", i+1, s.Faults[i].What, err)
		}
	}
	return errors.Join(errs...)
}

// MaxPeers is the most machines of a simulation.
const MaxPeers = wire.MaxSeats

func (s *Scenario) checkGroups() (errs []error) {
	total, names := 0, map[string]bool{}
	for _, g := range s.Groups {
		total += g.Count
		if g.Name == "" || names[g.Name] {
			errs = append(errs, fmt.Errorf("group %q: a group needs a name of its own", g.Name))
		}
		names[g.Name] = true
		if g.Count < 1 || g.Speed < 0 {
			errs = append(errs, fmt.Errorf("group %s: count %d, speed %v", g.Name, g.Count, g.Speed))
		}
		if _, err := g.Link.link(Link{}); err != nil {
			errs = append(errs, fmt.Errorf("group %s: link.%w", g.Name, err))
		}
		for _, d := range []string{g.Skew, g.Slow} {
			if _, err := span(strings.TrimPrefix(d, "-"), 0); err != nil {
				errs = append(errs, fmt.Errorf("group %s: %w", g.Name, err))
			}
		}
		if g.Lie != "" && !slices.Contains(Adversaries(), g.Lie) {
			errs = append(errs, fmt.Errorf("group %s: lie %q is not one of %s", g.Name, g.Lie, strings.Join(Adversaries(), ", ")))
		}
	}
	for i, g := range s.Groups {
		if g.Lie == "sybil" && (i > 0 || s.Swarm.Spare > 0 || g.Count >= s.Swarm.Peers) {
			errs = append(errs, fmt.Errorf("group %s: sybils are the first group of a swarm without spare machines", g.Name))
		}
	}
	if total > s.Swarm.Peers+s.Swarm.Spare {
		errs = append(errs, fmt.Errorf("group: groups of %d machines, there are %d", total, s.Swarm.Peers+s.Swarm.Spare))
	}
	return errs
}

// span reads a duration; the empty text is def.
func span(text string, def time.Duration) (time.Duration, error) {
	if text == "" {
		return def, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a duration such as 250ms or 10s", text)
	}
	return d, nil
}

// mustSpan is span of what Check has seen.
func mustSpan(text string, def time.Duration) time.Duration {
	d, err := span(text, def)
	if err != nil {
		panic(err)
	}
	return d
}

// rate reads bits a second as bytes a second.
func rate(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	for _, u := range []struct {
		name string
		bits float64
	}{{"Gbit", 1e9}, {"Mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}} {
		if n, ok := strings.CutSuffix(text, u.name); ok {
			f, err := strconv.ParseFloat(strings.TrimSpace(n), 64)
			if err != nil || !(f > 0) {
				break
			}
			return f * u.bits / 8, nil
		}
	}
	return 0, fmt.Errorf("%q is not a rate such as 10Mbit", text)
}

// link returns l with what is not said taken from def.
func (l LinkSpec) link(def Link) (Link, error) {
	out := def
	var err error
	if out.Latency, err = span(l.Latency, def.Latency); err != nil {
		return out, fmt.Errorf("latency: %w", err)
	}
	if out.Jitter, err = span(l.Jitter, def.Jitter); err != nil {
		return out, fmt.Errorf("jitter: %w", err)
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
		if g.Lie == "sybil" {
			strangers += g.Count
		}
	}
	return SwarmConfig{Peers: w.Peers, Strangers: strangers, Spare: w.Spare, Rounds: rounds, Preset: w.Preset, Codec: w.Codec, Topology: w.Topology, Steps: w.Steps, Group: w.Group, Seed: w.Seed,
		Model: ModelConfig{Kind: s.Model.Kind, Params: s.Model.Params, Batch: s.Model.Batch, LR: float32(s.Model.LR), Step: mustSpan(s.Model.Step, 0),
			Floor: s.Model.Floor, Scale: s.Model.Scale, Power: s.Model.Power},
		MinPeers: w.MinPeers, MinDeadline: mustSpan(w.DeadlineMin, 0), MaxDeadline: mustSpan(w.DeadlineMax, 0), Link: link, Detect: mustSpan(w.Detect, 0),
		Change: func(g *wire.Genesis) {
			if w.Aggregator != "" {
				g.Preset.Aggregator = w.Aggregator
			}
		}}
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
			n.Skew = mustSpan(strings.TrimPrefix(g.Skew, "-"), 0)
			if strings.HasPrefix(g.Skew, "-") {
				n.Skew = -n.Skew
			}
			n.disk.slow = mustSpan(g.Slow, 0)
			link, err := g.Link.link(sw.cfg.Link)
			if err != nil {
				panic(err)
			}
			n.wires.link = link
			if g.Lie != "" {
				n.Lie = newAdversary(g.Lie, n)
				sw.omniscient = true
			}
		}
	}
}
