package netsim

import (
	"math/rand/v2"
	"time"
)

// Rival is how another system keeps training when machines fail, as a rule of a
// few numbers, on the event loop of the simulations and under the same failures.
// It stands beside hived in the kill-anything table; it has no protocol to run.
type Rival struct {
	Name  string
	Step  time.Duration // of one synchronous step
	Every time.Duration // between failures
	// Restart is how long a killed process is away.
	Restart time.Duration
	// Regroup is how long nobody trains after a failure was noticed.
	Regroup time.Duration
	// Rejoin is the same when a process comes back.
	Rejoin time.Duration
	// Checkpoint is how many steps are lost at most by going back; 0: only the
	// step under way.
	Checkpoint int
	Failures   int
	Seed       uint64
}

// RivalResult is what came of it.
type RivalResult struct {
	Name      string
	Attempted int     // steps begun
	Committed int     // steps that stayed
	Useful    float64 // committed of attempted
	Pace      float64 // committed steps of those that fit into the time without failures
	Virtual   time.Duration
}

// TorchFT is the rule of torchft: a step in which any replica fails is discarded
// by all, and the next one goes on with those who are left.
// Its public run had 30 replica groups and 6,249 steps in 1,100 failures at one a
// minute, which gives the step of 10.6 s.
func TorchFT(every, restart time.Duration) Rival {
	return Rival{Name: "torchft rule", Step: 10600 * time.Millisecond, Every: every, Restart: restart, Failures: 1000}
}

// PlainElastic is data parallelism that starts all workers anew from the last
// checkpoint whenever the membership changes, as elastic launchers do.
func PlainElastic(every, restart time.Duration) Rival {
	return Rival{Name: "plain elastic", Step: 10600 * time.Millisecond, Every: every, Restart: restart,
		Regroup: 10 * time.Second, Rejoin: 10 * time.Second, Checkpoint: 10, Failures: 1000}
}

// rivalRun is a Rival at work.
type rivalRun struct {
	r         Rival
	loop      *Loop
	rng       *rand.Rand
	res       RivalResult
	since     int // committed steps since the last checkpoint
	epoch     int // of the attempt under way: a change of members ends it
	failures  int
	busyUntil time.Time
}

// Simulate runs the rule until the failures have happened.
func (r Rival) Simulate() (RivalResult, error) {
	m := &rivalRun{r: r, loop: NewLoop(), rng: rand.New(rand.NewPCG(r.Seed, 2))}
	m.res.Name = r.Name
	m.begin()
	var err error
	m.loop.After(r.Every, m.kill)
	for m.failures < r.Failures && err == nil {
		err = m.loop.Run(m.loop.Now().Add(time.Second))
	}
	m.res.Virtual = m.loop.Since()
	m.res.Useful = float64(m.res.Committed) / float64(max(1, m.res.Attempted))
	m.res.Pace = float64(m.res.Committed) * r.Step.Seconds() / m.res.Virtual.Seconds()
	return m.res, err
}

// begin begins a step.
func (m *rivalRun) begin() {
	m.epoch++
	mine := m.epoch
	start := later(m.loop.Now(), m.busyUntil)
	m.loop.At(start, func() {
		if m.epoch != mine {
			return
		}
		m.res.Attempted++
		m.loop.After(m.r.Step, func() {
			if m.epoch != mine {
				return // discarded
			}
			m.res.Committed++
			if m.since++; m.r.Checkpoint > 0 && m.since >= m.r.Checkpoint {
				m.since = 0
			}
			m.begin()
		})
	})
}

// change ends the attempt under way, and what has no checkpoint.
func (m *rivalRun) change(pause time.Duration) {
	if m.r.Checkpoint > 0 {
		m.res.Committed -= m.since
		m.since = 0
	}
	m.busyUntil = later(m.busyUntil, m.loop.Now().Add(pause))
	m.begin()
}

func (m *rivalRun) kill() {
	m.failures++
	m.change(m.r.Regroup)
	m.loop.After(m.r.Restart, func() {
		if m.r.Rejoin > 0 {
			m.change(m.r.Rejoin)
		}
	})
	m.loop.After(m.r.Every, m.kill)
}
