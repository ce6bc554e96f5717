package netsim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/pelletier/go-toml/v2"

	"github.com/apiary-net/hived/daemon/exit"
)

// SweepConfig of a Sweep.
type SweepConfig struct {
	File  string // name for messages
	Text  []byte // of the scenario
	Set   []string
	Seeds []uint64
	Jobs  int    // simulations at a time
	Dir   string // where to write; empty: nowhere
	// Force lets what another scenario wrote into Dir be replaced.
	Force bool
	// Tier is the tier of Play; default event.
	Tier string
	// Play runs a scenario in that tier; default Simulate.
	Play func(context.Context, *Scenario, Options) (*Result, error)
	// Logger and Progress are as in Options; Progress is called by several at once
	// when there are several jobs.
	Logger   *slog.Logger
	Progress func(seed uint64, p Progress)
}

// Sweep runs a scenario once for each seed. In an output directory it goes on
// where an earlier one was interrupted: seeds whose result is there and of the
// same scenario and code are not run again.
func Sweep(ctx context.Context, c SweepConfig) ([]*Result, error) {
	if c.Play == nil {
		c.Tier, c.Play = TierEvent, Simulate
	}
	if err := c.mayWrite(); err != nil {
		return nil, err
	}
	out := make([]*Result, len(c.Seeds))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(1, c.Jobs))
	for i, seed := range c.Seeds {
		g.Go(func() (err error) {
			defer func() {
				if p := recover(); p != nil {
					err = fmt.Errorf("seed %d: the simulation panicked: %v\n%s", seed, p, debug.Stack())
				}
			}()
			r, err := c.one(ctx, seed)
			if err != nil {
				return fmt.Errorf("seed %d: %w", seed, err)
			}
			out[i] = r
			return nil
		})
	}
	err := g.Wait()
	return slices.DeleteFunc(out, func(r *Result) bool { return r == nil }), err
}

func (c SweepConfig) one(ctx context.Context, seed uint64) (*Result, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	s, err := c.scenario(seed)
	if err != nil {
		return nil, err
	}
	o := Options{Logger: c.Logger}
	if c.Progress != nil {
		o.Progress = func(p Progress) { c.Progress(seed, p) }
	}
	if c.Dir == "" {
		return c.Play(ctx, s, o)
	}
	dir := c.dir(seed)
	if r := resultIn(dir, s); r != nil && r.Tier == c.Tier && !c.Force {
		return r, nil
	}
	o.Force = c.Force
	return playInto(ctx, dir, s, o, c.Play)
}

// scenario returns the scenario with a seed.
func (c SweepConfig) scenario(seed uint64) (*Scenario, error) {
	return ParseScenario(c.File, c.Text, append(slices.Clone(c.Set), "swarm.seed="+strconv.FormatUint(seed, 10))...)
}

// dir returns where a seed's files go.
func (c SweepConfig) dir(seed uint64) string {
	if len(c.Seeds) == 1 {
		return c.Dir
	}
	return filepath.Join(c.Dir, "seed-"+strconv.FormatUint(seed, 10))
}

// Saved returns how many of the seeds have a result in the output directory.
func (c SweepConfig) Saved() (n int) {
	for _, seed := range c.Seeds {
		if _, err := os.Stat(filepath.Join(c.dir(seed), ResultFile)); c.Dir != "" && err == nil {
			n++
		}
	}
	return n
}

// mayWrite refuses, before anything runs, what would replace another scenario's
// files.
func (c SweepConfig) mayWrite() error {
	for _, seed := range c.Seeds {
		if _, err := os.Stat(c.dir(seed)); c.Dir == "" || err != nil {
			continue // there is nothing
		}
		s, err := c.scenario(seed)
		if err != nil {
			return err
		}
		if err := mayReplace(c.dir(seed), s, c.Force); err != nil {
			return err
		}
		if r, err := ReadResult(c.dir(seed)); err == nil && r.Tier != c.Tier && !c.Force {
			return exit.Fail(exit.Usage, nil, "%s holds a result of the tier %s, not of %s: %s", c.dir(seed), r.Tier, c.Tier, keepsIt)
		}
	}
	return nil
}

// resultIn returns the result of an earlier run of the same scenario and code.
func resultIn(dir string, s *Scenario) *Result {
	r, err := ReadResult(dir)
	if err != nil || r.Commit != Commit() || strings.HasSuffix(r.Commit, "-dirty") || r.Commit == "unknown" {
		return nil
	}
	was, err := os.ReadFile(filepath.Join(dir, ScenarioFile))
	now, err2 := toml.Marshal(s)
	if errors.Join(err, err2) != nil || string(was) != string(now) {
		return nil
	}
	return r
}

// simulateInto simulates into a directory.
func simulateInto(ctx context.Context, dir string, s *Scenario, o Options) (*Result, error) {
	return playInto(ctx, dir, s, o, Simulate)
}

// playInto runs a scenario into a directory.
func playInto(ctx context.Context, dir string, s *Scenario, o Options, play func(context.Context, *Scenario, Options) (*Result, error)) (_ *Result, err error) {
	lock, err := takeDir(dir, s, o.Force)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	for _, f := range []string{ResultFile, ViolationFile} {
		if err := os.Remove(filepath.Join(dir, f)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	text, err := toml.Marshal(s)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, ScenarioFile), text, 0o644); err != nil {
		return nil, err
	}
	f, err := os.Create(filepath.Join(dir, EventsFile))
	if err != nil {
		return nil, err
	}
	o.Trail, o.Dir = NewTrail(f), dir
	r, err := play(ctx, s, o)
	if err = errors.Join(err, o.Trail.Flush(), f.Close()); err != nil {
		return nil, err
	}
	if r.Violates != nil {
		b, err := json.MarshalIndent(r.Violates, "", " ")
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, ViolationFile), b, 0o644); err != nil {
			return nil, err
		}
	}
	return r, WriteResult(dir, r)
}

// Estimate is about how much memory a scenario takes, in bytes. It was fitted to
// measured runs: a part for each peer, and the model's vectors.
func Estimate(s *Scenario) int64 {
	params := int64(s.Model.Params)
	if params == 0 {
		params = map[string]int64{"mlp": 60_000, "cost": 1}[s.Model.Kind]
	}
	if params == 0 {
		params = 6077
	}
	const vectors = 12 // float32 copies of the model
	n := int64(s.Swarm.Peers + s.Swarm.Spare)
	each := int64(4 << 20) // a peer's queues and books
	if n > fullMesh {
		each = 3 << 19 // it knows its group only
	}
	return 64<<20 + n*(each+4*vectors*params)
}
