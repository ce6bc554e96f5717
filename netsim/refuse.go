package netsim

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/tensorops/codec"
	"github.com/apiary-net/hived/tensorops/merge"
	"github.com/apiary-net/hived/wire"
)

// MaxPeers is the most machines of a simulation.
const MaxPeers = wire.MaxSeats

// refusal is one reason why a scenario cannot run.
type refusal struct {
	key  string // "swarm.peers"; "fault.2.what" is of the second fault
	err  error
	line int // of the file; 0: the key is not in it
}

// refused joins refusals of a file as one error.
func refused(file string, rs []refusal) error {
	var errs []error
	for _, r := range rs {
		at := file
		if r.line > 0 {
			at = fmt.Sprintf("%s:%d", file, r.line)
		}
		errs = append(errs, fmt.Errorf("%s: %w", at, r.err))
	}
	return exit.Fail(exit.Config, errors.Join(errs...), "scenario refused")
}

// Check finds what cannot be, before anything runs.
func (s *Scenario) Check() error {
	if rs := s.refusals(true); len(rs) > 0 {
		return refused(s.Name, rs)
	}
	return nil
}

// Bounds of a local step.
const (
	maxBatch = 1 << 12
	maxStep  = time.Hour
	minEvery = time.Millisecond // between two times of a fault
)

// refusals finds all that cannot be, and in a scenario that is as it was written also
// what would do nothing: a run that was cut short does not reach every fault.
func (s *Scenario) refusals(asWritten bool) (out []refusal) {
	bad := func(key, format string, args ...any) {
		out = append(out, refusal{key: key, err: fmt.Errorf(format, args...)})
	}
	w := s.Swarm
	if w.Peers < 1 || w.Spare < 0 || w.Peers+w.Spare > MaxPeers {
		bad("swarm.peers", "swarm.peers: %d and %d spare, want 1 to %d in all", w.Peers, w.Spare, MaxPeers)
	}
	kills := slices.ContainsFunc(s.Faults, func(f FaultSpec) bool { return f.What == "kill" && f.Every.Said })
	if w.Rounds == 0 && w.Time.D == 0 && (w.Failures == 0 || !kills) {
		bad("swarm", "swarm: rounds, time, or failures with a kill every so often, must say when it ends")
	}
	if w.Failures < 0 {
		bad("swarm.failures", "swarm.failures: %d is negative", w.Failures)
	}
	if size := min(w.Group, wire.MaxMembers); size >= 2 && w.Peers+w.Spare > wire.MaxGroups*int(size) {
		bad("swarm.group", "swarm.group: %d machines in groups of %d are more than %d groups", w.Peers+w.Spare, size, wire.MaxGroups)
	}
	if w.Group != 0 && (w.Group < 2 || w.Group > wire.MaxMembers) {
		bad("swarm.group", "swarm.group: %d, want 2 to %d", w.Group, wire.MaxMembers)
	}
	if one := w.Preset == "ddp" || w.Topology == "butterfly"; one && w.Peers+w.Spare > wire.MaxMembers {
		bad("swarm.peers", "swarm.peers: %d and %d spare: ddp and butterfly are for one group of at most %d", w.Peers, w.Spare, wire.MaxMembers)
	}
	if int(w.MinPeers) > w.Peers {
		bad("swarm.min_peers", "swarm.min_peers: %d peers begin the run, %d are started", w.MinPeers, w.Peers)
	}
	if _, err := rules.PresetNamed(w.Preset); err != nil {
		bad("swarm.preset", "swarm.preset: %w", err)
	}
	in := func(key, v string, of ...string) {
		if v != "" && !slices.Contains(of, v) {
			bad(key, "%s: %q is not one of %s", key, v, strings.Join(of, ", "))
		}
	}
	in("swarm.codec", w.Codec, codec.Names()...)
	in("swarm.topology", w.Topology, wire.Topologies()...)
	in("swarm.aggregator", w.Aggregator, merge.Names()...)
	in("model.kind", s.Model.Kind, ModelKinds()...)
	out = append(out, s.badNumbers()...)
	for _, d := range []struct {
		key string
		Span
	}{{"swarm.time", w.Time}, {"swarm.deadline_min", w.DeadlineMin}, {"swarm.deadline_max", w.DeadlineMax}, {"swarm.detect", w.Detect}, {"model.step", s.Model.Step}} {
		if d.D < 0 {
			bad(d.key, "%s: %v is negative", d.key, d.D)
		}
	}
	if _, err := s.Link.link(Link{}); err != nil {
		bad("link", "link.%w", err)
	}
	out = append(out, s.badGroups()...)
	for i := range s.Faults {
		key, err := s.badFault(&s.Faults[i])
		if err == nil && asWritten {
			key, err = s.idleFault(&s.Faults[i])
		}
		if err != nil {
			bad(fmt.Sprintf("fault.%d.%s", i+1, key), "fault %d (%s): %w", i+1, s.Faults[i].What, err)
		}
	}
	return append(out, s.badTiers()...)
}

