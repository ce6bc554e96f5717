package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	ops "github.com/apiary-net/hived/tensorops"
	"github.com/apiary-net/hived/train/data"
	"github.com/apiary-net/hived/train/nets"
	"github.com/apiary-net/hived/wire"
)

// Job is one round's local work.
type Job struct {
	Round    uint64
	Spans    []wire.Span // half-open intervals of positions, in order
	Batch    int         // samples of a step; 0 is Optimizer.Batch
	MaxSteps int         // 0: until the spans are used up
	LRScale  float32     // multiplies the learning rate; 0 is 1
}

// Update is what local steps gave.
type Update struct {
	Delta   []float32 // base - theta; owned by the trainer until the next call
	Buffers []float32 // state without gradient; owned likewise
	Steps   int
	Used    uint64        // positions: a prefix of the job's spans
	Loss    float32       // mean over the used samples
	CPU     time.Duration // processor time of all threads
}

// Trainer makes local steps. It belongs to one goroutine.
type Trainer struct {
	cfg   Config
	model nets.Model
	dev   ops.Device
	work  *bench // training plan and session
	eval  *bench // nil until the first Eval
	steps uint64 // optimizer updates since the last Reset

	factors []float32 // of the learning rate by parameter, nil: 1

	base, theta, delta []float32
	buffers, reached   []float32 // of the base; as the last call left them
}

// bench is a compiled model with its session and batch.
type bench struct {
	batch int
	plan  *ops.Plan
	out   ops.Shape // of the model's output
	sess  ops.Session
	data  data.Batch
	in    ops.Batch
	idx   []int
	keys  []int32 // the plan's input of keys, nil where it has none
}

// New compiles the model. The trainer starts at Init's values.
func New(cfg Config) (*Trainer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("new trainer: %w", err)
	}
	m, err := nets.New(cfg.Model)
	if err != nil {
		return nil, fmt.Errorf("new trainer: %w", err)
	}
	t := &Trainer{cfg: cfg, model: m, dev: cfg.Device}
	if t.dev == nil {
		t.dev = ops.CPU()
	}
	if cfg.Threads > 0 {
		ops.SetThreads(cfg.Threads)
	}
	if t.work, err = t.open(cfg.Optimizer.Batch, false); err != nil {
		return nil, fmt.Errorf("new trainer: %w", err)
	}
	if t.factors, err = cfg.Optimizer.factors(t.work.plan.Params); err != nil {
		return nil, fmt.Errorf("new trainer: %w", err)
	}
	t.base, t.buffers = t.Init()
	t.theta, t.delta, t.reached = slices.Clone(t.base), make([]float32, len(t.base)), slices.Clone(t.buffers)
	return t, nil
}

// open compiles the model for a batch size.
func (t *Trainer) open(batch int, inference bool) (*bench, error) {
	g := &ops.Graph{}
	loss, out := t.model.Build(g, batch)
	o := ops.Options{Inference: inference, MaxBytes: t.cfg.MaxBytes}
	if !inference {
		o.Compute = t.cfg.Compute
	} else {
		o.Keep = []ops.V{out}
	}
	p, err := ops.Compile(g, loss, o)
	if err != nil {
		return nil, err
	}
	if extra := p.OptimizerBytes(t.cfg.Optimizer.rule()); !inference && extra > 0 && o.MaxBytes > 0 {
		o.MaxBytes = max(1, o.MaxBytes-extra)
		if p, err = ops.Compile(g, loss, o); err != nil {
			return nil, fmt.Errorf("with %d bytes for %s: %w", extra, t.cfg.Optimizer.Rule, err)
		}
	}
	s, err := t.dev.Open(p)
	if err != nil {
		return nil, err
	}
	b := &bench{batch: batch, plan: p, out: out.Shape, sess: s, idx: make([]int, 0, batch)}
	b.bind(t.cfg.Data.Form())
	return b, nil
}

// bind makes the batch that the plan's inputs are read from.
func (b *bench) bind(f data.Form) {
	if f.Kind == "text" {
		b.data.Int = make([]int32, b.batch*f.Size())
		b.in.Int = [][]int32{b.data.Int}
	} else {
		b.data.Float = make([]float32, b.batch*f.Size())
		b.in.Float = [][]float32{b.data.Float}
	}
	if f.Classes > 0 {
		b.data.Labels = make([]int32, b.batch*f.Terms)
		b.in.Int = append(b.in.Int, b.data.Labels)
	} else {
		b.data.Targets = make([]float32, b.batch*f.Terms)
		b.in.Float = append(b.in.Float, b.data.Targets)
	}
	ints := 0
	for _, v := range b.plan.Inputs {
		if v.Type == ops.I32 {
			ints++
		}
	}
	if ints > len(b.in.Int) {
		b.keys = make([]int32, b.batch)
		b.in.Int = append(b.in.Int, b.keys)
	}
}

