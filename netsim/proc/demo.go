package proc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/apiary-net/hived/daemon"
	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/ledger/proof"
	"github.com/apiary-net/hived/wire"
)

// DemoConfig of a demo.
type DemoConfig struct {
	Exe      string // the hived binary
	Task     string // see train.Tasks
	Peers    int
	Rounds   uint64 // 0: the preset's
	Steps    uint32 // 0: the preset's
	Preset   string
	Group    uint32 // 0: the default
	Topology string // empty: the preset's
	Seed     uint64
	Kill     int    // number of the peer that is killed, from 1; 0: none
	KillAt   uint64 // after this round; restarted two rounds later
	Lose     int    // peers that are killed for good after half the rounds, and replaced
	Keep     string // directory that is kept; empty: a temporary one that is removed
	Deadline time.Duration
	Line     func(string)             // a line for the person; may be nil
	Progress func(done, total uint64) // may be nil
}

// DemoResult is what `hived demo --json` prints.
type DemoResult struct {
	Schema   string   `json:"schema"` // hived.demo/v1
	Task     string   `json:"task"`
	Preset   string   `json:"preset"`
	Peers    int      `json:"peers"`
	Rounds   uint64   `json:"rounds"`
	Accuracy *float64 `json:"accuracy,omitempty"` // on the test split, by the verifying process
	Loss     float64  `json:"loss"`               // on the test split, by the verifying process
	Gain     float64  `json:"gain"`               // of that loss over the start weights'
	Versions []string `json:"versions"`           // final CID of each member of the last record; "" is missing
	Counted  uint64   `json:"counted"`
	Expected uint64   `json:"expected"`
	Killed   []string `json:"killed"`
	Attack   *string  `json:"attack"` // members that the export convicts of a forked log
	Bytes    struct {
		Payload uint64 `json:"payload"`
		Socket  uint64 `json:"socket"`
		Control uint64 `json:"control_per_peer_round"`
	} `json:"bytes"`
	TrainShare float64     `json:"train_share"`
	DecideMs   float64     `json:"decide_ms_p50"`
	Seconds    float64     `json:"seconds"`
	Ledger     proof.Total `json:"ledger"`
	Kept       *string     `json:"kept"`
}

// Validate refuses what cannot work, with the reason.
func (c *DemoConfig) Validate() error {
	usage := func(format string, args ...any) error { return exit.Fail(exit.Usage, nil, format, args...) }
	switch {
	case c.Peers < 1 || c.Peers > 32:
		return usage("--peers %d, want 1 to 32", c.Peers)
	case c.Kill < 0 || c.Kill > c.Peers:
		return usage("--kill %d@%d: there are peers 1 to %d", c.Kill, c.KillAt, c.Peers)
	case c.Kill > 0 && c.Peers < 3:
		return usage("--kill with %d peers: the others are no quorum without it; use 3 or more", c.Peers)
	case c.Lose < 0 || c.Lose > (c.Peers-1)/3:
		return usage("--lose %d with %d peers: more than a third of the voters lost at once stops a run until they return; the most is %d", c.Lose, c.Peers, (c.Peers-1)/3)
	}
	return nil
}

// demo is one demo in progress.
type demo struct {
	cfg   DemoConfig
	dir   string
	peers []*Peer
	keys  []wire.Key
	run   string
	began time.Time
	seen  DemoResult

	mu       sync.Mutex
	trainCPU map[wire.PeerID]float64 // of lives that ended
	payload  uint64                  // of lives that ended
	socket   uint64
	control  uint64
	wg       sync.WaitGroup
	errs     chan error // of the kill and restart goroutines
	order    []string   // labels of the peers that seen.Versions is of
}

