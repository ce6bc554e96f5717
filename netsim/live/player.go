package live

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/apiary-net/hived/daemon"
	"github.com/apiary-net/hived/netsim"
	"github.com/apiary-net/hived/wire"
)

// Play runs a scenario that was checked. The error is one of the play itself; what
// a checker found is in the result. All daemons have ended when it returns.
func Play(ctx context.Context, cfg Config) (_ *netsim.Result, err error) {
	if cfg.Tick == 0 {
		cfg.Tick = 250 * time.Millisecond
	}
	if cfg.Patience == 0 {
		cfg.Patience = 10 * time.Minute
	}
	if cfg.Trail == nil {
		cfg.Trail = netsim.NewTrail(nil)
	}
	p := newPlayer(cfg)
	defer func() { err = errors.Join(err, p.close(context.WithoutCancel(ctx))) }()
	if err := p.begin(ctx); err != nil {
		return nil, fmt.Errorf("begin scenario %s: %w", cfg.Scenario.Name, err)
	}
	if err := p.play(ctx); err != nil {
		return nil, errors.Join(err, p.writeTrail())
	}
	if err := p.calm(ctx); err != nil {
		return nil, errors.Join(err, p.writeTrail())
	}
	return p.result(ctx)
}

// player is one play in progress. Its fields belong to the goroutine of Play.
type player struct {
	cfg      Config
	s        *netsim.Scenario
	rng      *rand.Rand
	machines []*machine
	run      string
	origin   time.Time // when the process began
	began    time.Time // when the run was made: the time of the scenario
	faults   *netsim.Schedule
	timers   []timer
	started  chan startResult

	turn    int // machine that is asked next
	head    uint64
	headAt  time.Time
	rounds  map[uint64]time.Time // when each record was seen first
	kills   int
	mid     bool // Running was called
	quorum  time.Time
	cuts    map[[2]int]bool
	events  []netsim.Event
	hung    int
	stuck   string
	found   *netsim.Violation
	dones   float64 // local steps of lives that ended
	uptime  time.Duration
	control uint64
	payload uint64
}

type timer struct {
	at time.Duration
	do func(ctx context.Context)
}

// machine is a Machine and what is known of it.
type machine struct {
	Machine
	index    int
	group    string
	up       bool // a daemon runs and answers
	busy     bool // it is being started
	paused   bool
	left     bool
	known    bool // its disk knows the run
	lives    int
	since    time.Time
	status   daemon.RunStatus // newest
	heads    []head           // of its log, as they were seen
	finished bool
}

// head is a log at one moment.
type head struct {
	size uint64
	root string
}

type startResult struct {
	m   *machine
	err error
}

func newPlayer(cfg Config) *player {
	s := cfg.Scenario
	p := &player{cfg: cfg, s: s, rng: rand.New(rand.NewPCG(s.Swarm.Seed, 0x6c697665)), started: make(chan startResult, len(cfg.Machines)),
		rounds: map[uint64]time.Time{}, cuts: map[[2]int]bool{}}
	groups := s.GroupOf(len(cfg.Machines))
	for i, m := range cfg.Machines {
		p.machines = append(p.machines, &machine{Machine: m, index: i, group: groups[i]})
	}
	return p
}

func (p *player) since() time.Duration { return time.Since(p.began) }

func (p *player) note(kind string, peer int, text string) {
	p.events = append(p.events, netsim.Event{Ms: p.since().Milliseconds(), Kind: kind, Peer: peer, Text: text})
}

func (p *player) fail(checker, format string, args ...any) {
	if p.found == nil {
		p.found = &netsim.Violation{Checker: checker, Detail: fmt.Sprintf(format, args...), At: p.since()}
	}
}

// heed notes what the books found, if anything.
func (p *player) heed(f *netsim.Finding) {
	if f != nil {
		p.fail(f.Checker, "%s", f.Detail)
	}
}

// atOnce bounds what the player asks of many machines side by side.
const atOnce = 8

// begin starts the first machines and makes the run.
func (p *player) begin(ctx context.Context) error {
	p.origin = time.Now()
	p.began = p.origin
	first := p.machines[:p.s.Swarm.Peers]
	if err := first[0].Start(ctx, nil); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for _, m := range first[1:] {
		g.Go(func() error { return m.Start(gctx, []string{first[0].Addr()}) })
	}
	err := g.Wait()
	for _, m := range first {
		m.up, m.known, m.since, m.lives = true, true, time.Now(), 1
		p.note("start", m.index, "")
	}
	if err != nil {
		return err
	}
	var out struct {
		ID string `json:"id"`
	}
	if err := first[0].Client().Post(ctx, "/api/v1/runs", p.spec(), &out); err != nil {
		return fmt.Errorf("make the run: %w", err)
	}
	p.run = out.ID
	g, gctx = errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for _, m := range first[1:] {
		g.Go(func() error { return m.join(gctx, p.run) })
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("join the run: %w", err)
	}
	p.began, p.headAt = time.Now(), time.Now()
	for i := range p.events {
		p.events[i].Ms = 0
	}
	p.arm(ctx)
	return nil
}

