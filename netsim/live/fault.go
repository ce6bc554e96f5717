package live

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/apiary-net/hived/daemon"
	"github.com/apiary-net/hived/netsim"
)

func pair(a, b int) [2]int { return [2]int{min(a, b), max(a, b)} }

// fault is a FaultSpec at work.
type fault struct {
	spec *netsim.FaultSpec
	p    *player
}

// arm schedules the faults, which happen in calls of step.
func (p *player) arm(ctx context.Context) {
	p.faults = &netsim.Schedule{Since: p.since, After: func(d time.Duration, do func()) { p.after(d, func(context.Context) { do() }) },
		Do: func(f *netsim.FaultSpec) { (&fault{f, p}).do(ctx) }}
	p.faults.Arm(p.s.Faults)
}

// after does something after a time.
func (p *player) after(d time.Duration, do func(context.Context)) {
	p.timers = append(p.timers, timer{p.since() + d, do})
}

// do befalls those who are picked.
func (f *fault) do(ctx context.Context) {
	p := f.p
	if f.spec.What == "heal" {
		p.heal()
		return
	}
	picked := f.spec.Pick(p.rng, p.candidates(ctx, f.spec.Who))
	if len(picked) == 0 {
		return
	}
	if f.spec.What == "partition" {
		side := map[int]bool{}
		for _, i := range picked {
			side[i] = true
		}
		p.partition(side)
		f.undo(func(context.Context) { p.heal() })
		return
	}
	for _, i := range picked {
		f.befall(ctx, p.machines[i])
	}
}

// candidates returns the machines that a fault may pick from. Who votes and who
// leads is what the daemon says that knows most.
func (p *player) candidates(ctx context.Context, who string) []netsim.Candidate {
	var newest daemon.RunStatus
	if who == "voter" || who == "leader" {
		for _, m := range p.machines {
			if m.up && !m.paused {
				p.ask(ctx, m)
				if m.status.Round >= newest.Round && len(m.status.Table) > 0 {
					newest = m.status
				}
			}
		}
	}
	all := make([]netsim.Candidate, len(p.machines))
	for i, m := range p.machines {
		id := m.ID().String()
		all[i] = netsim.Candidate{Index: i, Group: m.group, Up: m.up, Voter: slices.Contains(newest.Table, id), Leader: m.up && newest.Leader == id}
	}
	return all
}

// undo ends the fault after the time that it lasts.
func (f *fault) undo(do func(context.Context)) {
	if f.spec.For.D > 0 {
		f.p.after(f.spec.For.D, do)
	}
}

func (f *fault) befall(ctx context.Context, m *machine) {
	p := f.p
	switch f.spec.What {
	case "kill", "leave":
		if !m.up {
			return
		}
		p.end(ctx, m, f.spec.What == "kill")
		if f.spec.Restart.Said {
			p.after(f.spec.Restart.D, func(ctx context.Context) { p.restart(ctx, m) })
		}
	case "start":
		p.restart(ctx, m)
	case "wipe":
		if !m.up && !m.busy {
			p.note("wipe", m.index, "")
			m.heads, m.known = nil, false
			p.trouble(m.Wipe())
		}
	case "cut":
		p.note("cut", m.index, "")
		p.around(m, true)
		f.undo(func(context.Context) {
			p.note("healed", m.index, "")
			p.around(m, false)
		})
	case "stop":
		p.pause(m, true)
		f.undo(func(context.Context) { p.pause(m, false) })
	case "continue":
		p.pause(m, false)
	}
}

// trouble ends the play with an error of the machines themselves.
func (p *player) trouble(err error) {
	if err != nil && p.stuck == "" {
		p.stuck = err.Error()
	}
}

// end takes a daemon away.
func (p *player) end(ctx context.Context, m *machine, kill bool) {
	p.pause(m, false)
	if kill {
		p.kills++
		p.note("kill", m.index, "")
		p.book(ctx, m)
		p.trouble(m.Kill(ctx))
	} else {
		p.note("leave", m.index, "")
		p.trouble(p.leave(ctx, m))
		m.left = true
	}
	m.up = false
}

// leave ends a daemon politely: it works on until the others can spare it, and
// what it says last is booked.
func (p *player) leave(ctx context.Context, m *machine) error {
	c := m.Client()
	ended := make(chan error, 1)
	go func() { ended <- m.Leave(ctx) }()
	for {
		p.askOn(ctx, m, c)
		next := time.NewTimer(p.cfg.Tick / 5)
		select {
		case err := <-ended:
			next.Stop()
			p.enter(m)
			return err
		case <-next.C:
		}
	}
}

// restart starts a machine, beside the play.
func (p *player) restart(ctx context.Context, m *machine) {
	if m.up || m.busy {
		return
	}
	m.busy = true
	p.note("start", m.index, "")
	known := m.known
	var boot []string
	for _, o := range p.machines {
		if o.up && !o.paused && len(boot) < 3 {
			boot = append(boot, o.Addr())
		}
	}
	go func() {
		err := m.Start(ctx, boot)
		if err == nil && !known && len(boot) > 0 { // who knows the run goes on by itself
			err = m.join(ctx, p.run)
		}
		p.started <- startResult{m, err}
	}()
}

// restarted hears that a machine has been started.
func (p *player) restarted(r startResult) {
	m := r.m
	m.busy = false
	if r.err != nil {
		p.trouble(fmt.Errorf("start peer %d: %w", m.index, r.err))
		return
	}
	m.known = true
	m.up, m.left, m.finished, m.since = true, false, false, time.Now()
	m.lives++
}

func (p *player) pause(m *machine, stop bool) {
	if m.paused == stop || stop && !m.up {
		return
	}
	m.paused = stop
	p.note(map[bool]string{true: "stop", false: "continue"}[stop], m.index, "")
	p.trouble(m.Pause(stop))
}

// cut cuts or heals one path.
func (p *player) cut(a, b int, cut bool) {
	if p.cuts[pair(a, b)] == cut {
		return
	}
	p.cuts[pair(a, b)] = cut
	p.trouble(p.cfg.Network.Cut(a, b, cut))
}

func (p *player) around(m *machine, cut bool) {
	for _, o := range p.machines {
		if o != m {
			p.cut(m.index, o.index, cut)
		}
	}
}

// partition cuts the machines into two sides.
func (p *player) partition(side map[int]bool) {
	p.note("partition", len(side), "")
	for a := range p.machines {
		for b := range a {
			p.cut(a, b, side[a] != side[b])
		}
	}
}

// heal makes all paths whole.
func (p *player) heal() {
	for c, cut := range p.cuts {
		if cut {
			p.cut(c[0], c[1], false)
		}
	}
}
