package netsim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apiary-net/hived/consensus"
)

// when is a time or a round.
type when struct {
	at    time.Duration
	round uint64
	said  bool
}

func parseWhen(text string) (w when, err error) {
	if text == "" {
		return w, nil
	}
	w.said = true
	if n, ok := strings.CutPrefix(text, "round "); ok {
		w.round, err = strconv.ParseUint(strings.TrimSpace(n), 10, 32)
		if err == nil && w.round == 0 {
			err = errors.New("rounds begin with 1")
		}
		return w, err
	}
	w.at, err = span(text, 0)
	return w, err
}

var faults = []string{"kill", "leave", "start", "wipe", "cut", "heal", "partition", "full", "free", "slow", "skew"}

func (s *Scenario) checkFault(f *FaultSpec) error {
	if !slices.Contains(faults, f.What) {
		return fmt.Errorf("what: %q is not one of %s", f.What, strings.Join(faults, ", "))
	}
	at, err := parseWhen(f.At)
	if err != nil {
		return fmt.Errorf("at: %w", err)
	}
	every, err := parseWhen(f.Every)
	if err != nil {
		return fmt.Errorf("every: %w", err)
	}
	if !at.said && !every.said {
		return errors.New("at or every must say when")
	}
	if every.said && every.at == 0 && every.round == 0 {
		return errors.New("every: no time passes in between")
	}
	if at.said && every.said && (at.round > 0) != (every.round > 0) && at.at+every.at > 0 && at.round == 0 {
		return errors.New("at a time and every so many rounds do not go together: give at as a round")
	}
	for _, d := range []string{f.Until, f.Restart, f.For, strings.TrimPrefix(f.By, "-")} {
		if _, err := span(d, 0); err != nil {
			return err
		}
	}
	if f.Restart != "" && f.What != "kill" && f.What != "leave" {
		return fmt.Errorf("restart goes with kill and leave, not with %s", f.What)
	}
	if f.For != "" && !slices.Contains([]string{"cut", "partition", "full", "slow", "skew"}, f.What) {
		return fmt.Errorf("%s lasts for no time", f.What)
	}
	if !(f.Share >= 0 && f.Share <= 1) || f.Count < 0 || f.Share > 0 && f.Count > 0 {
		return fmt.Errorf("share %v and count %d", f.Share, f.Count)
	}
	if (f.What == "slow" || f.What == "skew") && f.By == "" {
		return errors.New("by must say how much")
	}
	return s.checkWho(f.Who)
}