// Demo runs a swarm of real processes to the end of a run, exports it and
// verifies the export in a fresh process. It leaves nothing behind but what
// Keep asks for.
func Demo(ctx context.Context, cfg DemoConfig) (_ *DemoResult, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Line == nil {
		cfg.Line = func(string) {}
	}
	if cfg.Progress == nil {
		cfg.Progress = func(_, _ uint64) {}
	}
	d := &demo{cfg: cfg, began: time.Now(), trainCPU: map[wire.PeerID]float64{}, errs: make(chan error, 8)}
	if err := d.makeDir(); err != nil {
		return nil, err
	}
	defer func() {
		d.close()
		if cfg.Keep == "" {
			err = errors.Join(err, os.RemoveAll(d.dir))
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, cfg.Deadline)
	defer cancel()
	for _, f := range []func(context.Context) error{d.startPeers, d.startRun, d.watch, d.collect, d.verify} {
		if err := f(ctx); err != nil {
			return nil, err
		}
	}
	d.seen.Seconds = time.Since(d.began).Seconds()
	return &d.seen, nil
}

func (d *demo) makeDir() (err error) {
	d.seen = DemoResult{Schema: "hived.demo/v1", Task: d.cfg.Task, Preset: d.cfg.Preset, Peers: d.cfg.Peers, Killed: []string{}}
	if d.dir = d.cfg.Keep; d.dir == "" {
		d.dir, err = os.MkdirTemp("", "hived-demo-")
		return err
	}
	if es, err := os.ReadDir(d.dir); err == nil && len(es) > 0 {
		return exit.Fail(exit.Usage, nil, "--keep %s: the directory is not empty", d.dir)
	}
	d.seen.Kept = &d.cfg.Keep
	return os.MkdirAll(d.dir, 0o700)
}

// keyOf draws the key of peer i from the seed, so that a demo can be repeated.
func (d *demo) keyOf(i int) wire.Key {
	b := wire.Sum(fmt.Appendf(nil, "hived/demo/%d/%d", d.cfg.Seed, i))
	k, err := wire.KeyFromSeed(b[:])
	if err != nil {
		panic(err)
	}
	return k
}

func (d *demo) startPeers(ctx context.Context) error {
	for i := range d.cfg.Peers + d.cfg.Lose {
		d.keys = append(d.keys, d.keyOf(i))
	}
	for i := range d.cfg.Peers {
		p, err := newPeer(filepath.Join(d.dir, fmt.Sprintf("peer-%d", i+1)), d.keys[i])
		if err != nil {
			return err
		}
		d.peers = append(d.peers, p)
	}
	if err := d.peers[0].start(ctx, d.cfg.Exe); err != nil {
		return err
	}
	errs := make(chan error, d.cfg.Peers)
	for _, p := range d.peers[1:] {
		go func() { errs <- p.start(ctx, d.cfg.Exe, d.peers[0].Addr) }()
	}
	var all []error
	for range d.peers[1:] {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

func (d *demo) startRun(ctx context.Context) error {
	spec := daemon.RunSpec{Name: "demo", Task: d.cfg.Task, Preset: d.cfg.Preset, Rounds: d.cfg.Rounds, Steps: d.cfg.Steps,
		MinPeers: uint32(d.cfg.Peers), Seed: d.cfg.Seed, Group: d.cfg.Group, Topology: d.cfg.Topology}
	for _, k := range d.keys {
		spec.Allow = append(spec.Allow, k.Peer().String())
	}
	var out struct {
		ID string `json:"id"`
	}
	if err := d.peers[0].Client.Post(ctx, "/api/v1/runs", spec, &out); err != nil {
		return fmt.Errorf("make the run: %w", err)
	}
	d.run = out.ID
	for _, p := range d.peers[1:] {
		if err := p.join(ctx, d.run); err != nil {
			return fmt.Errorf("start the run: %w", err)
		}
	}
	var s daemon.RunStatus
	if err := d.peers[0].Client.Get(ctx, "/api/v1/runs/"+d.run, &s); err != nil {
		return err
	}
	d.seen.Rounds = s.Rounds
	return nil
}

// join makes the peer take part in a run.
func (p *Peer) join(ctx context.Context, run string) error {
	return p.Client.Post(ctx, "/api/v1/runs/"+run+"/start", map[string]any{"seconds": 30}, nil)
}

// observer is a peer that is neither killed nor lost.
func (d *demo) observer() *Peer {
	if d.cfg.Kill == 1 {
		return d.peers[1]
	}
	return d.peers[0]
}

// watch follows the rounds, and kills and restarts as asked.
func (d *demo) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		for err := range d.errs {
			if err != nil {
				cancel(err)
			}
		}
	}()
	err := d.observer().Client.Rounds(ctx, d.run, 1, true, func(l daemon.RoundLine) {
		d.cfg.Line(l.Text)
		d.cfg.Progress(l.Round, d.seen.Rounds)
		d.seen.Counted += uint64(l.Counted)
		d.seen.Expected += uint64(l.Expected)
		d.act(ctx, l.Round)
	})
	d.wg.Wait()
	close(d.errs)
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return fmt.Errorf("watch the run: %w", cause)
	}
	return err
}

