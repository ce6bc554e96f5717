package daemon

import (
	"context"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/apiary-net/hived/elastic"
	"github.com/apiary-net/hived/train"
	"github.com/apiary-net/hived/wire"
)

// trainer makes a train.Trainer elastic's, and counts the CPU time of local
// work.
type trainer struct {
	*train.Trainer
	cpu atomic.Int64 // nanoseconds
}

func (t *trainer) Train(ctx context.Context, j elastic.Job) (elastic.Update, error) {
	defer t.count()()
	u, err := t.Trainer.Train(ctx, train.Job{Round: j.Round, Spans: j.Spans, Batch: j.Batch, MaxSteps: j.Steps, LRScale: j.LRScale})
	return elastic.Update{Delta: u.Delta, Steps: u.Steps, Used: u.Used, Loss: u.Loss}, err
}

func (t *trainer) Gradient(ctx context.Context, spans []wire.Span, dst []float32) (float32, error) {
	defer t.count()()
	return t.Trainer.Gradient(ctx, spans, dst)
}

// count adds the CPU time of this thread, which does all the local work of a
// trainer of one thread.
func (t *trainer) count() func() {
	runtime.LockOSThread()
	began := threadCPU()
	return func() {
		t.cpu.Add(int64(threadCPU() - began))
		runtime.UnlockOSThread()
	}
}

func threadCPU() time.Duration {
	const rusageThread = 1
	var u syscall.Rusage
	if syscall.Getrusage(rusageThread, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