// step runs the plan on samples idx, at most batch many, and returns the summed
// loss. The rest of the batch is left out by its labels.
func (b *bench) step(ctx context.Context, d data.Set, split string) (float64, error) {
	if len(b.idx) < b.batch {
		clear(b.data.Float)
		clear(b.data.Int)
		for i := range b.data.Labels {
			b.data.Labels[i] = -1
		}
		for i := range b.data.Targets {
			b.data.Targets[i] = data.Absent
		}
	}
	clear(b.keys)
	for i := range min(len(b.keys), len(b.data.Keys)) {
		b.keys[i] = int32(b.data.Keys[i])
	}
	if err := d.Batch(split, b.idx, &b.data); err != nil {
		return 0, err
	}
	b.in.Samples = len(b.idx)
	return b.sess.Step(ctx, b.in)
}

// Peak returns the bytes that a training step takes, known before the first.
func (t *Trainer) Peak() int64 {
	return t.work.plan.Peak + t.work.plan.OptimizerBytes(t.cfg.Optimizer.rule())
}

// Schema returns the tensors of the state in name order.
func (t *Trainer) Schema() wire.Schema {
	return nets.SchemaOf(t.work.plan)
}

// Init returns the start values that the seed gives: the same bits on every
// machine. The caller owns them.
func (t *Trainer) Init() (params, buffers []float32) {
	p := t.work.plan
	params, buffers = make([]float32, p.ParamLen), make([]float32, p.BufferLen)
	p.Init(t.cfg.Seed, params, buffers)
	return params, buffers
}

// Load makes params and buffers the base of the next calls; it copies them. The
// optimizer's moments stay.
func (t *Trainer) Load(ctx context.Context, params, buffers []float32) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(params) != len(t.base) || len(buffers) != len(t.buffers) {
		return fmt.Errorf("load %d parameters and %d buffers, model has %d and %d", len(params), len(buffers), len(t.base), len(t.buffers))
	}
	copy(t.base, params)
	copy(t.buffers, buffers)
	return nil
}

// cursor walks the positions of spans.
type cursor struct {
	spans []wire.Span
	at    uint64 // positions of spans[0] taken
}

func newCursor(spans []wire.Span) (*cursor, error) {
	for i, s := range spans {
		if s.Lo > s.Hi || s.Hi > 1<<62 {
			return nil, fmt.Errorf("span %d is [%d, %d)", i, s.Lo, s.Hi)
		}
	}
	return &cursor{spans: spans}, nil
}

func (c *cursor) next() (uint64, bool) {
	for len(c.spans) > 0 {
		if s := c.spans[0]; s.Lo+c.at < s.Hi {
			c.at++
			return s.Lo + c.at - 1, true
		}
		c.spans, c.at = c.spans[1:], 0
	}
	return 0, false
}

// keyStream sets the samples' keys apart from the order of samples.
const keyStream = 0x6B657973

// deal fills b.idx with the samples of the next positions.
func (t *Trainer) deal(b *bench, c *cursor) int {
	n := uint64(t.cfg.Data.Len(data.Train))
	b.idx, b.data.Keys = b.idx[:0], b.data.Keys[:0]
	for len(b.idx) < b.batch {
		p, ok := c.next()
		if !ok {
			break
		}
		b.idx = append(b.idx, int(data.Permute(t.cfg.Seed, p/n, n, p%n)))
		b.data.Keys = append(b.data.Keys, data.Mix(data.Mix(t.cfg.Seed+keyStream)+p))
	}
	return len(b.idx)
}

// Train makes optimizer steps from the loaded version over the job's spans. When
// ctx ends it stops between steps and returns what was done, without an error.
func (t *Trainer) Train(ctx context.Context, job Job) (Update, error) {
	c, err := newCursor(job.Spans)
	if err != nil {
		return Update{}, fmt.Errorf("train round %d: %w", job.Round, err)
	}
	if err := t.prepare(job); err != nil {
		return Update{}, fmt.Errorf("train round %d: %w", job.Round, err)
	}
	runtime.LockOSThread() // processor time is counted by thread
	defer runtime.UnlockOSThread()
	cpu := threadTime() + ops.WorkerTime()
	u := Update{Delta: t.delta, Buffers: t.reached}
	total, terms := 0.0, t.cfg.Data.Form().Terms
	for (job.MaxSteps == 0 || u.Steps < job.MaxSteps) && ctx.Err() == nil {
		n, loss, err := t.step(context.WithoutCancel(ctx), c, job.LRScale)
		if err != nil {
			return Update{}, fmt.Errorf("train round %d, step %d: %w", job.Round, u.Steps, err)
		}
		if n == 0 {
			break
		}
		u.Steps++
		u.Used += uint64(n)
		total += loss
		if t.cfg.Stepped != nil {
			t.cfg.Stepped(ctx)
		}
	}
	if u.Used > 0 {
		u.Loss = float32(total / float64(u.Used*uint64(terms)))
	}
	if err := errors.Join(t.work.sess.Read(ops.Params, t.theta), t.work.sess.Read(ops.Buffers, t.reached)); err != nil {
		return Update{}, fmt.Errorf("train round %d: %w", job.Round, err)
	}
	for i, b := range t.base {
		t.delta[i] = b - t.theta[i]
	}
	u.CPU = threadTime() + ops.WorkerTime() - cpu
	return u, nil
}

