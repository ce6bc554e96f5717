package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/apiary-net/hived/train/data"
	"github.com/apiary-net/hived/train/nets"
	"github.com/apiary-net/hived/train/weights"
	"github.com/apiary-net/hived/wire"
)

// ErrOther is wrapped when a folder holds the checkpoint of another run.
var ErrOther = errors.New("the folder holds another training")

// Solo is a training on one machine.
type Solo struct {
	Config
	// Steps is the number of optimizer updates, at least 1.
	Steps uint64
	// LogEvery, EvalEvery and SaveEvery are steps between points of the curve,
	// evaluations and checkpoints. LogEvery is at least 1; 0 of the others is never
	// before the end. The last two are multiples of the first.
	LogEvery, EvalEvery, SaveEvery uint64
	// EvalSplit is evaluated, on EvalMost samples (0: all).
	EvalSplit string
	EvalMost  int
	// KeepBest ends with the parameters of the least validation loss.
	KeepBest bool
	// Dir receives curve, checkpoint and model; empty keeps everything in memory.
	Dir string
	// Run names run file and data: a checkpoint of another run is refused.
	Run string
	// Start are the first parameters by tensor name; absent ones are drawn.
	Start []weights.Tensor
	// Started is called before the first step with the memory in bytes that a step
	// takes and the step that the training goes on from; nil for nobody.
	Started func(peak int64, resumed uint64)
	// Observe is called with each point; nil for nobody.
	Observe func(Point)
	// Now is the clock; nil is the system's.
	Now func() time.Time
}

// Result is what a training ended with. Its slices belong to the caller.
type Result struct {
	Steps   uint64
	Resumed uint64 // the step of the checkpoint that it went on from
	Params  []float32
	Buffers []float32
	Best    float64 // least validation loss, +Inf without one
	CPU     float64 // seconds of processor time, all starts together
	Peak    int64   // bytes of the training plan
}

// Validate checks s.
func (s *Solo) Validate() error {
	switch {
	case s.Steps < 1 || s.Steps > 1<<40:
		return fmt.Errorf("train for %d steps, want 1 to 2^40", s.Steps)
	case s.LogEvery < 1 || s.EvalEvery%s.LogEvery != 0 || s.SaveEvery%s.LogEvery != 0:
		return fmt.Errorf("train with points every %d, evaluations every %d, checkpoints every %d steps: the last two must be multiples of the first", s.LogEvery, s.EvalEvery, s.SaveEvery)
	case s.KeepBest && (s.EvalEvery == 0 || s.Dir == ""):
		return errors.New("keep the best parameters: needs evaluations and a folder")
	}
	return nil
}

// soloRun is a training under way.
type soloRun struct {
	*Solo
	t     *Trainer
	c     checkpoint
	curve *curve
	began time.Time
}

// RunSolo trains. When ctx ends it saves a checkpoint and returns ctx's cause; the
// same call goes on from there, as it does after a crash, with the same bits.
func RunSolo(ctx context.Context, s Solo) (r Result, err error) {
	if err := s.Validate(); err != nil {
		return r, err
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	t, err := New(s.Config)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	run := &soloRun{Solo: &s, t: t, began: s.Now(), c: checkpoint{run: s.Run, best: math.Inf(1)}}
	if err := run.begin(); err != nil {
		return r, err
	}
	r.Resumed, r.Peak = run.c.state.Steps, t.Peak()
	if s.Started != nil {
		s.Started(r.Peak, r.Resumed)
	}
	if s.Dir != "" {
		if run.curve, err = openCurve(s.Dir, r.Resumed, s.Now); err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, run.curve.close()) }()
	}
	for t.steps < s.Steps && err == nil {
		err = run.slice(ctx)
	}
	if err != nil {
		return r, err
	}
	return run.finish(r)
}

// begin loads the checkpoint or the start values.
func (r *soloRun) begin() error {
	params, buffers := r.t.Init()
	if err := weights.Put(r.t.Schema(), params, buffers, r.Start); err != nil {
		return err
	}
	r.t.settle(params, buffers)
	if r.Dir == "" {
		return nil
	}
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if err := sweep(r.Dir); err != nil {
		return fmt.Errorf("clean up folder: %w", err)
	}
	c, err := loadCheckpoint(r.Dir)
	if c == nil || err != nil {
		return err
	}
	if c.run != r.Run {
		return fmt.Errorf("%s was written for other data, model or settings: %w", filepath.Join(r.Dir, CheckpointFile), ErrOther)
	}
	r.c = *c
	return r.t.Restore(c.state)
}

