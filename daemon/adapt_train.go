package daemon

import (
	"context"
	"sync"
	"sync/atomic"
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

func (t *trainer) Train(ctx context.Context, j elastic.Job) (elastic.Update, error) {
	defer t.count()()
	u, err := t.Trainer.Train(ctx, train.Job{Round: j.Round, Spans: j.Spans, Batch: j.Batch, MaxSteps: j.Steps, LRScale: j.LRScale})
	return elastic.Update{Delta: u.Delta, Steps: u.Steps, Used: u.Used, Loss: u.Loss}, err
}

func (t *trainer) Gradient(ctx context.Context, spans []wire.Span, dst []float32) (float32, error) {
	defer t.count()()
	return t.Trainer.Gradient(ctx, spans, dst)
}
