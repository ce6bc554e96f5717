package daemon

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/apiary-net/hived/elastic"
	"github.com/apiary-net/hived/train"
	"github.com/apiary-net/hived/train/data"
	"github.com/apiary-net/hived/wire"
)

// trainer makes a train.Trainer elastic's, counts local steps and their CPU time,
// and keeps the pace that the configuration allows.
type trainer struct {
	*train.Trainer
	pace time.Duration // that a step takes at least
	cpu  atomic.Int64  // nanoseconds

	mu    sync.Mutex
	steps uint64    // done; guarded by mu
	began time.Time // of the step in progress, or zero; guarded by mu
}

// newTrainer opens the trainer of a run.
func (d *Daemon) newTrainer(g *wire.Genesis, data data.Set) (*trainer, error) {
	t := &trainer{pace: time.Duration(d.cfg.Train.StepMs) * time.Millisecond}
	cfg, err := train.ConfigOf(g, data, d.cfg.Threads)
	if err != nil {
		return nil, err
	}
	cfg.Stepped = t.stepped
	t.Trainer, err = train.New(cfg)
	return t, err
}

// stepped counts a step once it has taken its time, or ctx has ended.
func (t *trainer) stepped(ctx context.Context) {
	t.mu.Lock()
	began := t.began
	t.mu.Unlock()
	if rest := t.pace - time.Since(began); rest > 0 {
		timer := time.NewTimer(rest)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.steps++
	t.began = time.Now()
}

// set notes when a step began; the zero time says that none is in progress.
func (t *trainer) set(began time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.began = began
}

// done returns the local steps so far. Of the one in progress the part counts that
// its pace tells.
func (t *trainer) done() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := float64(t.steps)
	if t.pace > 0 && !t.began.IsZero() {
		n += min(1, float64(time.Since(t.began))/float64(t.pace))
	}
	return n
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
	t.set(time.Now())
	began := threadCPU()
	return func() {
		t.set(time.Time{})
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
