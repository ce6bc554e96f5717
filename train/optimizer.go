package train

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	ops "github.com/apiary-net/hived/tensorops"
	"github.com/apiary-net/hived/tensorops/num"
)

// OptimizerSpec is the optimizer of local steps and its schedule: the one description
// of it, of a swarm and of one machine. In a run file the zero of a key is its
// default; a trainer takes every value as it stands.
type OptimizerSpec struct {
	Rule        string  `toml:"rule" comment:"adamw, sgd, lamb, or muon (hidden matrices; adamw for the rest); default adamw"`
	LR          float64 `toml:"lr" comment:"peak learning rate"`
	Beta1       float64 `toml:"beta1" comment:"default 0.9"`
	Beta2       float64 `toml:"beta2" comment:"default 0.99"`
	Momentum    float64 `toml:"momentum" comment:"of sgd, and of muon's matrices; default of muon 0.95"`
	Boost       float64 `json:",omitempty" toml:"boost" comment:"muon: rate of hidden matrices over lr; default 1"`
	Eps         float64 `toml:"eps" comment:"default 1e-8"`
	WeightDecay float64 `toml:"weight_decay"`
	Clip        float64 `toml:"clip" comment:"bound of the gradient's norm"`
	Batch       int     `toml:"batch" comment:"samples that are computed together; default 64"`
	Accumulate  int     `toml:"accumulate" comment:"batches of one step"`
	Warmup      uint64  `toml:"warmup" comment:"steps"`
	Decay       string  `toml:"decay" comment:"constant, linear or cosine; default cosine"`
	Floor       float64 `toml:"floor" comment:"last rate over the peak rate"`
	Scale       string  `toml:"scale" comment:"linear or sqrt: the rate is for base_batch samples a step and grows with them"`
	BaseBatch   int     `toml:"base_batch"`
	// Rates are layer-wise.
	Rates map[string]float64 `toml:"rates" comment:"factors of the rate of parameters whose names start so, as {\"wte\" = 0.5}; the longest counts"`
	// Total is the update at whose end the rate has fallen to Floor times its peak:
	// the length of a training on one machine.
	Total uint64 `json:"-" toml:"-"`
}

var rules = map[string]ops.Rule{"adamw": ops.AdamW, "sgd": ops.SGD, "lamb": ops.LAMB, "muon": ops.Muon}

// Optimizers returns the names that OptimizerSpec.Rule may have.
func Optimizers() []string { return slices.Sorted(maps.Keys(rules)) }

// KnownOptimizer refuses a name that Optimizers does not have.
func KnownOptimizer(name string) error {
	if _, ok := rules[name]; !ok {
		return fmt.Errorf("inner optimizer %q is not one of %s", name, strings.Join(Optimizers(), ", "))
	}
	return nil
}

// complete returns o with the defaults of a run file.
func (o OptimizerSpec) complete() (OptimizerSpec, error) {
	o.Rule, o.Decay = cmp.Or(o.Rule, "adamw"), cmp.Or(o.Decay, "cosine")
	o.LR, o.Beta1, o.Beta2, o.Eps = cmp.Or(o.LR, 1e-3), cmp.Or(o.Beta1, 0.9), cmp.Or(o.Beta2, 0.99), cmp.Or(o.Eps, 1e-8)
	o.Batch = cmp.Or(o.Batch, 64)
	if o.Rule == "muon" { // Jordan et al. 2024
		o.Momentum = cmp.Or(o.Momentum, 0.95)
	}
	if o.Scale == "" {
		return o, nil
	}
	if o.BaseBatch < 1 || o.Scale != "linear" && o.Scale != "sqrt" {
		return o, fmt.Errorf("optimizer: scale %q with base_batch %d, want linear or sqrt and at least 1", o.Scale, o.BaseBatch)
	}
	f := float64(o.samples()) / float64(o.BaseBatch)
	if o.Scale == "sqrt" {
		f = math.Sqrt(f)
	}
	o.LR = float64(float32(o.LR)) * f
	return o, nil
}

// samples are those of one step.
func (o OptimizerSpec) samples() int { return o.Batch * max(1, o.Accumulate) }

const maxBatch = 1 << 16