// act does what is due after a round, beside the watching.
func (d *demo) act(ctx context.Context, round uint64) {
	do := func(f func() error) {
		d.wg.Add(1)
		go func() {
			defer d.wg.Done()
			d.errs <- f()
		}()
	}
	if d.cfg.Kill > 0 && round == d.cfg.KillAt {
		p := d.peers[d.cfg.Kill-1]
		d.end(ctx, p)
		d.cfg.Line(fmt.Sprintf("killed peer %d (%s)", d.cfg.Kill, p.ID.Short()))
	}
	if d.cfg.Kill > 0 && round == d.cfg.KillAt+2 {
		do(func() error {
			p := d.peers[d.cfg.Kill-1]
			d.cfg.Line(fmt.Sprintf("restarting peer %d (%s)", d.cfg.Kill, p.ID.Short()))
			return p.start(ctx, d.cfg.Exe, d.observer().Addr)
		})
	}
	if d.cfg.Lose > 0 && round == d.seen.Rounds/2 {
		for i := range d.cfg.Lose {
			p := d.peers[d.cfg.Peers-1-i]
			d.end(ctx, p)
			d.cfg.Line(fmt.Sprintf("lost peer %d (%s) and its disk", d.cfg.Peers-i, p.ID.Short()))
			do(func() error { return errors.Join(os.RemoveAll(p.Dir), d.replace(ctx, i)) })
		}
	}
}

// end kills a peer and books what its life did.
func (d *demo) end(ctx context.Context, p *Peer) {
	d.book(ctx, p)
	p.Kill()
	d.seen.Killed = append(d.seen.Killed, p.ID.String())
}

// book adds the counters of a life that is about to end.
func (d *demo) book(ctx context.Context, p *Peer) {
	var s daemon.RunStatus
	if p.Client.Get(ctx, "/api/v1/runs/"+d.run, &s) != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trainCPU[p.ID] += s.TrainCPU
	d.payload += s.Bytes.Payload
	d.socket += s.Bytes.Socket
	d.control += s.Bytes.Control
}

// replace starts a fresh peer with one of the spare keys.
func (d *demo) replace(ctx context.Context, i int) error {
	n := d.cfg.Peers + i
	p, err := newPeer(filepath.Join(d.dir, fmt.Sprintf("peer-%d", n+1)), d.keys[n])
	if err != nil {
		return err
	}
	if err := p.start(ctx, d.cfg.Exe, d.observer().Addr); err != nil {
		return err
	}
	d.cfg.Line(fmt.Sprintf("fresh peer %d (%s) joins", n+1, p.ID.Short()))
	d.mu.Lock()
	d.peers = append(d.peers, p)
	d.mu.Unlock()
	return p.join(ctx, d.run)
}

