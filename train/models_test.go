package train

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	ops "github.com/apiary-net/hived/tensorops"
	"github.com/apiary-net/hived/train/data"
	"github.com/apiary-net/hived/train/nets"
	"github.com/apiary-net/hived/wire"
)

// toy is a data set that any model can learn: the class shows in the first value,
// the target is the last one.
type toy struct {
	form data.Form
	n    int
}

func (d toy) Name() string                 { return "toy" }
func (d toy) Form() data.Form              { return d.form }
func (d toy) Digest() (wire.Digest, error) { return wire.Digest{}, nil }
func (d toy) Len(split string) int {
	if split == data.Train || split == data.Test {
		return d.n
	}
	return 0
}

func (d toy) Batch(_ string, idx []int, dst *data.Batch) error {
	n := d.form.Size()
	for k, i := range idx {
		for j := range n {
			h := data.Mix(uint64(i*n + j))
			switch {
			case d.form.Kind == "text":
				dst.Int[k*n+j], dst.Labels[k*n+j] = int32((i+j)%7), int32((i+j+1)%7)
			case d.form.Classes > 0:
				dst.Labels[k] = int32(i % 2)
				dst.Float[k*n+j] = float32(h>>40)/(1<<24) + float32(i%2)
			default:
				dst.Float[k*n+j] = float32(h>>40)/(1<<23) - 1
			}
		}
		for j := range len(dst.Targets) / max(1, len(dst.Targets)/d.form.Terms) {
			dst.Targets[k*d.form.Terms+j] = dst.Float[k*n+n-1]
		}
	}
	return nil
}

