package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/tensorops"
	"github.com/apiary-net/hived/train"
	"github.com/apiary-net/hived/train/data"
	"github.com/apiary-net/hived/train/weights"
)

// trainReport is what `hived train --json` prints.
type trainReport struct {
	Schema   string             `json:"schema"` // hived.train/v1
	Name     string             `json:"name"`
	Model    string             `json:"model"`
	Steps    uint64             `json:"steps"`
	Resumed  uint64             `json:"resumed"` // step that this start went on from
	Split    string             `json:"split"`
	Samples  int                `json:"samples"`
	Loss     float64            `json:"loss"` // on the split
	Accuracy *float64           `json:"accuracy,omitempty"`
	Measures map[string]float64 `json:"measures,omitempty"` // of forecasts
	CPU      float64            `json:"cpu_seconds"`
	Seconds  float64            `json:"seconds"`
	Dir      string             `json:"dir,omitempty"`
}

// trainFlags are those of `hived train`.
type trainFlags struct {
	task, out, split string
	set              []string
	steps            uint64
	seed             uint64
	threads          int
	fresh            bool
}

func (a *app) trainCmd() *cobra.Command {
	var f trainFlags
	cmd := &cobra.Command{Use: "train [FILE]", Short: "Train on this machine alone, without a swarm", Args: cobra.MaximumNArgs(1),
		Long: `Trains what the run file FILE describes (see docs/train.md), or a built-in task.
Curve, checkpoints and the model go to the run's folder. A training that was
interrupted, by Ctrl-C or by kill -9, goes on when the same command is typed
again, and ends with the same bits.`,
		RunE: func(c *cobra.Command, args []string) error {
			r, base, err := f.load(c, args)
			if err != nil {
				return err
			}
			return a.train(c, r, base, f)
		}}
	fl := cmd.Flags()
	fl.StringVar(&f.task, "task", "mnist", "without FILE: "+strings.Join(train.Tasks(), ", "))
	fl.StringVar(&f.split, "eval", "", "split that is evaluated at the end (default: the file's)")
	fl.StringVarP(&f.out, "out", "o", "", "folder of the training (default: the file's, or its name)")
	fl.StringArrayVar(&f.set, "set", nil, "KEY=VALUE: change a key of the file, as data.fold=2")
	fl.Uint64Var(&f.steps, "steps", 0, "optimizer steps (default: the file's)")
	fl.IntVar(&f.threads, "threads", 0, "threads; 0: one per core")
	fl.Uint64Var(&f.seed, "seed", 0, "seed of start weights and of the order of samples (default: the file's)")
	fl.BoolVar(&f.fresh, "fresh", false, "delete the folder's checkpoint and start anew")
	return cmd
}

// load reads the run file and puts the flags on top.
func (f trainFlags) load(c *cobra.Command, args []string) (r train.RunFile, base string, err error) {
	if len(args) == 1 {
		b, err := readSettings(args[0])
		if err != nil {
			return r, "", exit.Fail(exit.Config, err, "read run file")
		}
		if err := exit.DecodeFile(args[0], b, &r); err != nil {
			return r, "", err
		}
		base = filepath.Dir(args[0])
		if r.Name == "" {
			r.Name = strings.TrimSuffix(filepath.Base(args[0]), ".toml")
		}
	} else {
		var ok bool
		if r, ok = train.TaskFile(f.task); !ok {
			return r, "", exit.Fail(exit.Usage, nil, "task %q is not one of %s, and no run file is named", f.task, strings.Join(train.Tasks(), ", "))
		}
		r.Data.Path = os.Getenv("HIVED_DATA")
	}
	for _, kv := range f.set {
		if err := exit.DecodeSet(kv, &r); err != nil {
			return r, "", err
		}
	}
	if c.Flags().Changed("steps") {
		r.Steps, r.Epochs = f.steps, 0
	}
	if f.seed > 0 {
		r.Seed = f.seed
	}
	if f.split != "" {
		r.Eval.Final = f.split
	}
	if f.out != "" {
		r.Output.Dir = f.out
	} else if r.Output.Dir == "" && len(args) == 1 {
		r.Output.Dir = filepath.Join(base, r.Name+".run")
	}
	if c.Flags().Changed("threads") || r.Threads == 0 {
		r.Threads = f.threads
	}
	return r, base, nil
}

