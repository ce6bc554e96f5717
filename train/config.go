package train

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	ops "github.com/apiary-net/hived/tensorops"
	"github.com/apiary-net/hived/tensorops/num"
	"github.com/apiary-net/hived/train/data"
	"github.com/apiary-net/hived/train/nets"
)

// Config of a Trainer.
type Config struct {
	// Model is what is trained; sizes of 0 are the model's defaults.
	Model nets.Spec
	// Data is what positions mean; its kind must be the model's.
	Data data.Set
	// Inner is the optimizer of local steps.
	Inner Inner
	// Seed chooses start values and the order of samples.
	Seed uint64
	// Threads of the CPU device, 1 to 256; 0 leaves the process's setting.
	Threads int
	// Device computes; nil is the CPU.
	Device ops.Device
	// Compute is F32, or BF16 for the products of linear layers and attention in
	// training.
	Compute ops.DType
	// MaxBytes bounds the memory of a plan; 0 is no bound.
	MaxBytes int64
	// Stepped, if set, is called after each local step and each Gradient, by the
	// goroutine that the trainer belongs to. A trainer goes on when it returns.
	Stepped func(context.Context)
}

// Inner is the optimizer of local steps.
type Inner struct {
	Optimizer    string  // one of Optimizers
	LR           float32 // > 0; a job may scale it
	Beta1, Beta2 float32 // all but sgd, in [0, 1)
	Momentum     float32 // sgd, and muon's hidden matrices, in [0, 1)
	Boost        float32 // muon: rate of hidden matrices over LR, 0 (as 1) to 100
	Eps          float32 // all but sgd, > 0
	WeightDecay  float32 // of matrices; >= 0
	Clip         float32 // bound of the mean gradient's norm; 0 is none
	Batch        int     // samples of a step, 1 to 65,536
	Accumulate   int     // batches of a step whose gradients are added, 0 (as 1) to 1,024
	Schedule     Schedule
	// Rates multiply the learning rate of parameters whose names start with a key;
	// the longest key counts. 0 freezes them. Factors are 0 to 100.
	Rates map[string]float32
}

// Optimizers returns the names that Inner.Optimizer may have: adamw, sgd, lamb, and
// muon, which takes orthogonal steps for hidden matrices and adamw's for the rest.
func Optimizers() []string { return slices.Sorted(maps.Keys(rules)) }

// KnownOptimizer refuses a name that Optimizers does not have.
func KnownOptimizer(name string) error {
	if _, ok := rules[name]; !ok {
		return fmt.Errorf("inner optimizer %q is not one of %s", name, strings.Join(Optimizers(), ", "))
	}
	return nil
}

var rules = map[string]ops.Rule{"adamw": ops.AdamW, "sgd": ops.SGD, "lamb": ops.LAMB, "muon": ops.Muon}

// factors returns the multiple of the rate of each parameter, nil where all are 1.
func (i Inner) factors(params []ops.Param) ([]float32, error) {
	if len(i.Rates) == 0 {
		return nil, nil
	}
	out, used := make([]float32, len(params)), map[string]bool{}
	for k, p := range params {
		best := ""
		out[k] = 1
		for prefix, f := range i.Rates {
			if strings.HasPrefix(p.Name, prefix) && len(prefix) >= len(best) {
				best, out[k] = prefix, f
			}
		}
		used[best] = true
	}
	for _, prefix := range slices.Sorted(maps.Keys(i.Rates)) {
		if f := i.Rates[prefix]; !(f >= 0 && f <= 100) {
			return nil, fmt.Errorf("rate of %q times %v, want 0 to 100", prefix, f)
		}
		if !used[prefix] {
			return nil, fmt.Errorf("rate of %q: no parameter's name starts so, the first is %q", prefix, params[0].Name)
		}
	}
	return out, nil
}

// Schedule is how the learning rate changes with the updates. The zero Schedule
// is constant after a warm-up of 30 updates (none with sgd).
type Schedule struct {
	Decay  string  // empty or constant, linear, cosine
	Warmup uint64  // updates over which the rate rises from 0
	Total  uint64  // updates at whose end the rate has fallen to Floor times its peak
	Floor  float64 // in [0, 1]
}

// Validate checks s.
func (s Schedule) Validate() error {
	switch {
	case !slices.Contains([]string{"", "constant", "linear", "cosine"}, s.Decay):
		return fmt.Errorf("schedule decay %q, want constant, linear or cosine", s.Decay)
	case !(s.Floor >= 0 && s.Floor <= 1):
		return fmt.Errorf("schedule floor %v, want 0 to 1", s.Floor)
	case (s.Decay == "linear" || s.Decay == "cosine") && s.Total <= s.Warmup:
		return fmt.Errorf("schedule of %d updates with a warm-up of %d", s.Total, s.Warmup)
	}
	return nil
}

