package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/netsim"
	"github.com/apiary-net/hived/netsim/proc"
)

func (a *app) netsimCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "netsim", Short: "Simulate swarms: the daemon's own code, with virtual time, links, disks and clocks"}
	cmd.AddCommand(a.netsimScenarios(), a.netsimShow(), a.netsimRun(), a.netsimReport(), a.netsimCompare(), a.netsimReplay(), a.netsimKillAnything())
	return cmd
}

func (a *app) netsimScenarios() *cobra.Command {
	return &cobra.Command{Use: "scenarios", Short: "List the built-in scenarios", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		type line struct {
			Name  string `json:"name"`
			About string `json:"about"`
		}
		var out []line
		for _, name := range netsim.Scenarios() {
			s, err := builtin(name)
			if err != nil {
				return err
			}
			out = append(out, line{name, s.About})
		}
		if a.json {
			return printJSON(c, out)
		}
		for _, l := range out {
			fmt.Fprintf(c.OutOrStdout(), "%-20s %s\n", l.Name, l.About)
		}
		return nil
	}}
}

func builtin(name string) (*netsim.Scenario, error) {
	b, err := netsim.ScenarioText(name)
	if err != nil {
		return nil, exit.Fail(exit.Usage, err, "show scenario")
	}
	return netsim.ParseScenario(name+".toml", b)
}

func (a *app) netsimShow() *cobra.Command {
	return &cobra.Command{Use: "show NAME", Short: "Print a built-in scenario's file, to be changed and run", Args: cobra.ExactArgs(1), RunE: func(c *cobra.Command, args []string) error {
		b, err := netsim.ScenarioText(args[0])
		if err != nil {
			return exit.Fail(exit.Usage, err, "show scenario")
		}
		_, err = c.OutOrStdout().Write(b)
		return err
	}}
}

// netsimFlags are those of netsim run.
type netsimFlags struct {
	peers, runs, jobs int
	rounds, seed      uint64
	seeds, out, tier  string
	set               []string
	force             bool
}

func (a *app) netsimRun() *cobra.Command {
	var f netsimFlags
	cmd := &cobra.Command{Use: "run NAME|FILE", Short: "Run a scenario", Args: cobra.ExactArgs(1), RunE: func(c *cobra.Command, args []string) error {
		cfg, s, err := f.sweep(c, args[0])
		if err != nil {
			return err
		}
		if f.tier == netsim.TierNet {
			return printNetCommand(c, args[0], cfg, s)
		}
		if err := fits(c, s, f.tier, min(cfg.Jobs, len(cfg.Seeds))); err != nil {
			return err
		}
		showProgress(c, &cfg)
		rs, err := netsim.Sweep(c.Context(), cfg)
		if err != nil {
			return a.runFailed(err, cfg)
		}
		return a.printResults(c, rs, cfg)
	}}
	p := cmd.Flags()
	p.StringVar(&f.tier, "tier", netsim.TierEvent, "event: one process, virtual time; proc: real processes; net: print the command that runs whole daemons in virtual time")
	p.IntVar(&f.peers, "peers", 0, "peers (default: the scenario's)")
	p.Uint64Var(&f.rounds, "rounds", 0, "rounds (default: the scenario's)")
	p.Uint64Var(&f.seed, "seed", 0, "seed (default: the scenario's)")
	p.StringVar(&f.seeds, "seeds", "", "FROM..TO: one run for each seed")
	p.IntVar(&f.runs, "runs", 0, "this many seeds, from --seed on")
	p.IntVar(&f.jobs, "jobs", 1, "runs at a time")
	p.StringArrayVar(&f.set, "set", nil, "KEY=VALUE: change a key of the scenario, such as swarm.steps=40")
	p.StringVarP(&f.out, "out", "o", "", "write events, CSV, result and report into this directory")
	p.BoolVar(&f.force, "force", false, "replace what another scenario wrote into that directory")
	return cmd
}

