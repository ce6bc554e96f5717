package train

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apiary-net/hived/train/data"
	"github.com/apiary-net/hived/train/weights"
)

// soloOf is a short training of the small gpt.
func soloOf(dir string) Solo {
	c := small()
	c.Optimizer.Decay, c.Optimizer.Warmup, c.Optimizer.Total, c.Optimizer.Floor = "cosine", 3, 24, 0.1
	return Solo{Config: c, Steps: 24, LogEvery: 2, EvalEvery: 8, SaveEvery: 4, EvalSplit: data.Test, EvalMost: 8, Dir: dir, Run: "r"}
}

func mustSolo(t *testing.T, s Solo) Result {
	t.Helper()
	r, err := RunSolo(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSoloResumes stops a training after each point: going on gives the same bits
// and the same curve as never to stop.
func TestSoloResumes(t *testing.T) {
	whole := t.TempDir()
	want := mustSolo(t, soloOf(whole))
	if want.Steps != 24 || want.Resumed != 0 || want.Best == math.Inf(1) || want.Peak <= 0 {
		t.Fatalf("%+v", want)
	}
	for _, stop := range []int{1, 4, 7, 11} {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(context.Background())
		s := soloOf(dir)
		points := 0
		s.Observe = func(Point) {
			if points++; points == stop {
				cancel()
			}
		}
		if _, err := RunSolo(ctx, s); !errors.Is(err, context.Canceled) {
			t.Fatalf("stop at point %d: %v", stop, err)
		}
		got := mustSolo(t, soloOf(dir))
		if got.Resumed != uint64(2*stop) || !same(got.Params, want.Params) {
			t.Errorf("stop at point %d: went on from step %d, equal: %v", stop, got.Resumed, same(got.Params, want.Params))
		}
		if a, b := steps(t, whole), steps(t, dir); a != b {
			t.Errorf("stop at point %d: curve %q, want %q", stop, b, a)
		}
	}
	// A finished training is not trained again.
	if again := mustSolo(t, soloOf(whole)); again.Resumed != 24 || !same(again.Params, want.Params) {
		t.Errorf("again: went on from %d", again.Resumed)
	}
	// The model file holds the parameters under their names.
	tensors, err := weights.Read(filepath.Join(whole, weights.ModelFile))
	if err != nil {
		t.Fatal(err)
	}
	tr := mustNew(t, small())
	params, buffers := make([]float32, len(want.Params)), make([]float32, len(want.Buffers))
	if err := weights.Put(tr.Schema(), params, buffers, tensors); err != nil || !same(params, want.Params) {
		t.Errorf("model file: %v", err)
	}
	other := soloOf(whole)
	other.Run = "another"
	if _, err := RunSolo(context.Background(), other); !errors.Is(err, ErrOther) {
		t.Errorf("another run: %v", err)
	}
}

// steps returns step, loss and rate of a folder's curve.
func steps(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, CurveFile))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, l := range strings.Split(string(b), "\n") {
		out = append(out, strings.Join(strings.SplitN(l, ",", 9)[:min(8, strings.Count(l, ",")+1)], ","))
	}
	return strings.Join(out, "\n")
}

func TestSoloKeepsTheBest(t *testing.T) {
	s := soloOf(t.TempDir())
	s.KeepBest = true
	losses := map[uint64]float64{}
	s.Observe = func(p Point) {
		if p.Valid != nil {
			losses[p.Step] = p.Valid.Loss
		}
	}
	s.Optimizer.LR = 0.5 // gets worse soon
	r := mustSolo(t, s)
	least := math.Inf(1)
	for _, l := range losses {
		least = min(least, l)
	}
	if len(losses) != 3 || r.Best != least {
		t.Fatalf("losses %v, best %v", losses, r.Best)
	}
	got, err := Measure(context.Background(), s.Config, r.Params, r.Buffers, data.Test)
	if err != nil || got.Samples != 50 {
		t.Fatalf("%+v, %v", got, err)
	}
}