// factor of the peak rate at update number step, from 1: float64 without fusing,
// rounded once.
func (s Schedule) factor(step uint64) float32 {
	if step < s.Warmup {
		return float32(float64(step) / float64(s.Warmup))
	}
	switch s.Decay {
	case "cosine":
		return num.Cosine(step-s.Warmup, s.Total-s.Warmup, s.Floor)
	case "linear":
		left := 1 - float64(min(step, s.Total)-s.Warmup)/float64(s.Total-s.Warmup)
		return float32(s.Floor + float64((1-s.Floor)*left))
	}
	return 1
}

const maxBatch = 1 << 16

// Validate checks c.
func (c Config) Validate() error {
	m, err := nets.New(c.Model)
	if err != nil {
		return err
	}
	if c.Data == nil {
		return errors.New("train without data")
	}
	if err := nets.Fits(m.Form(), c.Data.Form()); err != nil {
		return fmt.Errorf("model %s does not fit data set %s: %w", c.Model.Name, c.Data.Name(), err)
	}
	if c.Data.Len(data.Train) == 0 {
		return fmt.Errorf("data set %s has no samples to train on", c.Data.Name())
	}
	if c.Threads < 0 || c.Threads > 256 {
		return fmt.Errorf("threads %d, want 0 to 256", c.Threads)
	}
	return c.Inner.Validate()
}

// Validate checks i.
func (i Inner) Validate() error {
	unit := func(f float32) bool { return f >= 0 && f < 1 }
	if err := KnownOptimizer(i.Optimizer); err != nil {
		return err
	}
	switch {
	case !(i.LR > 0 && i.LR <= 10):
		return fmt.Errorf("inner learning rate %v, want above 0 to 10", i.LR)
	case !unit(i.Beta1) || !unit(i.Beta2) || !unit(i.Momentum):
		return fmt.Errorf("inner decays %v, %v, momentum %v, want 0 to below 1", i.Beta1, i.Beta2, i.Momentum)
	case i.Boost != 0 && (i.Optimizer != "muon" || !(i.Boost > 0 && i.Boost <= 100)):
		return fmt.Errorf("inner boost %v of %s, want 0 to 100 and muon", i.Boost, i.Optimizer)
	case i.Optimizer != "sgd" && !(i.Eps > 0 && i.Eps < 1):
		return fmt.Errorf("inner epsilon %v, want above 0 to below 1", i.Eps)
	case !(i.WeightDecay >= 0 && i.WeightDecay <= 10) || !(i.Clip >= 0 && i.Clip <= 1e6):
		return fmt.Errorf("inner weight decay %v, clip %v, want 0 to 10 and 0 to 1e6", i.WeightDecay, i.Clip)
	case i.Batch < 1 || i.Batch > maxBatch:
		return fmt.Errorf("inner batch %d, want 1 to %d", i.Batch, maxBatch)
	case i.Accumulate < 0 || i.Accumulate > 1024:
		return fmt.Errorf("inner accumulation of %d batches, want 0 to 1024", i.Accumulate)
	}
	return i.Schedule.Validate()
}

// warmup is the number of updates of all but sgd, from zero moments on, over which the rate
// rises linearly: the first moments say little, and a peer that joins late must
// not jump.
const warmup = 30

// rate returns the learning rate of update number step, from 1.
func (i Inner) rate(step uint64, scale float32) float32 {
	lr := i.LR
	if scale != 0 {
		lr = float32(lr * scale)
	}
	if i.Schedule != (Schedule{}) {
		return float32(lr * i.Schedule.factor(step))
	}
	if i.Optimizer != "sgd" && step < warmup {
		lr = float32(lr * (float32(step) / warmup))
	}
	return lr
}

// optimizer translates i.
func (i Inner) optimizer() ops.Optimizer {
	o := ops.Optimizer{Rule: rules[i.Optimizer], Beta1: i.Beta1, Beta2: i.Beta2, Eps: i.Eps, WeightDecay: i.WeightDecay, Clip: i.Clip}
	switch o.Rule {
	case ops.SGD:
		o.Beta1, o.Beta2, o.Eps = i.Momentum, 0, 0
	case ops.Muon:
		o.Momentum, o.Boost = i.Momentum, i.Boost
		if o.Boost == 0 {
			o.Boost = 1
		}
	}
	return o
}

// Default returns the tuned configuration of a task, mnist or text, without data.
// It panics for another task; Open tells of those first.
func Default(task string) Config {
	switch task {
	case "mnist":
		return Config{Model: nets.Spec{Name: "convnet"},
			Inner: Inner{Optimizer: "adamw", LR: 1.5e-3, Beta1: 0.9, Beta2: 0.99, Eps: 1e-8, WeightDecay: 0.01, Batch: 64}}
	case "text":
		return Config{Model: nets.Spec{Name: "gpt", Layers: 2, Dim: 128, Heads: 4, Context: 128},
			Inner: Inner{Optimizer: "adamw", LR: 2e-3, Beta1: 0.9, Beta2: 0.99, Eps: 1e-8, WeightDecay: 0.1, Clip: 1, Batch: 8}}
	}
	panic("train: no default for task " + task)
}