// join makes the daemon take part in the run; one that did in an earlier life
// does so by itself.
func (m *machine) join(ctx context.Context, run string) error {
	return m.Client().Post(ctx, "/api/v1/runs/"+run+"/start", map[string]any{"seconds": 60}, nil)
}

// spec is the run of the scenario.
func (p *player) spec() daemon.RunSpec {
	w := p.s.Swarm
	spec := daemon.RunSpec{Name: "netsim", Task: "mnist", Model: "mlp", Preset: w.Preset, Rounds: w.Rounds, Steps: w.Steps, Group: w.Group, Batch: p.s.Model.Batch, MinPeers: w.MinPeers,
		Seed: w.Seed, Codec: w.Codec, Topology: w.Topology, Aggregator: w.Aggregator, Args: map[string]int64{"layers": 1, "hidden": 2},
		Deadline: uint32(w.DeadlineMax.Or(20 * time.Second).Milliseconds()), Soonest: uint32(w.DeadlineMin.Or(200 * time.Millisecond).Milliseconds())}
	if spec.Preset == "" {
		spec.Preset = "diloco"
	}
	if spec.Rounds == 0 {
		spec.Rounds = wire.MaxRounds
	}
	if spec.MinPeers == 0 {
		spec.MinPeers = uint32(w.Peers)
	}
	if spec.Batch == 0 {
		spec.Batch = 1
	}
	for k, v := range p.s.Model.Args {
		spec.Args[k] = v
	}
	for _, m := range p.machines {
		spec.Allow = append(spec.Allow, m.ID().String())
	}
	return spec
}

// play lets time pass until the scenario has ended, or something was found.
func (p *player) play(ctx context.Context) error {
	w := p.s.Swarm
	limit := w.Time.Or(1000 * time.Hour)
	for p.found == nil {
		if w.Failures > 0 && p.kills >= w.Failures || p.since() >= limit || p.allFinished(ctx) {
			return nil
		}
		if idle := time.Since(p.headAt); idle > p.bound()+10*time.Minute && len(p.timers) == 0 {
			p.stuck = fmt.Sprintf("nothing was decided for %v", idle.Round(time.Second))
			return nil
		}
		if err := p.tick(ctx); err != nil {
			return err
		}
	}
	return nil
}

// bound is how long a round may stay open while a quorum is up.
func (p *player) bound() time.Duration {
	return p.s.Swarm.DeadlineMax.Or(20*time.Second) + time.Minute
}

// tick waits a moment, then does what is due and looks around.
func (p *player) tick(ctx context.Context) error {
	wait := time.NewTimer(p.cfg.Tick)
	defer wait.Stop()
	for waiting := true; waiting; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-wait.C:
			waiting = false
		case r := <-p.started:
			p.restarted(r)
		}
	}
	for i := 0; i < len(p.timers); i++ {
		if t := p.timers[i]; t.at <= p.since() {
			p.timers = append(p.timers[:i], p.timers[i+1:]...)
			i--
			t.do(ctx)
		}
	}
	p.look(ctx)
	p.watchHang()
	if p.cfg.Running != nil && !p.mid && 2*p.head >= p.s.Swarm.Rounds {
		p.mid = true
		p.cfg.Running()
	}
	return nil
}

// calm ends the faults, brings everybody back and waits until all have the
// version that is the newest now.
func (p *player) calm(ctx context.Context) error {
	p.faults.Calm()
	p.heal()
	for _, m := range p.machines {
		p.pause(m, false)
		if m.lives > 0 && !m.left {
			p.restart(ctx, m)
		}
	}
	if p.head == 0 {
		p.stuck = "the run did not start"
		return nil
	}
	want := p.head
	for end := time.Now().Add(p.cfg.Patience); p.found == nil; {
		late := p.lagging(ctx, want)
		if late == nil {
			return nil
		}
		if time.Now().After(end) {
			if p.stuck == "" {
				p.stuck = fmt.Sprintf("peer %d has version %d, the newest was %d when the faults ended: %s", late.index, late.status.Applied, want, late.status.Error)
			}
			return nil
		}
		if err := p.tick(ctx); err != nil {
			return err
		}
	}
	return nil
}

// lagging returns a machine that has not got to a version.
func (p *player) lagging(ctx context.Context, round uint64) *machine {
	for _, m := range p.machines {
		if m.busy {
			return m
		}
		if m.up && m.status.Applied < round {
			if p.ask(ctx, m); m.status.Applied < round {
				return m
			}
		}
	}
	return nil
}

// close ends all daemons.
func (p *player) close(ctx context.Context) error {
	for _, m := range p.machines {
		for m.busy {
			p.restarted(<-p.started)
		}
	}
	g := new(errgroup.Group)
	g.SetLimit(atOnce)
	for _, m := range p.machines {
		g.Go(func() error { return errors.Join(m.Pause(false), m.Kill(ctx)) })
	}
	return g.Wait()
}
