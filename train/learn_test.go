package train

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

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
type tenth struct{ Dataset }

func (d tenth) cut() int { return d.Dataset.Len(SplitTrain) * 9 / 10 }

func (d tenth) Len(split string) int {
	switch split {
	case SplitTrain:
		return d.cut()
	case SplitValid:
		return d.Dataset.Len(SplitTrain) - d.cut()
	}
	return 0
}

func (d tenth) Batch(split string, idx []int, dst *Batch) error {
	if split == SplitValid {
		moved := make([]int, len(idx))
		for k, i := range idx {
			moved[k] = i + d.cut()
		}
		idx = moved
	}
	return d.Dataset.Batch(SplitTrain, idx, dst)
}

// TestTune prints learning curves; HIVED_TUNE names the task. It looks at held-out
// training data only.
func TestTune(t *testing.T) {
	task := os.Getenv("HIVED_TUNE")
	if task == "" {
		t.Skip("HIVED_TUNE names no task to print learning curves of")
	}
	data, err := Open(task, "")
	need(t, err)
	if task == "mnist" {
		data = tenth{data}
	}
	c := Default(task)
	c.Data, c.Threads = data, 1
	seconds := 180.0
	if a := os.Getenv("HIVED_TUNE_ARGS"); a != "" {
		var lr, beta2, wd float32
		var batch, warm int
		var layers, dim, heads int64
		if _, err := fmt.Sscan(a, &seconds, &lr, &beta2, &wd, &batch, &warm, &layers, &dim, &heads); err != nil {
			t.Fatal(err)
		}
		c.Inner.LR, c.Inner.Beta2, c.Inner.WeightDecay, c.Inner.Batch, c.Inner.Warmup = lr, beta2, wd, batch, warm
		if task == "text" {
			c.Args = map[string]int64{"layers": layers, "dim": dim, "heads": heads}
		}
	}
	tr, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	theta, buffers := tr.Init()
	n, most := uint64(data.Len(SplitTrain)), 400
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
		s, err := tr.Eval(context.Background(), theta, buffers, SplitValid, most)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("position %d, %.1f cpu-s: training loss %.4f, held-out %.4f, accuracy %.4f", pos, cpu.Seconds(), u.Loss, s.Loss, s.Accuracy)
	}
}
