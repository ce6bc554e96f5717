package netsim

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// KillConfig of KillAnything.
type KillConfig struct {
	Failures int // of each cell
	Jobs     int // cells at a time
	Seed     uint64
	Presets  []string
	Every    []time.Duration
	Restart  []time.Duration
	Dir      string // where cells are kept; empty: nowhere
	Force    bool   // cells of other failures or seeds may be replaced
	Line     func(string)
}

// Validate checks c.
func (c KillConfig) Validate() error {
	if c.Failures < 1 || len(c.Presets) == 0 || len(c.Every) == 0 || len(c.Restart) == 0 {
		return fmt.Errorf("kill anything: %d failures of %d presets, %d rates, %d restarts: want at least one of each", c.Failures, len(c.Presets), len(c.Every), len(c.Restart))
	}
	for _, d := range c.Every {
		if d < time.Second {
			return fmt.Errorf("kill anything: a failure each %v, want 1s or more", d)
		}
	}
	for _, d := range c.Restart {
		if d <= 0 {
			return fmt.Errorf("kill anything: restart after %v, want more than nothing", d)
		}
	}
	return nil
}

// Failed returns what a cell did not keep, or nothing.
func (t *KillTable) Failed() string {
	for _, c := range t.Cells {
		if c.Failure != "" {
			return c.System + ": " + c.Failure
		}
	}
	return ""
}

// KillTable is what KillAnything measured.
type KillTable struct {
	Schema string     `json:"schema"` // hived.kill-anything/v1
	Seed   uint64     `json:"seed"`
	Commit string     `json:"commit"`
	Cells  []KillCell `json:"cells"`
}

// KillCell is one line of the table.
type KillCell struct {
	System   string  `json:"system"`
	Every    float64 `json:"every_seconds"`
	Restart  float64 `json:"restart_seconds"`
	Failures int     `json:"failures"`
	Useful   float64 `json:"useful"` // of the work that was done
	Pace     float64 `json:"pace"`   // of the work that would have been done without failures
	Hung     int     `json:"hung"`
	CIDs     int     `json:"cids"`
	Loss     float64 `json:"final_loss"`
	Calm     float64 `json:"loss_without_failures"` // after as many rounds
	Rounds   uint64  `json:"rounds"`
	Failure  string  `json:"failure,omitempty"`
}

// calmRounds is how long a run without failures is measured for its pace.
const calmRounds = 40

// KillAnything measures every cell: hived's presets on the event tier, and the
// rules of others under the same failures.
func KillAnything(ctx context.Context, cfg KillConfig) (*KillTable, error) {
	t := &KillTable{Schema: "hived.kill-anything/v1", Seed: cfg.Seed, Commit: Commit()}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Line == nil {
		cfg.Line = func(string) {}
	}
	var mu sync.Mutex
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(max(1, cfg.Jobs))
	type key struct {
		preset         string
		every, restart time.Duration
	}
	cells := map[key]KillCell{}
	for _, preset := range cfg.Presets {
		for _, every := range cfg.Every {
			for _, restart := range cfg.Restart {
				g.Go(func() error {
					c, err := cfg.cell(gctx, preset, every, restart)
					if err != nil {
						return fmt.Errorf("%s, a failure each %v, restart %v: %w", preset, every, restart, err)
					}
					mu.Lock()
					defer mu.Unlock()
					cells[key{preset, every, restart}] = c
					cfg.Line(c.line())
					return nil
				})
			}
		}
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for _, every := range cfg.Every {
		for _, restart := range cfg.Restart {
			for _, preset := range cfg.Presets {
				t.Cells = append(t.Cells, cells[key{preset, every, restart}])
			}
			for _, r := range []Rival{TorchFT(every, restart), PlainElastic(every, restart)} {
				r.Failures, r.Seed = cfg.Failures, cfg.Seed
				res, err := r.Simulate()
				if err != nil {
					return nil, err
				}
				t.Cells = append(t.Cells, KillCell{System: r.Name, Every: every.Seconds(), Restart: restart.Seconds(), Failures: cfg.Failures, Useful: res.Useful, Pace: res.Pace})
			}
		}
	}
	return t, nil
}

// cell runs one scenario of hived, and the same without failures.
func (cfg KillConfig) cell(ctx context.Context, preset string, every, restart time.Duration) (KillCell, error) {
	text, err := ScenarioText("kill-anything-60")
	if err != nil {
		return KillCell{}, err
	}
	s, err := ParseScenario("kill-anything-60.toml", text, "swarm.preset="+preset)
	if err != nil {
		return KillCell{}, err
	}
	s.Swarm.Seed, s.Swarm.Failures, s.Expect = cfg.Seed, cfg.Failures, ExpectSpec{}
	s.Faults[0].Every, s.Faults[0].Restart = When{At: every, Said: true}, Span{restart, true}
	calm := *s
	calm.Faults, calm.Swarm.Failures, calm.Swarm.Rounds = nil, 0, calmRounds
	quiet, err := Simulate(ctx, &calm, Options{})
	if err != nil {
		return KillCell{}, err
	}
	var r *Result
	if cfg.Dir == "" {
		r, err = Simulate(ctx, s, Options{})
	} else {
		dir := filepath.Join(cfg.Dir, fmt.Sprintf("%s-every-%v-restart-%v", preset, every, restart))
		if r = resultIn(dir, s); r == nil {
			r, err = simulateInto(ctx, dir, s, Options{Force: cfg.Force})
		}
	}
	if err != nil {
		return KillCell{}, err
	}
	c := KillCell{System: "hived " + preset, Every: every.Seconds(), Restart: restart.Seconds(), Failures: r.Kills, Useful: r.Useful, Hung: r.Hung, CIDs: r.CIDs,
		Loss: r.Loss, Calm: quiet.Loss, Rounds: r.Rounds, Failure: r.Failure}
	if r.Violates != nil {
		c.Failure = r.Violates.Error()
	}
	// The rate of the calm run is by second of a running process; all of them run.
	if n := quiet.Rate * float64(s.Swarm.Peers) * r.Virtual; n > 0 {
		c.Pace = Round6(float64(r.Counted) / n)
	}
	return c, nil
}

func (c KillCell) line() string {
	return fmt.Sprintf("%s: a failure each %.0f s, restart %.0f s: useful %.4f, pace %.4f, hung %d, %d CIDs, loss %.4g (calm %.4g) %s", c.System, c.Every, c.Restart, c.Useful, c.Pace, c.Hung, c.CIDs, c.Loss, c.Calm, c.Failure)
}

// Markdown is the table for a page.
func (t *KillTable) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| a failure each | back after | system | failures | useful work | pace | hung rounds | CIDs | final loss | loss without failures |\n")
	fmt.Fprintf(&b, "|---|---|---|---|---|---|---|---|---|---|\n")
	for _, c := range t.Cells {
		fmt.Fprintf(&b, "| %.0f s | %.0f s | %s | %d | %.1f %% | %.1f %% |", c.Every, c.Restart, c.System, c.Failures, 100*c.Useful, 100*c.Pace)
		if strings.HasPrefix(c.System, "hived") {
			fmt.Fprintf(&b, " %d | %d | %.4g | %.4g |", c.Hung, c.CIDs, c.Loss, c.Calm)
		} else {
			fmt.Fprintf(&b, " | | | |")
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}
