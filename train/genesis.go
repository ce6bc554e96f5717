package train

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apiary-net/hived/train/data"
	"github.com/apiary-net/hived/train/nets"
	"github.com/apiary-net/hived/wire"
)

// formats are the data sets that a swarm may train on, by the name in its genesis,
// and what format their files have.
var formats = map[string]string{"mnist": "mnist", "text": "sources"}

// Tasks returns the names of the data sets that a swarm may train on.
func Tasks() []string { return slices.Sorted(maps.Keys(formats)) }

// DataOf says where the data of a run lie on this machine: in dir, or where the
// format finds them by itself. Their root decides whether they are the run's.
func DataOf(c wire.DataContract, dir string) (data.Spec, error) {
	f, ok := formats[c.Name]
	if !ok {
		return data.Spec{}, fmt.Errorf("data %q of a run is not one of %s", c.Name, strings.Join(Tasks(), ", "))
	}
	return data.Spec{Format: f, Path: dir}, nil
}

// OpenDataOf opens the data of a run.
func OpenDataOf(c wire.DataContract, dir string) (data.Set, error) {
	d, err := DataOf(c, dir)
	if err != nil {
		return nil, err
	}
	return data.Open(d)
}

// ModelOf returns the model of a run.
func ModelOf(m wire.ModelSpec) (nets.Spec, error) {
	sizes := map[string]int64{}
	for _, a := range m.Args {
		sizes[a.Key] = a.Value
	}
	return nets.SpecOf(m.Name, sizes)
}

// GenesisModel is the inverse of ModelOf.
func GenesisModel(m nets.Spec) wire.ModelSpec {
	out, sizes := wire.ModelSpec{Name: m.Name, Args: []wire.Arg{}}, m.Sizes()
	for _, k := range slices.Sorted(maps.Keys(sizes)) {
		out.Args = append(out.Args, wire.Arg{Key: k, Value: sizes[k]})
	}
	return out
}

// OptimizerOf returns the local optimizer of a run. What a genesis says counts as it
// stands: nothing has a default.
func OptimizerOf(in wire.Inner) OptimizerSpec {
	f := func(x float32) float64 { return float64(x) }
	return OptimizerSpec{Rule: in.Optimizer, LR: f(in.LR), Momentum: f(in.Momentum), Beta1: f(in.Beta1), Beta2: f(in.Beta2),
		Eps: f(in.Eps), WeightDecay: f(in.WeightDecay), Clip: f(in.Clip), Batch: int(in.Batch)}
}

// GenesisInner is the inverse of OptimizerOf.
func GenesisInner(o OptimizerSpec) wire.Inner {
	return wire.Inner{Optimizer: o.Rule, LR: float32(o.LR), Momentum: float32(o.Momentum), Beta1: float32(o.Beta1), Beta2: float32(o.Beta2),
		Eps: float32(o.Eps), WeightDecay: float32(o.WeightDecay), Clip: float32(o.Clip), Batch: uint32(o.Batch)}
}

// GenesisOuter makes an optimizer the outer step of a run whose peers exchange
// gradients.
func GenesisOuter(o OptimizerSpec) wire.Outer {
	in := GenesisInner(o)
	return wire.Outer{Rule: in.Optimizer, LR: in.LR, Momentum: in.Momentum, Beta1: in.Beta1, Beta2: in.Beta2,
		Eps: in.Eps, WeightDecay: in.WeightDecay, Clip: in.Clip}
}

// ConfigOf returns what a trainer of a run is made from.
func ConfigOf(g *wire.Genesis, set data.Set, threads int) (Config, error) {
	m, err := ModelOf(g.Model)
	return Config{Model: m, Data: set, Seed: g.Seed, Threads: threads, Optimizer: OptimizerOf(g.Preset.Inner)}, err
}