// step makes one optimizer step over Accumulate batches of the next samples and
// returns how many they were, 0 at the end of the spans, and their summed loss.
func (t *Trainer) step(ctx context.Context, c *cursor, scale float32) (used int, total float64, err error) {
	t.work.sess.ZeroGrads()
	for range max(1, t.cfg.Optimizer.Accumulate) {
		n := t.deal(t.work, c)
		if n == 0 {
			break
		}
		loss, err := t.work.step(ctx, t.cfg.Data, data.Train)
		if err != nil {
			return 0, 0, err
		}
		used, total = used+n, total+loss
	}
	if used == 0 {
		return 0, 0, nil
	}
	if !(math.Abs(total) <= math.MaxFloat64) {
		return 0, 0, fmt.Errorf("the loss is not finite (%v): lower the learning rate or clip the gradient", total)
	}
	terms := t.cfg.Data.Form().Terms
	t.steps++
	return used, total, t.work.sess.Update(t.cfg.Optimizer.rule(), ops.UpdateArgs{LR: t.cfg.Optimizer.rate(t.steps, scale), Scale: 1 / float64(used*terms), Step: t.steps, Factors: t.factors})
}

// prepare puts the base into the session, for the job's batch size.
func (t *Trainer) prepare(job Job) error {
	if job.Batch < 0 || job.Batch > maxBatch || job.MaxSteps < 0 || !(job.LRScale >= 0 && job.LRScale <= 100) {
		return fmt.Errorf("batch %d, steps %d, rate scale %v", job.Batch, job.MaxSteps, job.LRScale)
	}
	batch := job.Batch
	if batch == 0 {
		batch = t.cfg.Optimizer.Batch
	}
	if batch != t.work.batch {
		b, err := t.open(batch, false)
		if err != nil {
			return err
		}
		for _, v := range []ops.Vector{ops.M1, ops.M2} {
			if err := errors.Join(t.work.sess.Read(v, t.theta), b.sess.Write(v, t.theta)); err != nil {
				return err
			}
		}
		if err := t.work.sess.Close(); err != nil {
			return err
		}
		t.work = b
	}
	return errors.Join(t.work.sess.Write(ops.Params, t.base), t.work.sess.Write(ops.Buffers, t.buffers))
}

// Gradient writes the mean gradient over the samples of spans, at the loaded
// parameters, to dst, and returns the mean loss. Micro-batches of Optimizer.Batch are
// added in order and divided once.
func (t *Trainer) Gradient(ctx context.Context, spans []wire.Span, dst []float32) (float32, error) {
	c, err := newCursor(spans)
	if err != nil {
		return 0, fmt.Errorf("compute gradient: %w", err)
	}
	if len(dst) != len(t.base) {
		return 0, fmt.Errorf("compute gradient into %d values, model has %d", len(dst), len(t.base))
	}
	if err := t.prepare(Job{}); err != nil {
		return 0, fmt.Errorf("compute gradient: %w", err)
	}
	t.work.sess.ZeroGrads()
	total, terms := 0.0, 0
	for {
		n := t.deal(t.work, c)
		if n == 0 {
			break
		}
		loss, err := t.work.step(ctx, t.cfg.Data, data.Train)
		if err != nil {
			return 0, fmt.Errorf("compute gradient: %w", err)
		}
		total += loss
		terms += n * t.cfg.Data.Form().Terms
	}
	if terms == 0 {
		return 0, errors.New("compute gradient over no samples")
	}
	if err := t.work.sess.Read(ops.Grads, dst); err != nil {
		return 0, fmt.Errorf("compute gradient: %w", err)
	}
	w := float64(terms)
	for i, g := range dst {
		dst[i] = float32(float64(g) / w)
	}
	if t.cfg.Stepped != nil {
		t.cfg.Stepped(ctx)
	}
	return float32(total / w), nil
}

// Close frees the sessions.
func (t *Trainer) Close() error {
	err := t.work.sess.Close()
	if t.eval != nil {
		err = errors.Join(err, t.eval.sess.Close())
	}
	return err
}