// badNumbers finds sizes of the model, and promises, that cannot be.
func (s *Scenario) badNumbers() (out []refusal) {
	bad := func(key, format string, args ...any) {
		out = append(out, refusal{key: key, err: fmt.Errorf(format, args...)})
	}
	w := s.Swarm
	if w.Rounds > wire.MaxRounds {
		bad("swarm.rounds", "swarm.rounds: %d, want at most %d", w.Rounds, uint64(wire.MaxRounds))
	}
	if w.Steps > wire.MaxSteps {
		bad("swarm.steps", "swarm.steps: %d, want at most %d", w.Steps, wire.MaxSteps)
	}
	if lo, hi := w.DeadlineMin.D, w.DeadlineMax.D; lo > 0 && hi > 0 && lo > hi {
		bad("swarm.deadline_min", "swarm.deadline_min: %v is more than deadline_max, %v", lo, hi)
	}
	if s.Model.LR < 0 {
		bad("model.lr", "model.lr: %v is negative", s.Model.LR)
	}
	if s.Model.Params < 0 || s.Model.Params > 1<<26 {
		bad("model.params", "model.params: %d, want at most %d", s.Model.Params, 1<<26)
	}
	if s.Model.Batch > maxBatch {
		bad("model.batch", "model.batch: %d, want at most %d", s.Model.Batch, maxBatch)
	}
	if s.Model.Step.D > maxStep {
		bad("model.step", "model.step: %v, want at most %v", s.Model.Step.D, maxStep)
	}
	for _, x := range []struct {
		key string
		v   float64
	}{{"model.lr", s.Model.LR}, {"model.floor", s.Model.Floor}, {"model.scale", s.Model.Scale}, {"model.power", s.Model.Power},
		{"expect.useful", s.Expect.Useful}, {"expect.loss_most", s.Expect.LossMost}} {
		if !(math.Abs(x.v) <= 1e9) {
			bad(x.key, "%s: %v is not a number of a sensible size", x.key, x.v)
		}
	}
	return out
}

func (s *Scenario) badGroups() (out []refusal) {
	total, names := 0, map[string]bool{}
	for i, g := range s.Groups {
		bad := func(key, format string, args ...any) {
			out = append(out, refusal{key: fmt.Sprintf("group.%d.%s", i+1, key), err: fmt.Errorf("group %s: "+format, append([]any{g.Name}, args...)...)})
		}
		total += g.Count
		if g.Name == "" || names[g.Name] {
			bad("name", "a group needs a name of its own")
		}
		names[g.Name] = true
		if g.Count < 1 {
			bad("count", "count: %d, want at least 1", g.Count)
		}
		if g.Speed != 0 && !(g.Speed >= 1e-3 && g.Speed <= 1e3) {
			bad("speed", "speed: %v, want 0.001 to 1000", g.Speed)
		}
		if _, err := g.Link.link(Link{}); err != nil {
			bad("link", "link.%w", err)
		}
		if g.Slow.D < 0 {
			bad("slow", "slow: %v is negative", g.Slow.D)
		}
		if g.Lie != "" && !slices.Contains(Adversaries(), g.Lie) {
			bad("lie", "lie %q is not one of %s", g.Lie, strings.Join(Adversaries(), ", "))
		}
		if isStranger(g.Lie) && (i > 0 || s.Swarm.Spare > 0 || g.Count >= s.Swarm.Peers) {
			bad("lie", "peers that are not admitted are the first group of a swarm without spare machines")
		}
	}
	if total > s.Swarm.Peers+s.Swarm.Spare {
		out = append(out, refusal{key: "group.1", err: fmt.Errorf("group: groups of %d machines, there are %d", total, s.Swarm.Peers+s.Swarm.Spare)})
	}
	return out
}

// faults are what may happen, and in which tiers: a letter for each of event, net
// and proc.
var faults = []struct{ what, tiers string }{
	{"kill", "enp"}, {"leave", "enp"}, {"start", "enp"}, {"wipe", "enp"}, {"cut", "enp"}, {"heal", "enp"}, {"partition", "enp"},
	{"full", "e"}, {"free", "e"}, {"slow", "e"}, {"skew", "e"}, {"stop", "p"}, {"continue", "p"},
}