// sweep reads the scenario and the flags.
func (f *netsimFlags) sweep(c *cobra.Command, arg string) (cfg netsim.SweepConfig, s *netsim.Scenario, err error) {
	cfg = netsim.SweepConfig{File: arg, Set: f.set, Jobs: f.jobs, Dir: f.out, Force: f.force}
	if strings.ContainsAny(arg, "./\\") {
		if cfg.Text, err = readSettings(arg); err != nil {
			return cfg, nil, exit.Fail(exit.Config, err, "read scenario (hived netsim show NAME > FILE makes one)")
		}
	} else {
		cfg.File = arg + ".toml"
		cfg.Text, err = netsim.ScenarioText(arg)
	}
	if err != nil {
		return cfg, nil, exit.Fail(exit.Usage, err, "run scenario")
	}
	if f.peers > 0 {
		cfg.Set = append(cfg.Set, fmt.Sprintf("swarm.peers=%d", f.peers))
	}
	if f.rounds > 0 {
		cfg.Set = append(cfg.Set, fmt.Sprintf("swarm.rounds=%d", f.rounds))
	}
	s, err = netsim.ParseScenario(cfg.File, cfg.Text, cfg.Set...)
	if err != nil {
		if exit.CodeOf(err) == exit.Failed {
			err = exit.Fail(exit.Config, err, "scenario")
		}
		return cfg, nil, err
	}
	if err := s.ForTier(cfg.File, cfg.Text, f.tier); err != nil {
		return cfg, nil, err
	}
	if f.jobs < 1 || f.runs < 0 || f.jobs > 1 && f.tier == netsim.TierProc {
		return cfg, nil, exit.Fail(exit.Usage, nil, "--jobs %d and --runs %d in the tier %s", f.jobs, f.runs, f.tier)
	}
	if f.tier == netsim.TierProc {
		exe, err := os.Executable()
		if err != nil {
			return cfg, nil, err
		}
		cfg.Tier, cfg.Play = f.tier, proc.Play(exe)
	}
	first := s.Swarm.Seed
	if c.Flags().Changed("seed") {
		first = f.seed
	}
	last := first + uint64(max(1, f.runs)) - 1
	if f.seeds != "" {
		if n, err := fmt.Sscanf(f.seeds, "%d..%d", &first, &last); n != 2 || err != nil || last < first {
			return cfg, nil, exit.Fail(exit.Usage, nil, "--seeds %q, want FROM..TO such as 1..20", f.seeds)
		}
	}
	if last-first >= 1_000_000 {
		return cfg, nil, exit.Fail(exit.Usage, nil, "%d seeds at once, the limit is a million", last-first+1)
	}
	for seed := first; seed <= last; seed++ {
		cfg.Seeds = append(cfg.Seeds, seed)
	}
	return cfg, s, nil
}

// processBytes is about what a daemon with a small model takes.
const processBytes = 96 << 20

// printNetCommand says how a scenario runs in the net tier: synctest belongs to
// tests.
func printNetCommand(c *cobra.Command, arg string, cfg netsim.SweepConfig, s *netsim.Scenario) error {
	if len(cfg.Set) > 0 || len(cfg.Seeds) > 1 || cfg.Seeds[0] != s.Swarm.Seed || cfg.Dir != "" {
		return exit.Fail(exit.Usage, nil, "the tier net takes a scenario as its file says it: no --set, --peers, --rounds, seeds or -o")
	}
	if strings.ContainsAny(arg, "./\\") {
		abs, err := filepath.Abs(arg)
		if err != nil {
			return err
		}
		arg = abs
	}
	fmt.Fprintf(c.OutOrStdout(), "go test ./netsim/nettier -run TestScenario -v -timeout 1h -scenario %s\n", arg)
	return nil
}

// fits says how much memory the runs will take, and refuses what this machine
// does not have.
func fits(c *cobra.Command, s *netsim.Scenario, tier string, jobs int) error {
	n := s.Swarm.Peers + s.Swarm.Spare
	need, what := netsim.Estimate(s)*int64(jobs), "virtual time, the daemon's own code"
	if tier == netsim.TierProc {
		need, what = int64(n)*processBytes, "real processes, real time"
	}
	free, err := freeMemory()
	if err != nil {
		return nil // it cannot be known here
	}
	fmt.Fprintf(c.ErrOrStderr(), "estimate: %d peers, about %d MB of memory (%d MB free); %s\n", n, need>>20, free>>20, what)
	if need > free {
		return exit.Fail(exit.Resource, nil, "about %d MB of memory are needed, %d MB are free: take fewer peers, a smaller model.params or fewer --jobs", need>>20, free>>20)
	}
	if n > 64 { // large swarms make much garbage in a round; long runs of small ones keep much
		debug.SetGCPercent(300)
	}
	debug.SetMemoryLimit(free * 3 / 4)
	return nil
}