func (a *app) train(c *cobra.Command, r train.RunFile, base string, f trainFlags) error {
	t, err := r.Open(base)
	if err != nil {
		code := exit.Config
		if errors.Is(err, weights.ErrFile) {
			code = exit.Failed
		}
		return exit.Fail(code, err, "run %q not started", r.Name)
	}
	if f.fresh && t.Dir != "" {
		if err := os.Remove(filepath.Join(t.Dir, train.CheckpointFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return exit.Fail(exit.Resource, err, "delete the old checkpoint")
		}
	}
	began := time.Now()
	done := a.trainOutput(c, t)
	res, err := train.RunSolo(c.Context(), t.Solo)
	done()
	switch {
	case errors.Is(err, train.ErrOther):
		return exit.Fail(exit.Config, err, "run %q not started; give another --out, or --fresh to throw that training away", r.Name)
	case errors.Is(err, tensorops.ErrMemory):
		return exit.Fail(exit.Resource, err, "run %q not started; a smaller optimizer.batch needs less", r.Name)
	case err != nil && context.Cause(c.Context()) != nil && t.Dir != "":
		fmt.Fprintf(c.ErrOrStderr(), "stopped; the same command goes on from the checkpoint in %s\n", t.Dir)
		return err
	case err != nil:
		return exit.Fail(exit.Failed, err, "run %q", r.Name)
	}
	return a.trainReport(c, r, t, res, time.Since(began))
}

// trainReport evaluates the result and prints it.
func (a *app) trainReport(c *cobra.Command, r train.RunFile, t *train.Training, res train.Result, took time.Duration) error {
	m, err := train.Measure(c.Context(), t.Config, res.Params, res.Buffers, t.Final)
	if err != nil {
		return exit.Fail(exit.Failed, err, "evaluate %q", r.Name)
	}
	if err := m.KeepCalibration(t.Data, t.Final, t.Dir); err != nil {
		return exit.Fail(exit.Failed, err, "keep the calibration of %q", r.Name)
	}
	rep := trainReport{Schema: "hived.train/v1", Name: r.Name, Model: t.Model.Name, Steps: res.Steps, Resumed: res.Resumed, Split: t.Final, Samples: m.Samples,
		Loss: m.Loss, Measures: m.Measures, CPU: res.CPU, Seconds: took.Seconds(), Dir: t.Dir}
	if t.Data.Form().Classes > 0 {
		rep.Accuracy = &m.Accuracy
	}
	if a.json {
		return printJSON(c, rep)
	}
	out := c.OutOrStdout()
	fmt.Fprintf(out, "%s loss %.4f", rep.Split, rep.Loss)
	if rep.Accuracy != nil {
		fmt.Fprintf(out, "  accuracy %.4f", *rep.Accuracy)
	}
	fmt.Fprintf(out, "  on %d samples, %d steps, %.1f cpu-s\n", m.Samples, res.Steps, res.CPU)
	for _, l := range m.Lines() {
		fmt.Fprintln(out, l)
	}
	if t.Dir != "" {
		fmt.Fprintf(out, "model in %s\n", filepath.Join(t.Dir, weights.ModelFile))
	}
	return nil
}

// trainOutput sends points to standard error as lines; to a terminal with a bar.
func (a *app) trainOutput(c *cobra.Command, t *train.Training) (done func()) {
	line := func(s string) { fmt.Fprintln(c.ErrOrStderr(), s) }
	progress := func(train.Point) {}
	done = func() {}
	if isatty.IsTerminal(os.Stderr.Fd()) && os.Getenv("TERM") != "dumb" {
		p := mpb.New(mpb.WithOutput(os.Stderr), mpb.WithWidth(40))
		bar := p.AddBar(int64(t.Steps), mpb.PrependDecorators(decor.CountersNoUnit("steps %d/%d")), mpb.AppendDecorators(decor.EwmaETA(decor.ET_STYLE_GO, 20)))
		line = func(s string) { _, _ = p.Write([]byte(s + "\n")) }
		last, at := time.Now(), uint64(0)
		progress = func(q train.Point) {
			bar.EwmaIncrInt64(int64(q.Step-at), time.Since(last))
			last, at = time.Now(), q.Step
		}
		done = func() {
			bar.Abort(true)
			p.Wait()
		}
	}
	line(fmt.Sprintf("%s on %d training samples, %d steps of %d", t.Model.Name, t.Data.Len(data.Train), t.Steps, t.Optimizer.Batch*max(1, t.Optimizer.Accumulate)))
	if n, ok := t.Data.(data.Noter); ok {
		for _, s := range n.Notes() {
			line(s)
		}
	}
	t.Started = func(peak int64, resumed uint64) {
		line(fmt.Sprintf("a step takes %.1f MB", float64(peak)/1e6))
		if resumed > 0 {
			line(fmt.Sprintf("going on from step %d", resumed))
		}
	}
	sketch := &sparkline{}
	t.Observe = func(q train.Point) {
		progress(q)
		sketch.add(q.Loss)
		if q.Valid == nil && q.Step%(10*t.LogEvery) != 0 && q.Step != t.Steps {
			return
		}
		s := fmt.Sprintf("step %-7d loss %.4f", q.Step, q.Loss)
		if v := q.Valid; v != nil {
			s += fmt.Sprintf("  %s %.4f", t.EvalSplit, v.Loss)
			if t.Data.Form().Classes > 0 && t.Data.Form().Kind != "text" {
				s += fmt.Sprintf(" (%.4f right)", v.Accuracy)
			}
		}
		line(s + fmt.Sprintf("  rate %.2g  %.0f cpu-s  %s", q.Rate, q.CPU, sketch))
	}
	return done
}

// sparkline draws the newest losses in one line.
type sparkline struct{ losses []float64 }

func (s *sparkline) add(x float64) {
	if s.losses = append(s.losses, x); len(s.losses) > 24 {
		s.losses = s.losses[1:]
	}
}

func (s *sparkline) String() string {
	low, high := s.losses[0], s.losses[0]
	for _, x := range s.losses {
		low, high = min(low, x), max(high, x)
	}
	var b strings.Builder
	for _, x := range s.losses {
		b.WriteRune([]rune("▁▂▃▄▅▆▇█")[int(7*(x-low)/max(high-low, 1e-12))])
	}
	return b.String()
}