// lasting are the faults that may end by themselves.
var lasting = []string{"cut", "partition", "full", "slow", "skew", "stop"}

// badFault returns the key that is wrong and why.
func (s *Scenario) badFault(f *FaultSpec) (string, error) {
	known := slices.ContainsFunc(faults, func(k struct{ what, tiers string }) bool { return k.what == f.What })
	switch {
	case !known:
		var names []string
		for _, k := range faults {
			names = append(names, k.what)
		}
		return "what", fmt.Errorf("what: %q is not one of %s", f.What, strings.Join(names, ", "))
	case !f.At.Said && !f.Every.Said:
		return "what", errors.New("at or every must say when")
	case f.At.At < 0:
		return "at", fmt.Errorf("at: %v is negative", f.At.At)
	case f.Every.Said && f.Every.At <= 0 && f.Every.Round == 0:
		return "every", errors.New("every: no time passes in between")
	case f.Every.Said && f.Every.Round == 0 && f.Every.At < minEvery:
		return "every", fmt.Errorf("every: %v, want at least %v", f.Every.At, minEvery)
	case f.At.Said && f.At.Round == 0 && f.Every.Round > 0 && f.At.At > 0:
		return "at", errors.New("at a time and every so many rounds do not go together: give at as a round")
	case f.Until.D < 0 || f.Restart.D < 0 || f.For.D < 0:
		return "what", fmt.Errorf("until %v, restart %v, for %v: a time is negative", f.Until.D, f.Restart.D, f.For.D)
	case f.Restart.Said && f.What != "kill" && f.What != "leave":
		return "restart", fmt.Errorf("restart goes with kill and leave, not with %s", f.What)
	case f.For.Said && !slices.Contains(lasting, f.What):
		return "for", fmt.Errorf("%s lasts for no time", f.What)
	case !(f.Share >= 0 && f.Share <= 1) || f.Count < 0 || f.Share > 0 && f.Count > 0:
		return "share", fmt.Errorf("share %v and count %d: share is 0 to 1, and of the two one is given", f.Share, f.Count)
	case (f.What == "slow" || f.What == "skew") && !f.By.Said:
		return "by", errors.New("by must say how much")
	case f.What == "slow" && f.By.D < 0:
		return "by", fmt.Errorf("by: %v is negative", f.By.D)
	}
	if err := s.badWho(f.Who); err != nil {
		return "who", err
	}
	return "", nil
}

func (s *Scenario) badWho(who string) error {
	switch who {
	case "", "random", "voter", "leader", "bootstrap", "all", "down":
		return nil
	}
	if g, ok := strings.CutPrefix(who, "group:"); ok {
		if !slices.ContainsFunc(s.Groups, func(x GroupSpec) bool { return x.Name == g }) {
			return fmt.Errorf("who: there is no group %q", g)
		}
		return nil
	}
	ix, err := Indexes(who)
	if err != nil {
		return fmt.Errorf("who: %q is not random, voter, leader, bootstrap, down, all, group:NAME or indexes such as 1,4-6", who)
	}
	for _, i := range ix {
		if i >= s.Swarm.Peers+s.Swarm.Spare {
			return fmt.Errorf("who: there is no machine %d", i)
		}
	}
	return nil
}

// lineOf finds the line of a key: of its table where the key itself is not there,
// 0 where neither is.
func lineOf(text []byte, key string) int {
	path := strings.Split(key, ".")
	table, nth, name := path[0], 0, ""
	if len(path) > 1 {
		if n, err := fmt.Sscan(path[1], &nth); n == 1 && err == nil {
			path = path[1:]
		}
	}
	if len(path) > 1 {
		name = path[1]
	}
	here, seen, at := len(path) == 1 && nth == 0, 0, 0
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if h, ok := strings.CutPrefix(line, "["); ok {
			of, _, _ := strings.Cut(strings.TrimLeft(h, "["), "]")
			of = strings.TrimSpace(of)
			if of == table {
				seen++
			}
			here = of == table && (nth == 0 || seen == nth)
			if at == 0 && (here || nth == 0 && of == key) {
				at = i + 1
			}
			continue
		}
		k, _, ok := strings.Cut(line, "=")
		if k = strings.TrimSpace(k); ok && here && (k == name || nth == 0 && name == "" && k == table) {
			return i + 1
		}
	}
	return at
}
