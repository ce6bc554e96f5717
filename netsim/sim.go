package netsim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"runtime/debug"
	"time"

	"github.com/apiary-net/hived/elastic/version"
	"github.com/apiary-net/hived/wire"
)

// Sim is one run of a scenario.
type Sim struct {
	Scenario *Scenario
	Swarm    *Swarm

	faults *Schedule
	kills  int
	stuck  string // why the run did not end
}

// Options of Run.
type Options struct {
	Trail    *Trail       // default: one that keeps only the digest
	Logger   *slog.Logger // default: discards
	Progress func(p Progress)
	Dir      string // where further files may go; empty: nowhere
	Force    bool   // what another scenario wrote there may be replaced
}

// Progress is where a simulation stands.
type Progress struct {
	Round   uint64
	Rounds  uint64 // 0: not known
	Kills   int
	Virtual time.Duration
}

// Result is what `hived netsim run --json` prints.
type Result struct {
	Schema   string  `json:"schema"` // hived.netsim/v1
	Scenario string  `json:"scenario"`
	Tier     string  `json:"tier"`
	Seed     uint64  `json:"seed"`
	Commit   string  `json:"commit"`
	Digest   string  `json:"digest"` // of the trail
	Peers    int     `json:"peers"`
	Rounds   uint64  `json:"rounds"` // decided
	Kills    int     `json:"kills"`
	Useful   float64 `json:"useful"`     // local steps that counted, of all that were done
	Hung     int     `json:"hung"`       // rounds open past their bound while a quorum was up
	CIDs     int     `json:"cids"`       // of the last version at the honest peers that run
	Loss     float64 `json:"final_loss"` // of the last version, on what nobody trained on
	Counted  uint64  `json:"counted"`    // local steps
	Computed float64 `json:"computed"`   // local steps, parts of steps included
	// Rate is counted steps by second of a running process.
	Rate     float64    `json:"rate"`
	Virtual  float64    `json:"virtual_seconds"`
	Control  uint64     `json:"control_bytes"`
	Payload  uint64     `json:"payload_bytes"`
	Steps    uint64     `json:"events"`
	Seconds  float64    `json:"seconds"` // real
	Failure  string     `json:"failure,omitempty"`
	Violates *Violation `json:"violation,omitempty"`
}

// Simulate runs a scenario on the event tier. The error is one of the simulation
// itself; what a checker found is in the result.
func Simulate(ctx context.Context, s *Scenario, o Options) (*Result, error) {
	m, err := NewSim(s, o)
	if err != nil {
		return nil, err
	}
	return m.Run(ctx, o)
}