// slice makes the steps up to the next point of the curve.
func (r *soloRun) slice(ctx context.Context) error {
	end := min((r.t.steps/r.LogEvery+1)*r.LogEvery, r.Steps)
	n := (end - r.t.steps) * uint64(r.Optimizer.samples())
	u, err := r.t.Train(ctx, Job{Spans: []wire.Span{{Lo: r.c.position, Hi: r.c.position + n}}})
	if err != nil {
		return err
	}
	r.t.Advance()
	r.c.position += u.Used
	r.c.cpu += u.CPU.Seconds()
	if r.t.steps < end {
		return errors.Join(context.Cause(ctx), r.save())
	}
	p := Point{Step: end, Position: r.c.position, Epoch: float64(r.c.position) / float64(r.Data.Len(data.Train)), Loss: float64(u.Loss),
		Rate: float64(r.Optimizer.rate(end, 1)), CPU: r.c.cpu, Seconds: r.Now().Sub(r.began).Seconds()}
	if r.EvalEvery > 0 && (end%r.EvalEvery == 0 || end == r.Steps) {
		if err := r.evaluate(ctx, &p); err != nil {
			return err
		}
	}
	if r.curve != nil {
		if err := r.curve.add(p); err != nil {
			return err
		}
	}
	if r.Observe != nil {
		r.Observe(p)
	}
	if r.SaveEvery > 0 && end%r.SaveEvery == 0 || end == r.Steps {
		return r.save()
	}
	return nil
}

func (r *soloRun) evaluate(ctx context.Context, p *Point) error {
	params, buffers := r.t.Reached()
	s, err := r.t.Eval(ctx, params, buffers, r.EvalSplit, r.EvalMost)
	if err != nil {
		return err
	}
	p.Valid = &s
	if s.Loss >= r.c.best {
		return nil
	}
	r.c.best = s.Loss
	if !r.KeepBest {
		return nil
	}
	return r.write(bestFile, params, buffers, p.Step)
}

// write saves parameters and buffers under their tensors' names.
func (r *soloRun) write(name string, params, buffers []float32, step uint64) error {
	args, err := r.Model.Full()
	if err != nil {
		return err
	}
	model, err := json.Marshal(nets.Meta{Name: r.Model.Name, Args: args})
	if err != nil {
		return err
	}
	return weights.ReplaceFile(filepath.Join(r.Dir, name), func(w io.Writer) error {
		return weights.Write(w, weights.Named(r.t.Schema(), params, buffers), map[string]string{"format": "pt", "hived.model": string(model), "hived.step": fmt.Sprint(step), "hived.run": r.Run})
	})
}

// save makes a checkpoint; the curve is durable before it.
func (r *soloRun) save() error {
	if r.Dir == "" {
		return nil
	}
	if r.curve != nil {
		if err := r.curve.sync(); err != nil {
			return err
		}
	}
	var err error
	if r.c.state, err = r.t.State(); err != nil {
		return err
	}
	return r.c.save(r.Dir)
}

// finish chooses the parameters and writes the model.
func (r *soloRun) finish(out Result) (Result, error) {
	s, err := r.t.State()
	if err != nil {
		return out, err
	}
	out.Steps, out.Params, out.Buffers, out.Best, out.CPU = s.Steps, s.Params, s.Buffers, r.c.best, r.c.cpu
	if r.KeepBest && r.c.best < math.Inf(1) {
		tensors, err := weights.Read(filepath.Join(r.Dir, bestFile))
		if err != nil {
			return out, err
		}
		if err := weights.Put(r.t.Schema(), out.Params, out.Buffers, tensors); err != nil {
			return out, err
		}
	}
	if r.Dir == "" {
		return out, nil
	}
	return out, r.write(weights.ModelFile, out.Params, out.Buffers, s.Steps)
}