// Validate checks o as a trainer takes it. Values count as float32.
func (o OptimizerSpec) Validate() error {
	within := func(f, most float64) bool { return float32(f) >= 0 && f <= most }
	unit := func(f float64) bool { return float32(f) >= 0 && float32(f) < 1 }
	if err := KnownOptimizer(o.Rule); err != nil {
		return err
	}
	switch {
	case !(float32(o.LR) > 0 && o.LR <= 10):
		return fmt.Errorf("inner learning rate %v, want above 0 to 10", o.LR)
	case !unit(o.Beta1) || !unit(o.Beta2) || !unit(o.Momentum):
		return fmt.Errorf("inner decays %v, %v, momentum %v, want 0 to below 1", o.Beta1, o.Beta2, o.Momentum)
	case o.Boost != 0 && (o.Rule != "muon" || !within(o.Boost, 100)):
		return fmt.Errorf("inner boost %v of %s, want 0 to 100 and muon", o.Boost, o.Rule)
	case o.Rule != "sgd" && !(float32(o.Eps) > 0 && float32(o.Eps) < 1):
		return fmt.Errorf("inner epsilon %v, want above 0 to below 1", o.Eps)
	case !within(o.WeightDecay, 10) || !within(o.Clip, 1e6):
		return fmt.Errorf("inner weight decay %v, clip %v, want 0 to 10 and 0 to 1e6", o.WeightDecay, o.Clip)
	case o.Batch < 1 || o.Batch > maxBatch:
		return fmt.Errorf("inner batch %d, want 1 to %d", o.Batch, maxBatch)
	case o.Accumulate < 0 || o.Accumulate > 1024:
		return fmt.Errorf("inner accumulation of %d batches, want 0 to 1024", o.Accumulate)
	case !slices.Contains([]string{"", "constant", "linear", "cosine"}, o.Decay):
		return fmt.Errorf("schedule decay %q, want constant, linear or cosine", o.Decay)
	case !within(o.Floor, 1):
		return fmt.Errorf("schedule floor %v, want 0 to 1", o.Floor)
	case (o.Decay == "linear" || o.Decay == "cosine") && o.Total <= o.Warmup:
		return fmt.Errorf("schedule of %d updates with a warm-up of %d", o.Total, o.Warmup)
	}
	return nil
}

// warmup is the number of updates of all but sgd, from zero moments on, over which the rate
// rises linearly: the first moments say little, and a peer that joins late must
// not jump.
const warmup = 30

// rate returns the learning rate of update number step, from 1. Without a schedule it
// is constant after a warm-up.
func (o OptimizerSpec) rate(step uint64, scale float32) float32 {
	lr := float32(o.LR)
	if scale != 0 {
		lr = float32(lr * scale)
	}
	if o.Decay != "" || o.Warmup > 0 || o.Total > 0 || o.Floor > 0 {
		return float32(lr * o.factor(step))
	}
	if o.Rule != "sgd" && step < warmup {
		lr = float32(lr * (float32(step) / warmup))
	}
	return lr
}

// factor of the peak rate at update number step, from 1: float64 without fusing,
// rounded once.
func (o OptimizerSpec) factor(step uint64) float32 {
	if step < o.Warmup {
		return float32(float64(step) / float64(o.Warmup))
	}
	switch o.Decay {
	case "cosine":
		return num.Cosine(step-o.Warmup, o.Total-o.Warmup, o.Floor)
	case "linear":
		left := 1 - float64(min(step, o.Total)-o.Warmup)/float64(o.Total-o.Warmup)
		return float32(o.Floor + float64((1-o.Floor)*left))
	}
	return 1
}

// factors returns the multiple of the rate of each parameter, nil where all are 1.
func (o OptimizerSpec) factors(params []ops.Param) ([]float32, error) {
	if len(o.Rates) == 0 {
		return nil, nil
	}
	out, used := make([]float32, len(params)), map[string]bool{}
	for k, p := range params {
		best := ""
		out[k] = 1
		for prefix, f := range o.Rates {
			if strings.HasPrefix(p.Name, prefix) && len(prefix) >= len(best) {
				best, out[k] = prefix, float32(f)
			}
		}
		used[best] = true
	}
	for _, prefix := range slices.Sorted(maps.Keys(o.Rates)) {
		if f := o.Rates[prefix]; !(f >= 0 && f <= 100) {
			return nil, fmt.Errorf("rate of %q times %v, want 0 to 100", prefix, f)
		}
		if !used[prefix] {
			return nil, fmt.Errorf("rate of %q: no parameter's name starts so, the first is %q", prefix, params[0].Name)
		}
	}
	return out, nil
}

// rule returns what a session's update takes.
func (o OptimizerSpec) rule() ops.Optimizer {
	f := func(x float64) float32 { return float32(x) }
	r := ops.Optimizer{Rule: rules[o.Rule], Beta1: f(o.Beta1), Beta2: f(o.Beta2), Eps: f(o.Eps), WeightDecay: f(o.WeightDecay), Clip: f(o.Clip)}
	switch r.Rule {
	case ops.SGD:
		r.Beta1, r.Beta2, r.Eps = f(o.Momentum), 0, 0
	case ops.Muon:
		r.Momentum, r.Boost = f(o.Momentum), f(cmp.Or(o.Boost, 1))
	}
	return r
}
