package train

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	ops "github.com/apiary-net/hived/tensorops"
	"github.com/apiary-net/hived/train/data"
	"github.com/apiary-net/hived/train/nets"
	"github.com/apiary-net/hived/wire"
)

// need skips a test that lacks what it needs, unless HIVED_REQUIRE=all.
func need(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if os.Getenv("HIVED_REQUIRE") == "all" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// tenth holds out the last tenth of a data set's training samples as split valid.
type tenth struct{ data.Set }

func (d tenth) cut() int { return d.Set.Len(data.Train) * 9 / 10 }

func (d tenth) Len(split string) int {
	switch split {
	case data.Train:
		return d.cut()
	case data.Valid:
		return d.Set.Len(data.Train) - d.cut()
	}
	return 0
}

func (d tenth) Batch(split string, idx []int, dst *data.Batch) error {
	if split == data.Valid {
		moved := make([]int, len(idx))
		for k, i := range idx {
			moved[k] = i + d.cut()
		}
		idx = moved
	}
	return d.Set.Batch(data.Train, idx, dst)
}

// learn trains from the start values for steps updates (0: until the positions or
// the processor seconds are used up) and returns parameters and buffers.
func learn(t *testing.T, tr *Trainer, positions uint64, steps int, seconds, floor float32) (theta, buffers []float32) {
	t.Helper()
	theta, buffers = tr.Init()
	cpu, made, pos, chunk := time.Duration(0), 0, uint64(0), positions/30
	for pos < positions && (steps == 0 || made < steps) && (seconds == 0 || float32(cpu.Seconds()) < seconds) {
		if err := tr.Load(context.Background(), theta, buffers); err != nil {
			t.Fatal(err)
		}
		done := float32(pos) / float32(positions)
		if seconds > 0 {
			done = max(done, float32(cpu.Seconds())/seconds)
		}
		j := Job{Spans: []wire.Span{{Lo: pos, Hi: min(pos+chunk, positions)}}, LRScale: 1 - (1-floor)*done}
		if steps > 0 {
			j.MaxSteps = steps - made
		}
		u, err := tr.Train(context.Background(), j)
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range u.Delta {
			theta[i] -= d
		}
		cpu, made, pos = cpu+u.CPU, made+u.Steps, pos+u.Used
		t.Logf("position %d, %.1f cpu-s: training loss %.4f", pos, cpu.Seconds(), u.Loss)
	}
	return theta, buffers
}

func eval(t *testing.T, tr *Trainer, theta, buffers []float32, split string, most int) Score {
	t.Helper()
	s, err := tr.Eval(context.Background(), theta, buffers, split, most)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %+v", split, s)
	return s
}

// learner opens a task's default trainer where kernels are fast enough.
func learner(t *testing.T, task string, tune bool) (*Trainer, data.Set) {
	t.Helper()
	if ops.CPU().Info().Name != "cpu" {
		t.Skip("built without cgo: too slow for real data")
	}
	set, err := OpenDataOf(wire.DataContract{Name: task}, "")
	need(t, err)
	if tune {
		set = tenth{set}
	}
	c := Default(task)
	c.Data, c.Threads, c.Seed = set, 1, 1
	return mustNew(t, c), set
}

// TestLearnsDigits and TestLearnsBytes make few steps; TestGoals many.
func TestLearnsDigits(t *testing.T) {
	tr, _ := learner(t, "mnist", true)
	theta, buffers := learn(t, tr, 60000, 150, 0, 1)
	if s := eval(t, tr, theta, buffers, data.Valid, 1000); s.Accuracy < 0.93 {
		t.Errorf("accuracy %.3f of held-out digits after 150 steps, want 0.93", s.Accuracy)
	}
}

func TestLearnsBytes(t *testing.T) {
	tr, _ := learner(t, "text", false)
	theta, buffers := learn(t, tr, 30000, 100, 0, 1)
	if s := eval(t, tr, theta, buffers, data.Valid, 100); s.Loss > 3.3 {
		t.Errorf("loss %.3f of held-out bytes after 100 steps, want 3.3", s.Loss)
	}
}

// TestGoals trains as a person would; it needs HIVED_LONG and about six minutes.
func TestGoals(t *testing.T) {
	if os.Getenv("HIVED_LONG") == "" {
		t.Skip("HIVED_LONG is not set: trainings of minutes")
	}
	t.Run("mnist", func(t *testing.T) {
		tr, set := learner(t, "mnist", false)
		theta, buffers := learn(t, tr, 3*uint64(set.Len(data.Train)), 0, 0, 0.1)
		if s := eval(t, tr, theta, buffers, data.Test, 0); s.Accuracy < 0.99 {
			t.Errorf("test accuracy %.4f after 3 epochs, want 0.99", s.Accuracy)
		}
	})
	t.Run("text", func(t *testing.T) {
		tr, set := learner(t, "text", false)
		theta, buffers := learn(t, tr, uint64(set.Len(data.Train)), 0, 175, 0.1)
		if s := eval(t, tr, theta, buffers, data.Valid, 0); s.Loss > 2 {
			t.Errorf("validation loss %.4f nats a byte after 175 cpu-s, want 2", s.Loss)
		}
	})
}

// TestTune prints learning curves; HIVED_TUNE names the task. It looks at held-out
// training data only.
func TestTune(t *testing.T) {
	task := os.Getenv("HIVED_TUNE")
	if task == "" {
		t.Skip("HIVED_TUNE names no task to print learning curves of")
	}
	set, err := OpenDataOf(wire.DataContract{Name: task}, "")
	need(t, err)
	if task == "mnist" {
		set = tenth{set}
	}
	c := Default(task)
	c.Data, c.Threads = set, 1
	seconds := 180.0
	if a := os.Getenv("HIVED_TUNE_ARGS"); a != "" {
		var lr, beta2, wd float64
		var batch int
		var layers, dim, heads int64
		if _, err := fmt.Sscan(a, &seconds, &lr, &beta2, &wd, &batch, &layers, &dim, &heads); err != nil {
			t.Fatal(err)
		}
		c.Optimizer.LR, c.Optimizer.Beta2, c.Optimizer.WeightDecay, c.Optimizer.Batch = lr, beta2, wd, batch
		if task == "text" {
			c.Model = nets.Spec{Name: "gpt", Layers: layers, Dim: dim, Heads: heads}
		}
	}
	tr, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	theta, buffers := tr.Init()
	n, most := uint64(set.Len(data.Train)), 400
	decay, goal := os.Getenv("HIVED_TUNE_DECAY") != "", float32(3)
	if task == "mnist" {
		most = 6000
	}
	cpu, pos := time.Duration(0), uint64(0)
	for cpu.Seconds() < seconds && pos < 3*n {
		hi := min(pos+n/20, 3*n)
		if err := tr.Load(context.Background(), theta, buffers); err != nil {
			t.Fatal(err)
		}
		scale := float32(1)
		if decay {
			scale = 1.05 - float32(pos)/float32(n)/goal
		}
		u, err := tr.Train(context.Background(), Job{Spans: []wire.Span{{Lo: pos, Hi: hi}}, LRScale: scale})
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range u.Delta {
			theta[i] -= d
		}
		cpu, pos = cpu+u.CPU, hi
		s, err := tr.Eval(context.Background(), theta, buffers, data.Valid, most)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("position %d, %.1f cpu-s: training loss %.4f, held-out %.4f, accuracy %.4f", pos, cpu.Seconds(), u.Loss, s.Loss, s.Accuracy)
	}
}