// freeMemory returns what Linux says is available.
func freeMemory() (int64, error) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for _, l := range strings.Split(string(b), "\n") {
		if rest, ok := strings.CutPrefix(l, "MemAvailable:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kb << 10, err
		}
	}
	return 0, errors.New("MemAvailable is not in /proc/meminfo")
}

// showProgress prints a line for each tenth of a run, or each half minute.
func showProgress(c *cobra.Command, cfg *netsim.SweepConfig) {
	var mu sync.Mutex
	began, last := time.Now(), time.Now()
	cfg.Progress = func(seed uint64, p netsim.Progress) {
		mu.Lock()
		defer mu.Unlock()
		tenth := p.Rounds >= 10 && p.Round%(p.Rounds/10) == 0
		if !tenth && time.Since(last) < 30*time.Second || tenth && time.Since(last) < time.Second {
			return
		}
		last = time.Now()
		of := ""
		if p.Rounds > 0 {
			of = fmt.Sprintf("/%d", p.Rounds)
		}
		fmt.Fprintf(c.ErrOrStderr(), "seed %d  round %d%s  %d kills  virtual %s  wall %s\n", seed, p.Round, of, p.Kills, p.Virtual.Round(time.Second), time.Since(began).Round(time.Second))
	}
}

// runFailed says what an interrupted run has saved, and how it goes on.
func (a *app) runFailed(err error, cfg netsim.SweepConfig) error {
	var by signalled
	switch stopped := errors.As(err, &by); {
	case !stopped && (cfg.Dir == "" || len(cfg.Seeds) == 1 || exit.CodeOf(err) == exit.Usage):
		return err
	case !stopped:
		return exit.Fail(exit.CodeOf(err), err, "netsim stopped with %d of %d seeds in %s; the same command goes on where it was", cfg.Saved(), len(cfg.Seeds), cfg.Dir)
	case cfg.Dir == "":
		return a.stopped(by, "nothing was saved, as no -o DIR was given; run it again with -o DIR:")
	case len(cfg.Seeds) == 1:
		return a.stopped(by, "the events so far are in %s; a single run cannot go on in its middle, run it again with", filepath.Join(cfg.Dir, netsim.EventsFile))
	}
	return a.stopped(by, "%d of %d seeds are saved in %s; go on with", cfg.Saved(), len(cfg.Seeds), cfg.Dir)
}

// stopped is what a signal ended, with the command that was given.
func (a *app) stopped(by signalled, format string, args ...any) error {
	return exit.Fail(by.code(), nil, "%v: netsim stopped; %s\n  %s", by, fmt.Sprintf(format, args...), a.commandLine())
}

func (a *app) printResults(c *cobra.Command, rs []*netsim.Result, cfg netsim.SweepConfig) error {
	var failed *netsim.Result
	for _, r := range rs {
		if r.Violates != nil || r.Failure != "" {
			failed = r
		}
		switch {
		case a.json:
			if err := printJSON(c, r); err != nil {
				return err
			}
		default:
			printResult(c.OutOrStdout(), r)
		}
	}
	if cfg.Dir != "" && !a.json {
		fmt.Fprintf(c.OutOrStdout(), "%s: %s %s %s %s\n", cfg.Dir, netsim.ReportFile, netsim.RoundsFile, netsim.EventsFile, netsim.ResultFile)
	}
	if failed != nil {
		return netsimFailure(failed)
	}
	return nil
}

