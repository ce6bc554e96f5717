package train

import (
	"encoding/json"
	"fmt"
	"math"

	ops "github.com/apiary-net/hived/tensorops"
	"github.com/apiary-net/hived/train/data"
	"github.com/apiary-net/hived/train/nets"
	"github.com/apiary-net/hived/wire"
)

// RunFile is a training on one machine, as a person writes it. The zero of a key is
// its default.
type RunFile struct {
	Schema    int           `toml:"schema" comment:"version of this file; 1"`
	Name      string        `toml:"name" comment:"of the run and of its folder"`
	Seed      uint64        `toml:"seed" comment:"of start weights, order and augmentation; default 1"`
	Threads   int           `toml:"threads" comment:"0: one per core"`
	MaxBytes  int64         `toml:"max_bytes" comment:"memory that a step may take; 0: no bound"`
	Compute   string        `toml:"compute" comment:"float32, or bf16: products of linear layers and attention in bfloat16; its bits depend on the processor"`
	Steps     uint64        `toml:"steps" comment:"optimizer updates; or epochs"`
	Epochs    float64       `toml:"epochs" comment:"passes over the training split"`
	Data      data.Spec     `toml:"data"`
	Model     nets.Spec     `toml:"model"`
	Optimizer OptimizerSpec `toml:"optimizer"`
	Eval      EvalSpec      `toml:"eval"`
	Output    OutputSpec    `toml:"output"`
}

// EvalSpec says what is measured.
type EvalSpec struct {
	Every   uint64 `toml:"every" comment:"steps; default a twentieth of the training"`
	Samples int    `toml:"samples" comment:"of an evaluation on the way; 0: all"`
	Split   string `toml:"split" comment:"on the way; default valid, or test where there is none"`
	Final   string `toml:"final" comment:"at the end; default test, or valid where there is none"`
	Keep    string `toml:"keep" comment:"last or best"`
}

// OutputSpec says what is kept.
type OutputSpec struct {
	Dir   string `toml:"dir" comment:"folder; default the run's name"`
	Every uint64 `toml:"every" comment:"steps between checkpoints; default a twentieth of the training"`
	Log   uint64 `toml:"log" comment:"steps between points of the curve; default a hundredth"`
}

// Training is a run file made ready.
type Training struct {
	Solo
	Final string // split of the last evaluation
}

// Open opens the data and fits model and schedule to it. Relative paths start at
// base.
func (r RunFile) Open(base string) (*Training, error) {
	if r.Schema != 1 {
		return nil, fmt.Errorf("schema is %d, want 1", r.Schema)
	}
	r.Data.Rebase(base)
	set, err := data.Open(r.Data)
	if err != nil {
		return nil, err
	}
	model, err := r.Model.Fit(set.Form())
	if err != nil {
		return nil, err
	}
	t := &Training{}
	t.Config = Config{Model: model, Data: set, Seed: max(r.Seed, 1), Threads: r.Threads, MaxBytes: r.MaxBytes}
	if t.Compute, err = computeType(r.Compute); err != nil {
		return nil, err
	}
	if t.Optimizer, err = r.Optimizer.complete(); err != nil {
		return nil, err
	}
	if t.Steps, err = r.length(set, t.Optimizer.samples()); err != nil {
		return nil, err
	}
	t.Optimizer.Total, t.Optimizer.Warmup = t.Steps, min(t.Optimizer.Warmup, t.Steps-1)
	if r.Model.Start != "" {
		if t.Model, t.Start, err = nets.ReadStart(data.Rebased(base, r.Model.Start), t.Model); err != nil {
			return nil, err
		}
	}
	r.measures(t, set)
	t.Dir = r.Output.Dir
	t.Run, err = r.digest(set)
	return t, err
}

func computeType(name string) (ops.DType, error) {
	switch name {
	case "", "float32":
		return ops.F32, nil
	case "bf16":
		return ops.BF16, nil
	}
	return ops.F32, fmt.Errorf("compute %q, want float32 or bf16", name)
}

// digest names what decides the bits: the file without the keys that do not, the
// data and the first weights.
func (r RunFile) digest(set data.Set) (string, error) {
	root, err := set.Digest()
	if err != nil {
		return "", err
	}
	r.Threads, r.MaxBytes, r.Output.Dir, r.Name, r.Data.Path, r.Data.Calibration = 0, 0, "", "", "", ""
	b, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	d := wire.Sum(append(b, root[:]...))
	return d.String(), nil
}

// length is the number of steps of so many samples.
func (r RunFile) length(set data.Set, samples int) (uint64, error) {
	if (r.Steps > 0) == (r.Epochs > 0) {
		return 0, fmt.Errorf("steps is %d and epochs is %v: give one of them", r.Steps, r.Epochs)
	}
	if r.Steps > 0 {
		return r.Steps, nil
	}
	n := r.Epochs * float64(set.Len(data.Train)) / float64(samples)
	return max(1, uint64(math.Ceil(min(n, 1<<40)))), nil
}

// measures fills in when and where is measured.
func (r RunFile) measures(t *Training, set data.Set) {
	part := func(every, parts uint64) uint64 {
		if every == 0 {
			every = max(1, t.Steps/parts)
		}
		return every
	}
	t.LogEvery = part(r.Output.Log, 100)
	whole := func(n uint64) uint64 { return (n + t.LogEvery - 1) / t.LogEvery * t.LogEvery }
	t.EvalEvery, t.SaveEvery = whole(part(r.Eval.Every, 20)), whole(part(r.Output.Every, 20))
	first := func(given string, names ...string) string {
		if given != "" {
			return given
		}
		for _, s := range names {
			if set.Len(s) > 0 {
				return s
			}
		}
		return data.Train
	}
	t.EvalSplit, t.EvalMost, t.KeepBest = first(r.Eval.Split, data.Valid), r.Eval.Samples, r.Eval.Keep == "best"
	t.Final = first(r.Eval.Final, data.Test, data.Valid)
	if r.Eval.Split == "" && set.Len(data.Valid) == 0 { // nothing to look at on the way
		t.EvalEvery = 0
	}
}

// TaskFile returns the run file of a task: mnist, digits of GoMNIST; or text, the
// sources of the go command.
func TaskFile(task string) (RunFile, bool) {
	r := RunFile{Schema: 1, Name: task, Seed: 1, Steps: 1000}
	switch task {
	case "mnist":
		r.Data.Format, r.Model.Name, r.Model.Dropout = "mnist", "convnet", 250
		r.Data.Crop, r.Data.Valid = 2, 0.05
		r.Optimizer = OptimizerSpec{LR: 1.5e-3, WeightDecay: 0.01, Batch: 64, Warmup: 30, Floor: 0.01}
	case "text":
		r.Data.Format, r.Model.Name = "sources", "gpt"
		r.Optimizer = OptimizerSpec{LR: 2e-3, WeightDecay: 0.1, Clip: 1, Batch: 8, Warmup: 30, Floor: 0.1}
		r.Eval.Samples = 200
	default:
		return r, false
	}
	return r, true
}