// collect waits until every member of the last record has the final version.
func (d *demo) collect(ctx context.Context) error {
	var obs daemon.RunStatus
	if err := d.observer().Client.Get(ctx, "/api/v1/runs/"+d.run, &obs); err != nil {
		return err
	}
	lost := map[string]bool{}
	for i := range d.cfg.Lose {
		lost[d.peers[d.cfg.Peers-1-i].ID.String()] = true
	}
	var decides []float64
	for _, p := range d.sorted() {
		if lost[p.ID.String()] {
			continue
		}
		s, err := d.final(ctx, p)
		if err != nil {
			d.cfg.Line(fmt.Sprintf("%s has no final version: %v", d.label(p), err))
		}
		d.order = append(d.order, d.label(p))
		d.seen.Versions = append(d.seen.Versions, s.Version)
		decides = append(decides, s.DecideMs)
	}
	slices.Sort(decides)
	d.seen.DecideMs = decides[(len(decides)-1)/2]
	return nil
}

func (d *demo) sorted() []*Peer {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := slices.Clone(d.peers)
	slices.SortFunc(out, func(a, b *Peer) int { return a.ID.Compare(b.ID) })
	return out
}

// label names a peer as the lines about it do.
func (d *demo) label(p *Peer) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return fmt.Sprintf("peer %d (%s)", slices.Index(d.peers, p)+1, p.ID.Short())
}

// final polls a peer until it has finished, or its process has ended.
func (d *demo) final(ctx context.Context, p *Peer) (daemon.RunStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	for {
		if !p.Running() {
			return daemon.RunStatus{}, errors.New("its process has ended")
		}
		var s daemon.RunStatus
		err := p.Client.Get(ctx, "/api/v1/runs/"+d.run, &s)
		if err == nil && s.State == "finished" {
			return s, nil
		}
		select {
		case <-ctx.Done():
			s.Version = ""
			return s, errors.Join(fmt.Errorf("state %q, round %d, applied %d", s.State, s.Round, s.Applied), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// verify exports the run at one peer, stops all peers, and checks a copy of the
// export in a fresh process.
func (d *demo) verify(ctx context.Context) error {
	export := filepath.Join(d.dir, "export")
	if err := d.observer().Client.Post(ctx, "/api/v1/runs/"+d.run+"/export", map[string]string{"dir": export}, nil); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	for _, p := range d.sorted() {
		if p.Running() {
			d.book(ctx, p)
		}
	}
	d.close()
	d.totals()
	cmd := exec.CommandContext(ctx, d.cfg.Exe, "model", "verify", export, "--json")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return exit.Fail(exit.Integrity, err, "the export did not verify: %s", out)
	}
	var v proof.Result
	if err := json.Unmarshal(out, &v); err != nil {
		return fmt.Errorf("read the verifier's answer: %w", err)
	}
	d.seen.Accuracy, d.seen.Loss, d.seen.Gain, d.seen.Ledger = v.Accuracy, v.Loss, v.StartLoss-v.Loss, v.Ledger
	if who := strings.Join(v.Ledger.Convicted, ", "); who != "" {
		d.seen.Attack = &who
	}
	for i, id := range d.seen.Versions {
		if id == "" || id != v.Version {
			return exit.Fail(exit.Integrity, nil, "%s ended with version %q, the export replays to %q; --keep DIR keeps its log", d.order[i], id, v.Version)
		}
	}
	return nil
}

// totals sums bytes and processor time over all processes.
func (d *demo) totals() {
	var cpu, train float64
	for _, p := range d.peers {
		cpu += p.CPU().Seconds()
		train += d.trainCPU[p.ID]
	}
	d.seen.Bytes.Payload, d.seen.Bytes.Socket = d.payload, d.socket
	d.seen.Bytes.Control = d.control / max(1, d.seen.Expected) // one planned contribution is one peer in one round
	if cpu > 0 {
		d.seen.TrainShare = train / cpu
	}
}

// close stops all processes, all at once.
func (d *demo) close() {
	var wg sync.WaitGroup
	for _, p := range d.sorted() {
		wg.Add(1)
		go func() {
			defer wg.Done()
			p.Stop()
		}()
	}
	wg.Wait()
}

// RandomKill draws a victim and a round in which it is killed.
func RandomKill(rng *rand.Rand, peers int, rounds uint64) (peer int, round uint64) {
	return 1 + rng.IntN(peers), 1 + rng.Uint64N(max(1, rounds-4))
}