func TestSoloIsChecked(t *testing.T) {
	for what, change := range map[string]func(*Solo){
		"no steps":      func(s *Solo) { s.Steps = 0 },
		"no points":     func(s *Solo) { s.LogEvery = 0 },
		"eval between":  func(s *Solo) { s.EvalEvery = 3 },
		"save between":  func(s *Solo) { s.SaveEvery = 5 },
		"best unjudged": func(s *Solo) { s.KeepBest, s.EvalEvery = true, 0 },
		"start":         func(s *Solo) { s.Start = []weights.Tensor{{Name: "nothing", Shape: []int{1}, Data: []float32{1}}} },
		"start shape":   func(s *Solo) { s.Start = []weights.Tensor{{Name: "lnf.bias", Shape: []int{1}, Data: []float32{1}}} },
		"schedule":      func(s *Solo) { s.Optimizer.Warmup = 99 },
		"decay":         func(s *Solo) { s.Optimizer.Decay = "steep" },
		"floor":         func(s *Solo) { s.Optimizer.Floor = 2 },
		"accumulate":    func(s *Solo) { s.Optimizer.Accumulate = -1 },
		"memory":        func(s *Solo) { s.MaxBytes = 1 << 10 },
	} {
		s := soloOf(t.TempDir())
		change(&s)
		if _, err := RunSolo(context.Background(), s); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

// TestDivergenceIsSaid trains at a rate that explodes.
func TestDivergenceIsSaid(t *testing.T) {
	s := soloOf("")
	s.Optimizer = OptimizerSpec{Rule: "sgd", LR: 10, Momentum: 0.99, Batch: 4}
	s.Steps, s.EvalEvery, s.SaveEvery = 500, 0, 0
	if _, err := RunSolo(context.Background(), s); err == nil || !strings.Contains(err.Error(), "not finite") {
		t.Errorf("%v", err)
	}
}

// TestAccumulation compares two batches of four with one of eight.
func TestAccumulation(t *testing.T) {
	a := small()
	a.Optimizer.Accumulate = 2
	b := small()
	b.Optimizer.Batch = 8
	x, y := mustTrain(t, mustNew(t, a), Job{Spans: span(0, 16)}), mustTrain(t, mustNew(t, b), Job{Spans: span(0, 16)})
	if x.Steps != 2 || y.Steps != 2 || x.Used != 16 || math.Abs(float64(x.Loss-y.Loss)) > 1e-5 {
		t.Fatalf("%d and %d steps, losses %v and %v", x.Steps, y.Steps, x.Loss, y.Loss)
	}
	for i := range x.Delta {
		if math.Abs(float64(x.Delta[i]-y.Delta[i])) > 2e-4 { // adam divides by small gradients
			t.Fatalf("parameter %d moves by %v and %v", i, x.Delta[i], y.Delta[i])
		}
	}
}

func TestSchedule(t *testing.T) {
	for _, c := range []struct {
		s    OptimizerSpec
		step uint64
		want float32
	}{
		{OptimizerSpec{Decay: "linear", Warmup: 10, Total: 110, Floor: 0.1}, 5, 0.5},
		{OptimizerSpec{Decay: "linear", Warmup: 10, Total: 110, Floor: 0.1}, 10, 1},
		{OptimizerSpec{Decay: "linear", Warmup: 10, Total: 110, Floor: 0.1}, 60, 0.55},
		{OptimizerSpec{Decay: "linear", Warmup: 10, Total: 110, Floor: 0.1}, 110, 0.1},
		{OptimizerSpec{Decay: "linear", Warmup: 10, Total: 110, Floor: 0.1}, 999, 0.1},
		{OptimizerSpec{Decay: "cosine", Total: 100}, 50, 0.5},
		{OptimizerSpec{Decay: "cosine", Total: 100, Floor: 0.2}, 100, 0.2},
		{OptimizerSpec{Decay: "constant", Warmup: 4}, 2, 0.5},
		{OptimizerSpec{Decay: "constant", Warmup: 4}, 400, 1},
	} {
		if got := c.s.factor(c.step); math.Abs(float64(got-c.want)) > 1e-6 {
			t.Errorf("%+v at %d: %v, want %v", c.s, c.step, got, c.want)
		}
	}
}

// TestEvents reads a file of events back record by record.
func TestEvents(t *testing.T) {
	dir := t.TempDir()
	e, err := openEvents(dir, func() time.Time { return time.UnixMilli(1_600_000_000_500) })
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(e.scalar(300, "loss", 0.5), e.close()); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.1600000000.*"))
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	b, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	var records [][]byte
	for len(b) > 0 {
		n := binary.LittleEndian.Uint64(b)
		if masked(b[:8]) != binary.LittleEndian.Uint32(b[8:]) || masked(b[12:12+n]) != binary.LittleEndian.Uint32(b[12+n:]) {
			t.Fatal("a checksum is wrong")
		}
		records, b = append(records, b[12:12+n]), b[16+n:]
	}
	wall := string(binary.LittleEndian.AppendUint64([]byte{9}, math.Float64bits(1_600_000_000.5)))
	want := []string{wall + "\x1a\x0dbrain.Event:2", wall + "\x10\xac\x02" + "\x2a\x0d\x0a\x0b\x0a\x04loss\x15\x00\x00\x00\x3f"}
	if len(records) != 2 || string(records[0]) != want[0] || string(records[1]) != want[1] {
		t.Errorf("records %q, want %q", records, want)
	}
	// The checksum of RFC 3720, B.4: 32 bytes of zeros have 0x8A9136AA.
	c := uint32(0x8A9136AA)
	if got, want := masked(make([]byte, 32)), (c>>15|c<<17)+0xA282EAD8; got != want {
		t.Errorf("masked checksum %08x, want %08x", got, want)
	}
}

func TestCurveIsCut(t *testing.T) {
	old := curveHeader + "2,8,0,1\n4,16,0,2\n6,24,0,3\n8,3"
	if got, want := keptRows([]byte(old), 4), curveHeader+"2,8,0,1\n4,16,0,2\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := keptRows(nil, 4); got != curveHeader {
		t.Errorf("%q", got)
	}
}

// TestRates freezes one layer and slows another: SGD's first step is proportional.
func TestRates(t *testing.T) {
	c := small()
	c.Optimizer = OptimizerSpec{Rule: "sgd", LR: 1, Batch: 4}
	want := mustTrain(t, mustNew(t, c), Job{Spans: span(0, 4)})
	c.Optimizer.Rates = map[string]float64{"h0": 0.5, "h01.": 0}
	tr := mustNew(t, c)
	got := mustTrain(t, tr, Job{Spans: span(0, 4)})
	for _, p := range tr.work.plan.Params {
		f := float32(1)
		switch {
		case strings.HasPrefix(p.Name, "h01."):
			f = 0
		case strings.HasPrefix(p.Name, "h0"):
			f = 0.5
		}
		for i := p.Off; i < p.Off+p.Shape.Size(); i++ {
			if math.Abs(float64(got.Delta[i]-f*want.Delta[i])) > 1e-6 {
				t.Fatalf("%s moves by %v, want %v times %v", p.Name, got.Delta[i], f, want.Delta[i])
			}
		}
	}
	for what, rates := range map[string]map[string]float64{"no such layer": {"h9": 1}, "negative": {"h0": -1}} {
		c.Optimizer.Rates = rates
		if _, err := New(c); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

// TestLeftovers starts in a folder where writes were interrupted.
func TestLeftovers(t *testing.T) {
	s := soloOf(t.TempDir())
	for _, name := range []string{".curve.csv123", ".checkpoint.safetensors9", ".model.safetensors77", ".calibration.json5", "notes.txt", ".keep"} {
		if err := os.WriteFile(filepath.Join(s.Dir, name), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mustSolo(t, s)
	left, err := filepath.Glob(filepath.Join(s.Dir, ".*"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != ".keep" {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestCheckpointIsWholeOrRefused changes each byte region of a checkpoint.
func TestCheckpointIsWholeOrRefused(t *testing.T) {
	dir := t.TempDir()
	c := checkpoint{run: "r", position: 77, cpu: 1.25, best: math.Inf(1), state: State{Steps: 9, Params: []float32{1, 2, 3}, Buffers: nil, M1: []float32{4, 5, 6}, M2: []float32{7, 8, 9}}}
	if got, err := loadCheckpoint(dir); got != nil || err != nil {
		t.Fatalf("nothing: %v, %v", got, err)
	}
	if err := c.save(dir); err != nil {
		t.Fatal(err)
	}
	got, err := loadCheckpoint(dir)
	if err != nil || got.digest() != c.digest() || got.state.Steps != 9 || got.position != 77 || got.best != math.Inf(1) {
		t.Fatalf("%+v, %v", got, err)
	}
	path := filepath.Join(dir, CheckpointFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := 8; at < len(whole); at++ {
		b := bytes.Clone(whole)
		b[at] ^= 4
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := loadCheckpoint(dir); err == nil && got.digest() != c.digest() {
			t.Fatalf("byte %d of %d flipped: loaded as another", at, len(whole))
		}
	}
	for n := range len(whole) {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := loadCheckpoint(dir); !errors.Is(err, weights.ErrFile) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
}