func (s *Scenario) checkWho(who string) error {
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
	ix, err := indexes(who)
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

func indexes(text string) (out []int, err error) {
	for _, part := range strings.Split(text, ",") {
		a, b, isRange := strings.Cut(strings.TrimSpace(part), "-")
		lo, err := strconv.Atoi(a)
		hi := lo
		if err == nil && isRange {
			hi, err = strconv.Atoi(b)
		}
		if err != nil || lo < 0 || hi < lo || hi > MaxPeers {
			return nil, fmt.Errorf("%q is no list of indexes", text)
		}
		for i := lo; i <= hi; i++ {
			out = append(out, i)
		}
	}
	return out, nil
}

// fault is a FaultSpec at work.
type fault struct {
	spec      *FaultSpec
	sim       *Sim
	at, every when
	until     time.Duration
	nextRound uint64
}

// arm schedules the faults of a scenario.
func (m *Sim) arm() {
	for i := range m.Scenario.Faults {
		f := &fault{spec: &m.Scenario.Faults[i], sim: m}
		f.at, _ = parseWhen(f.spec.At) // Check has seen them
		f.every, _ = parseWhen(f.spec.Every)
		f.until = mustSpan(f.spec.Until, 0)
		if f.at.round > 0 || f.at.at == 0 && f.every.round > 0 {
			f.nextRound = max(1, f.at.round)
			m.byRound = append(m.byRound, f)
			continue
		}
		first := f.at.at
		if !f.at.said {
			first = f.every.at
		}
		m.Swarm.Loop.After(first, f.fire)
	}
}

// over reports whether the fault happens no more.
func (f *fault) over() bool {
	return f.sim.quiet || f.until > 0 && f.sim.Swarm.Loop.Since() > f.until
}

// fire does it now, and again later if it is to.
func (f *fault) fire() {
	if f.over() {
		return
	}
	f.do()
	if f.every.at > 0 {
		f.sim.Swarm.Loop.After(f.every.at, f.fire)
	}
}

// round is told that a record was decided.
func (f *fault) round(r uint64) {
	if f.over() || f.nextRound == 0 || r+1 < f.nextRound {
		return
	}
	f.nextRound = 0
	f.do()
	switch {
	case f.every.round > 0:
		f.nextRound = r + 1 + f.every.round
	case f.every.at > 0:
		f.sim.Swarm.Loop.After(f.every.at, f.fire)
	}
}

// pick returns whom it befalls.
func (f *fault) pick() []*Node {
	sw, who := f.sim.Swarm, f.spec.Who
	var from []*Node
	everybody := true
	switch {
	case who == "" || who == "random" || who == "voter" || who == "down":
		everybody = false
		for _, n := range sw.Nodes {
			up := n.Up()
			if who == "down" {
				up = !up
			}
			if up && (who != "voter" || sw.votes(n)) {
				from = append(from, n)
			}
		}
	case who == "leader":
		if n := sw.leader(); n != nil {
			from = append(from, n)
		}
	case who == "bootstrap":
		from = append(from, sw.Nodes[0])
	case who == "all":
		from = append(from, sw.Nodes...)
	case strings.HasPrefix(who, "group:"):
		for _, n := range sw.Nodes {
			if n.Group == strings.TrimPrefix(who, "group:") {
				from = append(from, n)
			}
		}
	default:
		ix, _ := indexes(who)
		for _, i := range ix {
			from = append(from, sw.Nodes[i])
		}
	}
	count := f.spec.Count
	switch {
	case f.spec.Share > 0:
		count = int(f.spec.Share*float64(len(from)) + 0.5)
	case count == 0 && everybody:
		return from
	case count == 0:
		count = 1
	}
	sw.rng.Shuffle(len(from), func(i, j int) { from[i], from[j] = from[j], from[i] })
	return from[:min(count, len(from))]
}

// do befalls those who are picked.
func (f *fault) do() {
	sw, spec := f.sim.Swarm, f.spec
	ns := f.pick()
	if len(ns) == 0 {
		return
	}
	lasts := mustSpan(spec.For, 0)
	undo := func(do func()) {
		if lasts > 0 {
			sw.Loop.After(lasts, do)
		}
	}
	if spec.What == "partition" {
		side := map[int]bool{}
		for _, n := range ns {
			side[n.Index] = true
		}
		sw.Partition(side)
		undo(func() { sw.Partition(nil) })
		return
	}
	if spec.What == "heal" {
		sw.Partition(nil)
		return
	}
	for _, n := range ns {
		f.befall(n, undo)
	}
}

func (f *fault) befall(n *Node, undo func(func())) {
	sw, spec := f.sim.Swarm, f.spec
	by := mustSpan(strings.TrimPrefix(spec.By, "-"), 0)
	if strings.HasPrefix(spec.By, "-") {
		by = -by
	}
	note := func(kind string) { sw.trail.add(Event{Kind: kind, Peer: n.Index}) }
	switch spec.What {
	case "kill", "leave":
		if !n.Up() {
			return
		}
		if spec.What == "kill" {
			f.sim.kills++
			n.Kill(spec.Power)
		} else {
			n.Leave()
		}
		if spec.Restart != "" {
			sw.Loop.After(mustSpan(spec.Restart, 0), func() { f.sim.restart(n) })
		}
	case "start":
		f.sim.restart(n)
	case "wipe":
		if !n.Up() {
			n.Wipe()
		}
	case "cut":
		note("cut")
		others := slices.Clone(sw.Nodes)
		for _, o := range others {
			if o != n {
				sw.Cut(n, o, true)
			}
		}
		undo(func() {
			note("healed")
			for _, o := range others {
				if o != n {
					sw.Cut(n, o, false)
				}
			}
		})
	case "full":
		note("disk-full")
		n.disk.full = true
		undo(func() { note("disk-free"); n.disk.full = false })
	case "free":
		note("disk-free")
		n.disk.full = false
	case "slow":
		note("disk-slow")
		old := n.disk.slow
		n.disk.slow = by
		undo(func() { n.disk.slow = old })
	case "skew":
		note("clock-jump")
		n.Skew += by
		undo(func() { n.Skew -= by })
	}
}

// votes reports whether n is in the newest table.
func (sw *Swarm) votes(n *Node) bool {
	r := sw.check.head()
	return r != nil && r.Table.Of(n.ID) > 0
}

// leader returns the voter that proposes next, if it runs.
func (sw *Swarm) leader() *Node {
	r := sw.check.head()
	if r == nil {
		return nil
	}
	n := sw.byID[consensus.Leader(r.Seed, r.Round+1, sw.check.instance, r.Table)]
	if n == nil || !n.Up() {
		return nil
	}
	return n
}
