package train

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/apiary-net/hived/train/nets"
	"github.com/apiary-net/hived/wire"
)

// TestGenesisSaysWhatASpecSays puts specs into a genesis and takes them out again:
// nothing is lost, and nothing that a genesis leaves at zero becomes a default.
func TestGenesisSaysWhatASpecSays(t *testing.T) {
	m := nets.Spec{Name: "gpt", Layers: 2, Dim: 16, Heads: 2, Dropout: 100}
	w := GenesisModel(m)
	if want := []string{"dim", "dropout", "heads", "layers"}; len(w.Args) != 4 || w.Args[0].Key != want[0] || w.Args[3].Key != want[3] || w.Args[3].Value != 2 {
		t.Errorf("%+v, want the sizes %v in order", w, want)
	}
	if back, err := ModelOf(w); err != nil || back != m {
		t.Errorf("%+v, %v", back, err)
	}
	if w := GenesisModel(nets.Spec{Name: "convnet"}); w.Args == nil || len(w.Args) != 0 {
		t.Errorf("a model without sizes has %v, want an empty list", w.Args)
	}
	in := wire.Inner{Optimizer: "adamw", LR: 0.1, Momentum: 0.2, Beta1: 0.3, Beta2: 0.4, Eps: 1e-8, WeightDecay: 0.5, Clip: 0.6, Batch: 7}
	for _, in := range []wire.Inner{in, {Optimizer: "adamw", LR: 0.1, Eps: 1e-8, Batch: 1}, {Optimizer: "sgd"}} {
		if got := GenesisInner(OptimizerOf(in)); got != in {
			t.Errorf("%+v, want %+v", got, in)
		}
	}
	o := OptimizerOf(in).rule()
	if o.Beta1 != in.Beta1 || o.Beta2 != in.Beta2 || o.Eps != in.Eps || o.WeightDecay != in.WeightDecay || o.Clip != in.Clip {
		t.Errorf("%+v of %+v", o, in)
	}
	outer := reflect.ValueOf(GenesisOuter(OptimizerOf(in)))
	for i := range outer.NumField() {
		if outer.Type().Field(i).Name != "_" && outer.Field(i).IsZero() {
			t.Errorf("the outer rule lacks %s", outer.Type().Field(i).Name)
		}
	}
}

func TestGenesisRefusals(t *testing.T) {
	if _, err := ModelOf(wire.ModelSpec{Name: "gpt", Args: []wire.Arg{{Key: "wings", Value: 4}}}); err == nil || !strings.Contains(err.Error(), "wings") {
		t.Errorf("a size that no model has: %v", err)
	}
	if _, err := OpenDataOf(wire.DataContract{Name: "csv"}, "/"); err == nil || !strings.Contains(err.Error(), "mnist, text") {
		t.Errorf("a format that no swarm reads: %v", err)
	}
}

// TestEveryOptimizerTrainsARun takes each optimizer by a genesis and makes steps that
// change the parameters and lower the loss.
func TestEveryOptimizerTrainsARun(t *testing.T) {
	for _, name := range Optimizers() {
		c := small()
		g := wire.Genesis{Model: GenesisModel(c.Model), Seed: c.Seed}
		g.Preset.Inner = wire.Inner{Optimizer: name, LR: 2e-3, Momentum: 0.9, Beta1: 0.9, Beta2: 0.99, Eps: 1e-8, Batch: 16}
		cfg, err := ConfigOf(&g, c.Data, 1)
		if err != nil {
			t.Fatal(err)
		}
		tr := mustNew(t, cfg)
		params, buffers := tr.Init()
		if err := tr.Load(t.Context(), params, buffers); err != nil {
			t.Fatal(err)
		}
		first := mustTrain(t, tr, Job{Round: 1, Spans: span(0, 16*4), Batch: 16, LRScale: 1})
		moved := slices.ContainsFunc(first.Delta, func(d float32) bool { return d != 0 })
		later := mustTrain(t, tr, Job{Round: 2, Spans: span(16*4, 16*44), Batch: 16, LRScale: 1})
		if !moved || !(later.Loss < first.Loss) {
			t.Errorf("%s: loss %v, then %v", name, first.Loss, later.Loss)
		}
	}
}
