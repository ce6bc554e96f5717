package train

import (
	"context"
	"math"
	"slices"
	"testing"

	ops "github.com/apiary-net/hived/tensorops"
	"github.com/apiary-net/hived/train/data"
	"github.com/apiary-net/hived/train/nets"
	"github.com/apiary-net/hived/wire"
)

// small returns a gpt small enough for the plain Go reference.
func small() Config {
	c := Default("text")
	c.Model = nets.Spec{Name: "gpt", Layers: 2, Dim: 16, Heads: 2, Context: 8}
	c.Data = noise{"text", 8, 50}
	c.Optimizer.Batch = 4
	c.Seed = 7
	return c
}

func mustNew(t testing.TB, c Config) *Trainer {
	t.Helper()
	tr, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	return tr
}

func mustTrain(t testing.TB, tr *Trainer, j Job) Update {
	t.Helper()
	u, err := tr.Train(context.Background(), j)
	if err != nil {
		t.Fatal(err)
	}
	u.Delta = slices.Clone(u.Delta)
	return u
}

func bitsOf(x []float32) []uint32 {
	b := make([]uint32, len(x))
	for i, f := range x {
		b[i] = math.Float32bits(f)
	}
	return b
}

func same(a, b []float32) bool { return slices.Equal(bitsOf(a), bitsOf(b)) }

func span(lo, hi uint64) []wire.Span { return []wire.Span{{Lo: lo, Hi: hi}} }

// TestDevicesAgree trains on the reference and on the CPU device.
func TestDevicesAgree(t *testing.T) {
	run := func(d ops.Device, threads int) (Update, wire.Digest) {
		c := small()
		c.Device, c.Threads = d, threads
		tr := mustNew(t, c)
		u := mustTrain(t, tr, Job{Spans: span(3, 14)})
		return u, tr.StateDigest()
	}
	want, wantState := run(ops.Reference(), 0)
	if want.Steps != 3 || want.Used != 11 || !(want.Loss > 4 && want.Loss < 7) {
		t.Fatalf("reference made %d steps, %d samples, loss %v", want.Steps, want.Used, want.Loss)
	}
	for threads := 1; threads <= 3; threads++ {
		got, state := run(ops.CPU(), threads)
		if !same(got.Delta, want.Delta) || got.Loss != want.Loss || state != wantState {
			t.Errorf("%d threads: loss %v, want %v; states equal: %v", threads, got.Loss, want.Loss, state == wantState)
		}
	}
	ops.SetThreads(1)
}

// TestSpansCompose checks that two jobs, the second loaded where the first ended,
// are one job, and that the moments stay over Load.
func TestSpansCompose(t *testing.T) {
	whole := mustTrain(t, mustNew(t, small()), Job{Spans: span(0, 24)})
	tr := mustNew(t, small())
	theta, buffers := tr.Init()
	start := slices.Clone(theta)
	steps := 0
	for _, s := range [][]wire.Span{{{Lo: 0, Hi: 5}, {Lo: 5, Hi: 5}, {Lo: 5, Hi: 8}}, span(8, 24)} {
		if err := tr.Load(context.Background(), theta, buffers); err != nil {
			t.Fatal(err)
		}
		u := mustTrain(t, tr, Job{Spans: s})
		if u.Used != wire.SpanLen(s) {
			t.Fatalf("used %d of %v", u.Used, s)
		}
		steps += u.Steps
		copy(theta, tr.theta)
	}
	if steps != whole.Steps {
		t.Fatalf("%d steps in two jobs, %d in one", steps, whole.Steps)
	}
	for i := range theta {
		if start[i]-theta[i] != whole.Delta[i] {
			t.Fatalf("parameter %d: two jobs %v, one job %v", i, start[i]-theta[i], whole.Delta[i])
		}
	}
}