// netsimFailure tells what went wrong and how to see it again.
func netsimFailure(r *netsim.Result) error {
	again := fmt.Sprintf("seed %d, commit %s", r.Seed, r.Commit)
	if v := r.Violates; v != nil {
		return exit.Fail(exit.Integrity, v, "a checker found a violation (%s); the last events are in the result, -o DIR keeps all of them", again)
	}
	return exit.Fail(exit.Degraded, errors.New(r.Failure), "scenario %s did not keep its promise (%s)", r.Scenario, again)
}

func printResult(w io.Writer, r *netsim.Result) {
	took := time.Duration(r.Virtual * 1e9).Round(time.Second)
	if r.Tier == netsim.TierEvent {
		fmt.Fprintf(w, "%s, seed %d: %d peers, %d rounds, %d kills in %s of virtual time (%.1f s of real time, %d events)\n", r.Scenario, r.Seed, r.Peers, r.Rounds, r.Kills, took, r.Seconds, r.Steps)
	} else {
		fmt.Fprintf(w, "%s, seed %d: %d processes, %d rounds, %d kills in %s\n", r.Scenario, r.Seed, r.Peers, r.Rounds, r.Kills, took)
	}
	fmt.Fprintf(w, "  useful work  %.4f of the steps done     hung rounds %d     CIDs at the end %d\n", r.Useful, r.Hung, r.CIDs)
	fmt.Fprintf(w, "  final loss   %.5g     bytes: %.1f MB control, %.1f MB payload\n", r.Loss, float64(r.Control)/1e6, float64(r.Payload)/1e6)
	if r.Digest != "" {
		fmt.Fprintf(w, "  digest       %s\n", r.Digest)
	}
}

func (a *app) netsimReport() *cobra.Command {
	return &cobra.Command{Use: "report DIR", Short: "Write report.html of an output directory again", Args: cobra.ExactArgs(1), RunE: func(c *cobra.Command, args []string) error {
		r, err := netsim.ReadResult(args[0])
		if err != nil {
			return exit.Fail(exit.Usage, err, "report")
		}
		if err := netsim.WriteReport(args[0], r); err != nil {
			return exit.Fail(exit.Failed, err, "report")
		}
		fmt.Fprintln(c.OutOrStdout(), filepath.Join(args[0], netsim.ReportFile))
		return nil
	}}
}

func (a *app) netsimCompare() *cobra.Command {
	return &cobra.Command{Use: "compare DIR DIR...", Short: "Compare the results in output directories", Args: cobra.MinimumNArgs(2), RunE: func(c *cobra.Command, args []string) error {
		var rs []*netsim.Result
		for _, dir := range args {
			r, err := netsim.ReadResult(dir)
			if err != nil {
				return exit.Fail(exit.Usage, err, "compare")
			}
			rs = append(rs, r)
		}
		if a.json {
			return printJSON(c, rs)
		}
		w := c.OutOrStdout()
		row := func(name string, of func(r *netsim.Result) string) {
			fmt.Fprintf(w, "%-14s", name)
			for _, r := range rs {
				fmt.Fprintf(w, " %16s", of(r))
			}
			fmt.Fprintln(w)
		}
		row("", func(r *netsim.Result) string { return filepath.Base(args[slices.Index(rs, r)]) })
		row("scenario", func(r *netsim.Result) string { return r.Scenario })
		row("seed", func(r *netsim.Result) string { return strconv.FormatUint(r.Seed, 10) })
		row("rounds", func(r *netsim.Result) string { return strconv.FormatUint(r.Rounds, 10) })
		row("kills", func(r *netsim.Result) string { return strconv.Itoa(r.Kills) })
		row("useful", func(r *netsim.Result) string { return fmt.Sprintf("%.4f", r.Useful) })
		row("hung", func(r *netsim.Result) string { return strconv.Itoa(r.Hung) })
		row("final loss", func(r *netsim.Result) string { return fmt.Sprintf("%.5g", r.Loss) })
		row("payload MB", func(r *netsim.Result) string { return fmt.Sprintf("%.1f", float64(r.Payload)/1e6) })
		row("control MB", func(r *netsim.Result) string { return fmt.Sprintf("%.1f", float64(r.Control)/1e6) })
		row("virtual s", func(r *netsim.Result) string { return fmt.Sprintf("%.0f", r.Virtual) })
		row("digest", func(r *netsim.Result) string { return r.Digest[:min(12, len(r.Digest))] })
		return nil
	}}
}