// NewSim prepares a scenario that was checked.
func NewSim(s *Scenario, o Options) (*Sim, error) {
	cfg := s.config()
	cfg.Logger, cfg.Trail = o.Logger, o.Trail
	sw, err := NewSwarm(cfg)
	if err != nil {
		return nil, fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	s.outfit(sw)
	m := &Sim{Scenario: s, Swarm: sw}
	m.faults = m.schedule()
	return m, nil
}

// keptRounds is for how many rounds a simulation that writes no ledgers keeps what
// was contributed. Who was away for longer takes a version, not contributions.
const keptRounds = 64

// Run runs it to its end.
func (m *Sim) Run(ctx context.Context, o Options) (*Result, error) {
	began := time.Now()
	sw := m.Swarm
	sw.onRecord = func(r uint64) {
		m.faults.Decided(r)
		if o.Dir == "" && r > keptRounds && r%16 == 0 {
			sw.forget(r - keptRounds)
		}
		if o.Progress != nil {
			o.Progress(Progress{Round: r, Rounds: m.Scenario.Swarm.Rounds, Kills: m.kills, Virtual: sw.Loop.Since()})
		}
	}
	m.faults.Arm(m.Scenario.Faults)
	if err := sw.Start(); err != nil {
		return nil, err
	}
	for _, n := range sw.Nodes {
		if n.Lie != nil {
			n.Lie.begin()
		}
	}
	if err := m.play(ctx); err != nil {
		return nil, err
	}
	if err := m.calm(ctx); err != nil {
		return nil, err
	}
	sw.check.end()
	r, err := m.result()
	if err != nil {
		return nil, err
	}
	if err := sw.trail.Flush(); err != nil {
		return nil, fmt.Errorf("write the trail: %w", err)
	}
	sw.trail = NewTrail(nil) // what follows is no part of the simulation
	sw.trail.loop = sw.Loop
	if o.Dir != "" && r.Violates == nil {
		if err := m.export(o.Dir); err != nil {
			return nil, fmt.Errorf("scenario %s, seed %d: %w", m.Scenario.Name, m.Scenario.Swarm.Seed, err)
		}
	}
	if err := sw.Close(); err != nil {
		return nil, fmt.Errorf("%w (seed %d)", err, m.Scenario.Swarm.Seed)
	}
	r.Seconds = time.Since(began).Seconds()
	return r, nil
}

// second lets a virtual second pass and looks after it.
func (m *Sim) second(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err := m.Swarm.Advance(time.Second)
	m.Swarm.check.tick()
	return err
}

// play lets time pass until the scenario has ended, or a checker has found
// something.
func (m *Sim) play(ctx context.Context) error {
	w := m.Scenario.Swarm
	limit := w.Time.D
	if limit == 0 {
		limit = 1000 * time.Hour
	}
	for m.Swarm.check.found == nil {
		if c := m.Swarm.check; c.spoiled() != "" && c.hungAt == c.divergedIn {
			m.stuck = c.spoiled()
			return nil
		}
		if w.Failures > 0 && m.kills >= w.Failures || m.Swarm.Loop.Since() >= limit || m.finished() {
			return nil
		}
		if m.stalled() {
			m.stuck = fmt.Sprintf("nothing was decided for %v", m.idle())
			return nil
		}
		if err := m.second(ctx); err != nil {
			return err
		}
	}
	return nil
}

// idle is how long nothing was decided.
func (m *Sim) idle() time.Duration {
	c := m.Swarm.check
	if len(c.at) == 0 {
		return m.Swarm.Loop.Since()
	}
	return m.Swarm.Loop.Now().Sub(c.at[len(c.at)-1])
}

// stalled reports whether the run has stood still for so long that waiting for
// more makes no sense. A lost quorum may come back.
func (m *Sim) stalled() bool { return m.idle() > 4*time.Hour }

// finished reports whether every honest peer that runs has ended the run.
func (m *Sim) finished() bool {
	head := m.Swarm.check.head()
	if head == nil || !head.Last {
		return false
	}
	for _, n := range m.Swarm.Nodes {
		if n.Up() && n.Lie == nil && !m.Swarm.check.ends[n.Index] {
			return false
		}
	}
	return true
}

// calm stops the faults, brings everybody back and waits until all hold the
// version that is the newest now.
func (m *Sim) calm(ctx context.Context) error {
	m.faults.Calm()
	sw := m.Swarm
	sw.Partition(nil)
	for _, n := range sw.Nodes {
		n.disk.full = false
		if n.lives > 0 && !n.left {
			m.restart(n)
		}
	}
	head := sw.check.head()
	if head == nil {
		m.stuck = "the run did not start"
		return nil
	}
	end := sw.Loop.Now().Add(sw.check.bound() + 10*time.Minute)
	for sw.check.found == nil && sw.Loop.Now().Before(end) {
		if m.lagging(head.Round) == nil {
			return nil
		}
		if err := m.second(ctx); err != nil {
			return err
		}
	}
	if n := m.lagging(head.Round); n != nil && m.stuck == "" {
		m.stuck = fmt.Sprintf("peer %d has version %d, the newest was %d when the faults ended", n.Index, n.round, head.Round)
	}
	return nil
}

// lagging returns an honest running peer that has not got to a version.
func (m *Sim) lagging(round uint64) *Node {
	for _, n := range m.Swarm.Nodes {
		if n.Up() && n.Lie == nil && n.round < round {
			return n
		}
	}
	return nil
}

func (m *Sim) restart(n *Node) {
	if n.Up() || m.Swarm.closed {
		return
	}
	if err := n.Start(); err != nil {
		m.Swarm.check.fail(CheckLogs, "%v", err)
	}
}

// result sums up.
func (m *Sim) result() (*Result, error) {
	sw, c := m.Swarm, m.Swarm.check
	r := &Result{Schema: "hived.netsim/v1", Scenario: m.Scenario.Name, Tier: TierEvent, Seed: m.Scenario.Swarm.Seed, Commit: Commit(), Digest: sw.trail.Digest(),
		Peers: m.Scenario.Swarm.Peers, Kills: m.kills, Hung: c.hung, Virtual: sw.Loop.Since().Seconds(), Steps: sw.Loop.Steps, Violates: c.found, Failure: m.stuck}
	cids := map[wire.CID]bool{}
	up := sw.uptime
	var newest *Node
	for _, n := range sw.Nodes {
		r.Control, r.Payload = r.Control+n.Control, r.Payload+n.Payload
		if !n.Up() {
			continue
		}
		up += sw.Loop.Now().Sub(n.since)
		if n.Lie == nil && (newest == nil || n.round > newest.round) {
			newest = n
		}
	}
	if h := c.head(); h != nil {
		r.Rounds = h.Round
	}
	for _, n := range sw.Nodes {
		if newest != nil && n.Up() && n.Lie == nil && n.round == newest.round {
			cids[n.version] = true
		}
	}
	r.CIDs = len(cids)
	r.Tally(c.books.Counted, sw.computed, up)
	if newest != nil {
		loss, err := m.loss(newest)
		if err != nil {
			return nil, err
		}
		r.Loss = loss
	}
	if m.stuck == "" {
		r.Failure = c.spoiled() // the time was up first
	}
	if math.IsNaN(r.Loss) || math.IsInf(r.Loss, 0) {
		r.Failure, r.Loss = fmt.Sprintf("the loss of version %d is %v: model.lr = %v is too large for this model", r.Rounds, r.Loss, sw.model.cfg.LR), 0
	}
	m.judge(r)
	return r, nil
}

// Tally sets what follows from local steps that counted, those that were done, and
// the time of all processes.
func (r *Result) Tally(counted uint64, computed float64, up time.Duration) {
	r.Counted, r.Computed = counted, Round6(computed)
	if computed > 0 {
		r.Useful = Round6(float64(counted) / computed)
	}
	if up > 0 {
		r.Rate = Round6(float64(counted) / up.Seconds())
	}
}

// Round6 rounds to six decimals, as results are printed.
func Round6(x float64) float64 { return math.Round(x*1e6) / 1e6 }

// judge holds the result against what the scenario expects.
func (m *Sim) judge(r *Result) { m.Scenario.Expect.Judge(r, m.finished(), m.Swarm.check.liars) }

// Judge notes in a result without failure what it lacks: finished says that every
// honest peer ended the run, liars names one that counts.
func (e ExpectSpec) Judge(r *Result, finished bool, liars string) {
	switch {
	case r.Failure != "":
	case r.Useful < e.Useful:
		r.Failure = fmt.Sprintf("useful work is %.4f, the scenario expects %.4f", r.Useful, e.Useful)
	case e.LossMost > 0 && !(r.Loss <= e.LossMost):
		r.Failure = fmt.Sprintf("the loss is %.4f, the scenario expects at most %.4f", r.Loss, e.LossMost)
	case e.Finished && !finished:
		r.Failure = "not every honest peer ended the run"
	case e.Liars && liars != "":
		r.Failure = "a lying peer counts: " + liars
	}
}

// loss evaluates the version that a peer holds, read from its disk.
func (m *Sim) loss(n *Node) (float64, error) {
	get := func(_ context.Context, ids []wire.CID, got func(wire.CID, []byte) error) error {
		for _, id := range ids {
			b, err := n.disk.states.Get(id)
			if err != nil {
				return err
			}
			if err := got(id, b); err != nil {
				return err
			}
		}
		return nil
	}
	if n.round == 0 {
		params, _ := m.Swarm.model.init()
		return m.Swarm.model.loss(params), nil
	}
	mod, err := version.NewModel(&m.Swarm.Genesis, m.Swarm.model.schema)
	if err != nil {
		return 0, err
	}
	want := map[string]int{"params": m.Swarm.model.schema.Params(), "buffers": 0, "outer": mod.OuterLen()}
	v, err := version.LoadVectors(context.Background(), m.Swarm.Genesis.Schema, n.version, want, get)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("peer %d does not hold version %d, which is its newest: %w", n.Index, n.round, err)
	}
	if err != nil {
		return 0, fmt.Errorf("evaluate version %d: %w", n.round, err)
	}
	return m.Swarm.model.loss(v["params"]), nil
}

// Commit names the code that ran, as the Go toolchain stamped it.
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	rev, dirty := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			rev = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	return rev + dirty
}