func TestJobLimits(t *testing.T) {
	tr := mustNew(t, small())
	if u := mustTrain(t, tr, Job{Spans: span(0, 40), MaxSteps: 2}); u.Steps != 2 || u.Used != 8 {
		t.Errorf("two steps at most: %d steps, %d used", u.Steps, u.Used)
	}
	if u := mustTrain(t, tr, Job{Spans: span(0, 40), Batch: 7, MaxSteps: 1}); u.Used != 7 {
		t.Errorf("batch of 7: %d used", u.Used)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	u, err := tr.Train(ctx, Job{Spans: span(0, 40)})
	if err != nil || u.Steps != 0 || u.Used != 0 || u.Loss != 0 {
		t.Errorf("ended context: %+v, %v", u, err)
	}
	for _, d := range u.Delta {
		if d != 0 {
			t.Fatal("ended context: the update is not zero")
		}
	}
	for _, j := range []Job{{Spans: []wire.Span{{Lo: 2, Hi: 1}}}, {Spans: span(0, 1<<63)}, {Batch: -1}, {Batch: maxBatch + 1}, {LRScale: float32(math.NaN())}} {
		if _, err := tr.Train(context.Background(), j); err == nil {
			t.Errorf("job %+v is accepted", j)
		}
	}
}

// stopping ends a context when its samples are read the second time.
type stopping struct {
	noise
	cancel context.CancelFunc
	reads  *int
}

func (s stopping) Batch(split string, idx []int, dst *data.Batch) error {
	if *s.reads++; *s.reads == 2 {
		s.cancel()
	}
	return s.noise.Batch(split, idx, dst)
}

// TestStopsBetweenSteps ends the context inside the second step: the update is
// that of two whole steps.
func TestStopsBetweenSteps(t *testing.T) {
	want := mustTrain(t, mustNew(t, small()), Job{Spans: span(0, 8)})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c, reads := small(), 0
	c.Data = stopping{c.Data.(noise), cancel, &reads}
	u, err := mustNew(t, c).Train(ctx, Job{Spans: span(0, 40)})
	if err != nil || u.Steps != 2 || u.Used != 8 || !same(u.Delta, want.Delta) {
		t.Errorf("stopped after %d steps, %d samples: %v", u.Steps, u.Used, err)
	}
}

// TestGradientIsTheMean compares with SGD at rate 1, whose first step is the mean
// gradient.
func TestGradientIsTheMean(t *testing.T) {
	c := small()
	c.Optimizer = OptimizerSpec{Rule: "sgd", LR: 1, Batch: 4}
	tr := mustNew(t, c)
	got := make([]float32, len(tr.base))
	loss, err := tr.Gradient(context.Background(), span(0, 4), got)
	if err != nil {
		t.Fatal(err)
	}
	u := mustTrain(t, tr, Job{Spans: span(0, 4)})
	if loss != u.Loss {
		t.Errorf("loss %v, of the step %v", loss, u.Loss)
	}
	for i := range got {
		if math.Abs(float64(got[i]-u.Delta[i])) > 1e-6 {
			t.Fatalf("gradient %d is %v, step %v", i, got[i], u.Delta[i])
		}
	}
	// Over two micro-batches it is the mean of their gradients.
	a, both := got, make([]float32, len(got))
	b := make([]float32, len(got))
	if _, err := tr.Gradient(context.Background(), span(4, 8), b); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Gradient(context.Background(), span(0, 8), both); err != nil {
		t.Fatal(err)
	}
	for i := range both {
		if math.Abs(float64(both[i]-(a[i]+b[i])/2)) > 1e-6 {
			t.Fatalf("gradient %d of both is %v, halves %v and %v", i, both[i], a[i], b[i])
		}
	}
	if _, err := tr.Gradient(context.Background(), nil, both); err == nil {
		t.Error("gradient over nothing")
	}
}

func TestEvalDisturbsNothing(t *testing.T) {
	want := mustTrain(t, mustNew(t, small()), Job{Spans: span(0, 16)})
	tr := mustNew(t, small())
	before := tr.StateDigest()
	theta, buffers := tr.Init()
	for i := range theta {
		theta[i] *= 2
	}
	s, err := tr.Eval(context.Background(), theta, buffers, data.Test, 20)
	if err != nil {
		t.Fatal(err)
	}
	if s.Samples != 20 || !(s.Loss > 1 && s.Loss < 10) || s.Accuracy < 0 || s.Accuracy > 0.5 {
		t.Errorf("score %+v", s)
	}
	if tr.StateDigest() != before {
		t.Error("evaluation changed the optimizer's state")
	}
	if got := mustTrain(t, tr, Job{Spans: span(0, 16)}); !same(got.Delta, want.Delta) {
		t.Error("evaluation changed the training")
	}
	if _, err := tr.Eval(context.Background(), theta, buffers, "nowhere", 1); err == nil {
		t.Error("unknown split evaluated")
	}
	if _, err := tr.Eval(context.Background(), theta[1:], buffers, data.Test, 1); err == nil {
		t.Error("wrong length evaluated")
	}
}

func TestResetIsNew(t *testing.T) {
	tr := mustNew(t, small())
	fresh := tr.StateDigest()
	first := mustTrain(t, tr, Job{Spans: span(0, 12)})
	if tr.StateDigest() == fresh {
		t.Error("training leaves the optimizer's state as it was")
	}
	tr.Reset()
	if tr.StateDigest() != fresh {
		t.Error("reset leaves another state than that of a new trainer")
	}
	if again := mustTrain(t, tr, Job{Spans: span(0, 12)}); !same(again.Delta, first.Delta) {
		t.Error("the same job after a reset gives another update")
	}
}

func TestSchemaAndInit(t *testing.T) {
	for name, params := range map[string]int{"convnet": 421642, "gpt": 2*16*(12*16+13) + 16*(256+8+2)} {
		c := small()
		if name == "convnet" {
			c = convConfig()
			c.Optimizer.Batch, c.Seed = 2, 7
		}
		tr := mustNew(t, c)
		s := tr.Schema()
		if err := s.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		p, b := tr.Init()
		if s.Params() != params || len(p) != params || len(b) != s.Buffers() {
			t.Errorf("%s: schema of %d parameters, vector of %d, want %d", name, s.Params(), len(p), params)
		}
		q, _ := tr.Init()
		if !same(p, q) {
			t.Errorf("%s: two starts differ", name)
		}
		c.Seed++
		if o, _ := mustNew(t, c).Init(); same(p, o) {
			t.Errorf("%s: another seed gives the same start", name)
		}
		h := wire.Sum(bytesOf(p))
		if want := startDigests[name]; h.String() != want {
			t.Errorf("%s: start has digest %v, want %v: version 0 of old runs is lost", name, h, want)
		}
		if err := tr.Load(context.Background(), p[1:], b); err == nil {
			t.Errorf("%s: a short vector is loaded", name)
		}
	}
}

func bytesOf(x []float32) []byte {
	var b []byte
	for _, u := range bitsOf(x) {
		b = append(b, byte(u), byte(u>>8), byte(u>>16), byte(u>>24))
	}
	return b
}

// startDigests pins the start values of seed 7, see TestSchemaAndInit.
var startDigests = map[string]string{
	"convnet": "e3638d4a275d97eb633f9d00be5a806b09148fbaa99e3378bbc42d296bb5b6b4",
	"gpt":     "6a3e337a44a9a727b600762bd58482ee4eae7c7e6e38f76b3b7e7c803916bf1a",
}

func TestConfigIsChecked(t *testing.T) {
	good := small()
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*Config){
		"unknown model":     func(c *Config) { c.Model.Name = "lstm" },
		"another's size":    func(c *Config) { c.Model.Width = 3 },
		"heads":             func(c *Config) { c.Model.Dim, c.Model.Heads = 10, 3 },
		"too deep":          func(c *Config) { c.Model.Layers = 100 },
		"no data":           func(c *Config) { c.Data = nil },
		"images":            func(c *Config) { c.Data = noise{"image", 1, 9} },
		"another context":   func(c *Config) { c.Data = noise{"text", 9, 9} },
		"no samples":        func(c *Config) { c.Data = noise{"text", 8, 0} },
		"rate":              func(c *Config) { c.Optimizer.LR = 0 },
		"rate not a number": func(c *Config) { c.Optimizer.LR = math.NaN() },
		"decay":             func(c *Config) { c.Optimizer.Beta2 = 1 },
		"optimizer":         func(c *Config) { c.Optimizer.Rule = "lion" },
		"epsilon":           func(c *Config) { c.Optimizer.Eps = 0 },
		"clip":              func(c *Config) { c.Optimizer.Clip = -1 },
		"batch":             func(c *Config) { c.Optimizer.Batch = 0 },
		"threads":           func(c *Config) { c.Threads = 1000 },
		"memory":            func(c *Config) { c.MaxBytes = 1000 },
	} {
		c := small()
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}