func (a *app) netsimReplay() *cobra.Command {
	var from, to uint64
	cmd := &cobra.Command{Use: "replay FILE", Short: "Step through an events file, round by round", Args: cobra.ExactArgs(1), RunE: func(c *cobra.Command, args []string) error {
		path := args[0]
		if st, err := os.Stat(path); err == nil && st.IsDir() {
			path = filepath.Join(path, netsim.EventsFile)
		}
		round := uint64(0)
		err := netsim.ReadEvents(path, func(e netsim.Event) error {
			if e.Kind == "decided" {
				round = e.Round
			}
			if round < from || to > 0 && round > to {
				return nil
			}
			fmt.Fprintln(c.OutOrStdout(), eventLine(e))
			return nil
		})
		if err != nil {
			return exit.Fail(exit.Usage, err, "replay")
		}
		return nil
	}}
	cmd.Flags().Uint64Var(&from, "from", 0, "first round")
	cmd.Flags().Uint64Var(&to, "to", 0, "last round; 0: to the end")
	return cmd
}

// eventLine is an event for people.
func eventLine(e netsim.Event) string {
	at := fmt.Sprintf("%10.3f s", float64(e.Ms)/1000)
	switch e.Kind {
	case "decided":
		line := fmt.Sprintf("%s  round %-5d %d/%d counted  %.1f s  loss %.4g", at, e.Round, len(e.Counted), len(e.Counted)+len(e.Lost), float64(e.TookMs)/1000, e.Loss)
		if len(e.Lost) > 0 {
			line += "  (" + strings.Join(e.Lost, " ") + ")"
		}
		return line
	case "version":
		return fmt.Sprintf("%s  version %-3d %s", at, e.Round, e.Version)
	}
	return strings.TrimSpace(fmt.Sprintf("%s  %s peer %d %s", at, e.Kind, e.Peer, e.Text))
}

func (a *app) netsimKillAnything() *cobra.Command {
	var cfg netsim.KillConfig
	cmd := &cobra.Command{Use: "kill-anything", Short: "Measure the kill-anything table: hived beside other rules under the same failures", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg.Line = func(s string) { fmt.Fprintln(c.ErrOrStderr(), s) }
			if err := cfg.Validate(); err != nil {
				return exit.Fail(exit.Usage, err, "wrong flag")
			}
			t, err := netsim.KillAnything(c.Context(), cfg)
			if by := (signalled{}); errors.As(err, &by) {
				if cfg.Dir == "" {
					return a.stopped(by, "nothing was saved, as no --out DIR was given; run it again with --out DIR:")
				}
				return a.stopped(by, "the cells that are done are in %s; go on with", cfg.Dir)
			}
			if err != nil {
				return err
			}
			if a.json {
				err = printJSON(c, t)
			} else {
				_, err = fmt.Fprint(c.OutOrStdout(), t.Markdown())
			}
			if f := t.Failed(); err == nil && f != "" {
				err = exit.Fail(exit.Degraded, errors.New(f), "kill anything")
			}
			return err
		}}
	f := cmd.Flags()
	f.IntVar(&cfg.Failures, "failures", 1000, "failures of each cell")
	f.IntVar(&cfg.Jobs, "jobs", 1, "cells at a time")
	f.Uint64Var(&cfg.Seed, "seed", 1, "seed")
	f.StringSliceVar(&cfg.Presets, "preset", []string{"diloco", "ddp"}, "presets of hived")
	f.DurationSliceVar(&cfg.Every, "every", []time.Duration{time.Minute, 15 * time.Second}, "time between failures")
	f.DurationSliceVar(&cfg.Restart, "restart", []time.Duration{10 * time.Second, time.Minute, 2 * time.Minute}, "time until a killed process is back")
	f.BoolVar(&cfg.Force, "force", false, "replace cells of other failures or seeds in that directory")
	f.StringVar(&cfg.Dir, "out", "", "keep the cells in this directory, and go on from those that are there")
	return cmd
}