// TestModelsLearn trains each model, by presets and with each of its parts, for some
// steps: the loss falls.
// fitted is a model that reads data of a form.
func fitted(t *testing.T, name string, sizes map[string]int64, f data.Form) nets.Spec {
	t.Helper()
	m, err := nets.SpecOf(name, sizes)
	if err == nil {
		m, err = m.Fit(f)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestModelsLearn(t *testing.T) {
	image := data.Form{Kind: "image", Dims: []int{9, 8, 2}, Classes: 2, Terms: 1}
	text := data.Form{Kind: "text", Dims: []int{12}, Classes: 7, Terms: 12}
	line := data.Form{Kind: "series", Dims: []int{10, 3}, Terms: 2}
	for _, c := range []struct {
		model string
		args  map[string]int64
		form  data.Form
	}{
		{"mlp", map[string]int64{"hidden": 16, "dropout": 100}, image},
		{"mlp", map[string]int64{"layers": 1}, data.Form{Kind: "table", Dims: []int{5}, Classes: 2, Terms: 1}},
		{"convnet", map[string]int64{"filters": 4, "dense": 8, "dropout": 200}, image},
		{"resnet", map[string]int64{"filters": 4, "squeeze": 2}, image},
		{"resnet", map[string]int64{"filters": 4, "norm": 2, "groups": 2, "dropout": 100}, image},
		{"resnet", map[string]int64{"filters": 4, "depth": 18, "stem_stride": 2}, image},
		{"resnet", map[string]int64{"filters": 8, "cardinality": 4}, image},
		{"resnet", map[string]int64{"filters": 4, "attention": 2, "stem_pool": 2}, image},
		{"gpt", map[string]int64{"dim": 16, "heads": 2, "recompute": 1, "dropout": 50}, text},
		{"gpt", map[string]int64{"dim": 16, "heads": 2, "dropout": 50}, text},
		{"gpt", map[string]int64{"dim": 16, "heads": 4, "kv_heads": 2, "style": 2, "untied": 1}, text},
		{"seq", map[string]int64{"hidden": 8, "layers": 3}, line},
		{"seq", map[string]int64{"hidden": 8, "layers": 1, "cell": 2, "quantiles": 5, "dropout": 50}, line},
	} {
		cfg := Config{Model: fitted(t, c.model, c.args, c.form), Data: toy{c.form, 64}, Seed: 1, Threads: 1,
			Optimizer: OptimizerSpec{Rule: "adamw", LR: 5e-3, Beta1: 0.9, Beta2: 0.99, Eps: 1e-8, Batch: 16}}
		tr := mustNew(t, cfg)
		first := mustTrain(t, tr, Job{Spans: span(0, 64)})
		tr.Advance()
		last := first
		for i := range uint64(5) {
			last = mustTrain(t, tr, Job{Spans: span(64+64*i, 128+64*i)})
			tr.Advance()
		}
		if !(last.Loss < first.Loss) {
			t.Errorf("%s %v: loss %v, then %v", c.model, c.args, first.Loss, last.Loss)
		}
		params, buffers := tr.Reached()
		s, err := tr.Eval(context.Background(), params, buffers, data.Test, 0)
		if err != nil || s.Samples != 64 || !(s.Loss < 10) {
			t.Errorf("%s %v: %+v, %v", c.model, c.args, s, err)
		}
		out, err := tr.Predict(context.Background(), params, buffers, data.Test)
		if err != nil || len(out)%64 != 0 || len(out) == 0 {
			t.Errorf("%s %v: %d outputs, %v", c.model, c.args, len(out), err)
		}
	}
}

// writeDigits writes files of n digits for training and 2 for tests.
func writeDigits(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	for prefix, k := range map[string]int{"train": n, "t10k": 2} {
		images := binary.BigEndian.AppendUint32([]byte{0, 0, 8, 3}, uint32(k))
		images = append(images, 0, 0, 0, data.Side, 0, 0, 0, data.Side)
		labels := binary.BigEndian.AppendUint32([]byte{0, 0, 8, 1}, uint32(k))
		for i := range k {
			labels = append(labels, byte(i%10))
			for j := range data.Side * data.Side {
				images = append(images, byte(i*data.Side*data.Side+j))
			}
		}
		for name, b := range map[string][]byte{"-images-idx3-ubyte": images, "-labels-idx1-ubyte": labels} {
			if err := os.WriteFile(filepath.Join(dir, prefix+name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

func TestTaskFiles(t *testing.T) {
	for _, task := range []string{"mnist", "text"} {
		r, ok := TaskFile(task)
		if !ok || r.Name != task {
			t.Errorf("%s: %+v", task, r)
		}
		if task == "text" {
			continue // reads all sources
		}
		r.Data.Path = writeDigits(t, 300)
		tr, err := r.Open("")
		if err != nil {
			t.Fatal(err)
		}
		if tr.Steps != 1000 || tr.Final != data.Test || tr.EvalSplit != data.Valid || tr.EvalEvery != 50 || tr.SaveEvery != 50 || tr.LogEvery != 10 || len(tr.Run) != 64 {
			t.Errorf("%s: %+v", task, tr.Solo)
		}
		if n := tr.Data.Len(data.Train) + tr.Data.Len(data.Valid); n < 50 || tr.Data.Len(data.Valid) == 0 {
			t.Errorf("%s: %d samples", task, n)
		}
	}
	if _, ok := TaskFile("birds"); ok {
		t.Error("an unknown task is taken")
	}
}

func TestOptimizerSpec(t *testing.T) {
	for _, c := range []struct {
		o    OptimizerSpec
		want float64
	}{
		{OptimizerSpec{}, 1e-3}, {OptimizerSpec{LR: 0.1, Batch: 64, BaseBatch: 16, Scale: "linear"}, 0.4},
		{OptimizerSpec{LR: 0.1, Batch: 32, Accumulate: 2, BaseBatch: 16, Scale: "sqrt"}, 0.2},
	} {
		i, err := c.o.complete()
		if err != nil || math.Abs(i.LR-c.want) > 1e-6 || i.Decay != "cosine" || i.Rule != "adamw" {
			t.Errorf("%+v: %+v, %v", c.o, i, err)
		}
	}
	if _, err := (OptimizerSpec{Scale: "linear"}).complete(); err == nil {
		t.Error("a scale without a base is taken")
	}
}

// TestPartialBatch ends an epoch inside a batch: what fills it up is no part of a
// batch norm's statistics.
func TestPartialBatch(t *testing.T) {
	form := data.Form{Kind: "image", Dims: []int{7, 6, 2}, Classes: 2, Terms: 1}
	run := func(batch int) []float32 {
		tr := mustNew(t, Config{Model: fitted(t, "resnet", map[string]int64{"filters": 4}, form), Data: toy{form, 30}, Seed: 1, Threads: 1,
			Optimizer: OptimizerSpec{Rule: "sgd", LR: 1e-3, Batch: batch}})
		return slices.Clone(mustTrain(t, tr, Job{Spans: span(0, 3)}).Buffers)
	}
	whole, partial := run(3), run(16)
	for i, want := range whole {
		if !(math.Abs(float64(partial[i]-want)) <= 1e-4*(math.Abs(float64(want))+0.01)) {
			t.Fatalf("statistic %d of %d is %v, want %v", i, len(whole), partial[i], want)
		}
	}
}

// TestOptimizers trains a small GPT with each optimizer that a run file may name:
// the loss falls by a third at least. Muon with a boost ends elsewhere than without,
// and needs memory beside the plan, which the bound counts.
func TestOptimizers(t *testing.T) {
	form := data.Form{Kind: "text", Dims: []int{12}, Classes: 7, Terms: 12}
	train := func(o OptimizerSpec, bound int64) (first, last float32, peak int64, err error) {
		i, err := o.complete()
		if err != nil {
			t.Fatal(err)
		}
		i.Decay = ""
		tr, err := New(Config{Model: fitted(t, "gpt", map[string]int64{"dim": 16, "heads": 2}, form), Data: toy{form, 64}, Seed: 1, Threads: 1, Optimizer: i, MaxBytes: bound})
		if err != nil {
			return 0, 0, 0, err
		}
		defer tr.Close()
		for e := range uint64(8) {
			u := mustTrain(t, tr, Job{Spans: span(64*e, 64*e+64)})
			tr.Advance()
			if e == 0 {
				first = u.Loss
			}
			last = u.Loss
		}
		return first, last, tr.Peak(), nil
	}
	if got := Optimizers(); !slices.Equal(got, []string{"adamw", "lamb", "muon", "sgd"}) {
		t.Errorf("optimizers %v", got)
	}
	var plan int64
	for _, o := range []OptimizerSpec{{LR: 0.01}, {Rule: "sgd", LR: 0.5, Momentum: 0.9}, {Rule: "lamb", LR: 0.05}, {Rule: "muon", LR: 0.01}} {
		o.Batch, o.Clip = 16, 1
		first, last, peak, err := train(o, 0)
		if err != nil || !(last < first*2/3) {
			t.Errorf("%s: loss %v, then %v, %v", o.Rule, first, last, err)
		}
		switch {
		case o.Rule == "":
			plan = peak
		case o.Rule == "sgd" && peak != plan, o.Rule == "muon" && peak <= plan:
			t.Errorf("%s takes %d bytes, adamw %d", o.Rule, peak, plan)
		}
		if o.Rule != "muon" {
			continue
		}
		if _, _, less, err := train(o, peak-1); !errors.Is(err, ops.ErrMemory) && !(err == nil && less < peak) {
			t.Errorf("bound %d: %d bytes, %v", peak-1, less, err)
		}
		o.Boost = 2
		if _, boosted, _, err := train(o, peak); err != nil || boosted == last {
			t.Errorf("boost: loss %v and %v, %v", last, boosted, err)
		}
	}
	for _, i := range []OptimizerSpec{{Rule: "lion"}, {Rule: "adamw", Boost: 2}, {Rule: "muon", Boost: 101}, {Rule: "lamb"}} {
		i.LR, i.Batch = 0.1, 4
		if i.Rule != "lamb" { // that one lacks epsilon
			i.Eps = 1e-8
		}
		if err := i.Validate(); err == nil {
			t.Errorf("%+v is taken", i)
		}
	}
}

// TestModelBits trains with one, two and three threads and on the reference: each
// model's updates and buffers have the same bits.
func TestModelBits(t *testing.T) {
	image := data.Form{Kind: "image", Dims: []int{7, 6, 2}, Classes: 2, Terms: 1}
	for _, c := range []struct {
		model string
		args  map[string]int64
		form  data.Form
	}{
		{"resnet", map[string]int64{"filters": 4, "squeeze": 2, "dropout": 100}, image},
		{"resnet", map[string]int64{"filters": 4, "norm": 2}, image},
		{"resnet", map[string]int64{"filters": 4}, image},
		{"gpt", map[string]int64{"dim": 16, "heads": 4, "kv_heads": 2, "style": 2, "dropout": 100}, data.Form{Kind: "text", Dims: []int{9}, Classes: 7, Terms: 9}},
		{"seq", map[string]int64{"hidden": 5, "layers": 2}, data.Form{Kind: "series", Dims: []int{6, 3}, Terms: 2}},
		{"seq", map[string]int64{"hidden": 5, "layers": 1, "cell": 2}, data.Form{Kind: "series", Dims: []int{6, 3}, Terms: 2}},
	} {
		run := func(d ops.Device, threads int) Update {
			tr := mustNew(t, Config{Model: fitted(t, c.model, c.args, c.form), Data: toy{c.form, 30}, Seed: 1, Threads: threads, Device: d,
				Optimizer: OptimizerSpec{Rule: "adamw", LR: 5e-3, Beta1: 0.9, Beta2: 0.99, Eps: 1e-8, Batch: 6, Clip: 1}})
			u := mustTrain(t, tr, Job{Spans: span(0, 18)})
			u.Buffers = slices.Clone(u.Buffers)
			return u
		}
		want := run(ops.Reference(), 1)
		for threads := 1; threads <= 3; threads++ {
			if got := run(ops.CPU(), threads); !same(got.Delta, want.Delta) || !same(got.Buffers, want.Buffers) || got.Loss != want.Loss {
				t.Errorf("%s %v with %d threads: loss %v, want %v", c.model, c.args, threads, got.Loss, want.Loss)
			}
		}
	}
	ops.SetThreads(1)
}

// TestRecompute compares layers that are computed again with layers that are kept:
// the same bits in less memory.
func TestRecompute(t *testing.T) {
	for _, style := range []int64{1, 2} {
		var want Update
		var peak int64
		for again := range int64(2) {
			c := small()
			c.Model = nets.Spec{Name: "gpt", Layers: 4, Dim: 16, Heads: 2, Context: 8, Style: style, Dropout: 100, Again: again}
			tr := mustNew(t, c)
			got := mustTrain(t, tr, Job{Spans: span(0, 12)})
			if again == 0 {
				want, peak = got, tr.Peak()
			} else if !same(got.Delta, want.Delta) || got.Loss != want.Loss || tr.Peak() >= peak {
				t.Errorf("style %d: loss %v, want %v; %d bytes, %d where layers are kept", style, got.Loss, want.Loss, tr.Peak(), peak)
			}
		}
	}
}

// TestBF16 trains with linear layers in bfloat16: near float32, and not the same.
func TestBF16(t *testing.T) {
	c := small()
	want := mustTrain(t, mustNew(t, c), Job{Spans: span(0, 16)})
	c.Compute = ops.BF16
	got := mustTrain(t, mustNew(t, c), Job{Spans: span(0, 16)})
	if d := math.Abs(float64(got.Loss - want.Loss)); d == 0 || d > 0.05 {
		t.Errorf("loss %v in bfloat16, %v in float32", got.Loss, want.Loss)
	}
}
