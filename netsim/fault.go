package netsim

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/apiary-net/hived/consensus"
)

// fault is a FaultSpec at work.
type fault struct {
	spec *FaultSpec
	sim  *Sim
}

// schedule returns when the scenario's faults happen.
func (m *Sim) schedule() *Schedule {
	loop := m.Swarm.Loop
	return &Schedule{Since: loop.Since, After: func(d time.Duration, do func()) { loop.After(d, do) },
		Do: func(f *FaultSpec) { (&fault{f, m}).do() }}
}

// Candidate is a machine that a fault may befall.
type Candidate struct {
	Index             int
	Group             string
	Up, Voter, Leader bool
}

// Pick returns the indexes of those whom the fault befalls.
func (f *FaultSpec) Pick(rng *rand.Rand, all []Candidate) []int {
	var from []int
	some := func(want func(c Candidate) bool) {
		for _, c := range all {
			if want(c) {
				from = append(from, c.Index)
			}
		}
	}
	everybody := true
	switch who := f.Who; {
	case who == "" || who == "random" || who == "voter" || who == "down":
		everybody = false
		some(func(c Candidate) bool { return c.Up == (who != "down") && (who != "voter" || c.Voter) })
	case who == "leader":
		some(func(c Candidate) bool { return c.Leader })
	case who == "bootstrap":
		from = []int{0}
	case who == "all":
		some(func(Candidate) bool { return true })
	case strings.HasPrefix(who, "group:"):
		some(func(c Candidate) bool { return c.Group == strings.TrimPrefix(who, "group:") })
	default:
		from, _ = Indexes(who) // Check has seen them
	}
	count := f.Count
	switch {
	case f.Share > 0:
		count = int(f.Share*float64(len(from)) + 0.5)
	case count == 0 && everybody:
		return from
	case count == 0:
		count = 1
	}
	rng.Shuffle(len(from), func(i, j int) { from[i], from[j] = from[j], from[i] })
	return from[:min(count, len(from))]
}

// pick returns whom it befalls.
func (f *fault) pick() []*Node {
	sw := f.sim.Swarm
	leader := sw.leader()
	all := make([]Candidate, len(sw.Nodes))
	for i, n := range sw.Nodes {
		all[i] = Candidate{Index: i, Group: n.Group, Up: n.Up(), Voter: sw.votes(n), Leader: n == leader}
	}
	var out []*Node
	for _, i := range f.spec.Pick(sw.rng, all) {
		out = append(out, sw.Nodes[i])
	}
	return out
}

// do befalls those who are picked.
func (f *fault) do() {
	sw, spec := f.sim.Swarm, f.spec
	ns := f.pick()
	if len(ns) == 0 {
		return
	}
	lasts := spec.For.D
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
		if spec.Restart.Said {
			sw.Loop.After(spec.Restart.D, func() { f.sim.restart(n) })
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
		undo(func() {
			note("disk-free")
			n.disk.full = false
			f.sim.restart(n) // a peer stops when it cannot keep what it must
		})
	case "free":
		note("disk-free")
		n.disk.full = false
	case "slow":
		note("disk-slow")
		old := n.disk.slow
		n.disk.slow = spec.By.D
		undo(func() { n.disk.slow = old })
	case "skew":
		note("clock-jump")
		n.Skew += spec.By.D
		undo(func() { n.Skew -= spec.By.D })
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
