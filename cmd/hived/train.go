package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/apiary-net/hived/daemon"
	"github.com/apiary-net/hived/train"
	"github.com/apiary-net/hived/wire"
)

// trainReport is what `hived train --json` prints.
type trainReport struct {
	Schema   string   `json:"schema"` // hived.train/v1
	Task     string   `json:"task"`
	Model    string   `json:"model"`
	Steps    int      `json:"steps"`
	Loss     float64  `json:"loss"` // on the evaluated split
	Accuracy *float64 `json:"accuracy,omitempty"`
	Split    string   `json:"split"`
	Seconds  float64  `json:"seconds"`
}

func (a *app) trainCmd() *cobra.Command {
	var task, split string
	var steps, threads int
	var seed uint64
	cmd := &cobra.Command{Use: "train", Short: "Train on this machine alone, without a swarm", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			data, err := train.Open(task, os.Getenv("HIVED_DATA"))
			if err != nil {
				return daemon.Fail(daemon.ExitFailed, err, "open data %q", task)
			}
			cfg := train.Default(task)
			cfg.Data, cfg.Seed, cfg.Threads = data, seed, threads
			t, err := train.New(cfg)
			if err != nil {
				return daemon.Fail(daemon.ExitFailed, err, "build model")
			}
			defer t.Close()
			return a.trainLoop(c, t, cfg, trainReport{Schema: "hived.train/v1", Task: task, Model: cfg.Model, Steps: steps, Split: split})
		}}
	f := cmd.Flags()
	f.StringVar(&task, "task", "mnist", "mnist or text")
	f.StringVar(&split, "eval", "test", "split that is evaluated at the end: validation or test")
	f.IntVar(&steps, "steps", 1000, "optimizer steps")
	f.IntVar(&threads, "threads", 0, "threads; 0: one per core")
	f.Uint64Var(&seed, "seed", 1, "seed of start weights and of the order of samples")
	return cmd
}

// trainSlice is how many steps lie between two lines.
const trainSlice = 100

func (a *app) trainLoop(c *cobra.Command, t *train.Trainer, cfg train.Config, r trainReport) error {
	params, buffers := t.Init()
	began := time.Now()
	at := uint64(0)
	for done := 0; done < r.Steps; {
		n := min(trainSlice, r.Steps-done)
		if err := t.Load(c.Context(), params, buffers); err != nil {
			return err
		}
		hi := at + uint64(n*cfg.Inner.Batch)
		u, err := t.Train(c.Context(), train.Job{Spans: []wire.Span{{Lo: at, Hi: hi}}, MaxSteps: n, LRScale: 1 - 0.9*float32(done)/float32(r.Steps)})
		if err != nil {
			return err
		}
		for i, d := range u.Delta {
			params[i] -= d
		}
		at, done = hi, done+n
		fmt.Fprintf(c.ErrOrStderr(), "step %-6d loss %.4f  %.1f s\n", done, u.Loss, time.Since(began).Seconds())
	}
	s, err := t.Eval(c.Context(), params, buffers, r.Split, 10_000)
	if err != nil {
		return err
	}
	r.Loss, r.Seconds = s.Loss, time.Since(began).Seconds()
	if cfg.Data.Kind() == "image" {
		r.Accuracy = &s.Accuracy
	}
	if a.json {
		return printJSON(c, r)
	}
	fmt.Fprintf(c.OutOrStdout(), "%s loss %.4f  accuracy %.4f on %d samples\n", r.Split, s.Loss, s.Accuracy, s.Samples)
	return nil
}
