package netsim

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/apiary-net/hived/elastic"
	"github.com/apiary-net/hived/tensorops"
	"github.com/apiary-net/hived/tensorops/num"
	"github.com/apiary-net/hived/wire"
)

// ModelKinds returns the names that ModelConfig.Kind may have.
func ModelKinds() []string { return []string{"quadratic", "mlp", "cost"} }

// ModelConfig is what the simulated peers train.
type ModelConfig struct {
	// Kind is quadratic (distance to a fixed vector, with noise of each sample),
	// mlp (a classifier of samples that a fixed random network labels, computed by
	// the plain Go reference), or cost (no tensors: a loss curve and a step time).
	Kind string
	// Params is about how many parameters there are; default 6,000 (quadratic),
	// 60,000 (mlp). cost has five.
	Params int
	Batch  uint32        // samples of a local step; default 4
	LR     float32       // of local steps; default 0.1
	Step   time.Duration // of a local step at speed 1; default 10 ms
	// Curve of cost: loss = Floor + Scale * (1 + steps)^-Power. Default: 1.8, 9, 0.35.
	Floor, Scale, Power float64
}

// simModel is the model of a simulation; all peers share it, one at a time.
type simModel struct {
	cfg    ModelConfig
	sw     *Swarm
	schema wire.Schema
	net    *mlp // of kind mlp
}

func newModel(sw *Swarm, cfg ModelConfig) (*simModel, error) {
	if cfg.Kind == "" {
		cfg.Kind = "quadratic"
	}
	if cfg.Batch == 0 {
		cfg.Batch = 4
	}
	if cfg.LR == 0 {
		cfg.LR = 0.1
	}
	if cfg.Step == 0 {
		cfg.Step = 10 * time.Millisecond
	}
	sw.cfg.Model.Kind = cfg.Kind
	m := &simModel{cfg: cfg, sw: sw}
	switch cfg.Kind {
	case "quadratic":
		if m.cfg.Params == 0 {
			m.cfg.Params = 6077
		}
		a := max(1, m.cfg.Params*9/10)
		m.schema = wire.Schema{{Name: "a", Shape: []uint32{uint32(a)}}, {Name: "b", Shape: []uint32{uint32(max(1, m.cfg.Params-a))}}}
	case "mlp":
		if m.cfg.Params == 0 {
			m.cfg.Params = 60_000
		}
		var err error
		if m.net, err = newMLP(m.cfg, sw.cfg.Seed); err != nil {
			return nil, err
		}
		m.schema = m.net.schema()
	case "cost":
		if cfg.Scale == 0 {
			m.cfg.Floor, m.cfg.Scale, m.cfg.Power = 1.8, 9, 0.35
		}
		m.schema = wire.Schema{{Name: "steps", Shape: []uint32{1 + marks}}}
	default:
		return nil, fmt.Errorf("model %q is not one of %s", cfg.Kind, strings.Join(ModelKinds(), ", "))
	}
	return m, nil
}

func (m *simModel) partValues() uint32 { return 4096 }

// tune sets what of the preset depends on the model.
func (m *simModel) tune(g *wire.Genesis) {
	g.Preset.Inner = wire.Inner{Optimizer: "sgd", LR: m.cfg.LR, Batch: m.cfg.Batch}
	switch {
	case m.cfg.Kind == "cost": // a version is how many steps it is worth
		g.Preset.Outer, g.Preset.Aggregator = wire.Outer{Rule: "none"}, "mean"
	case g.Preset.Cadence.Window && m.cfg.Kind == "quadratic":
		g.Preset.Outer = wire.Outer{Rule: "adamw", LR: 0.05, Beta1: 0.9, Beta2: 0.99, Eps: 1e-8}
	case g.Preset.Cadence.Window:
		g.Preset.Outer = wire.Outer{Rule: "adamw", LR: 0.005, Beta1: 0.9, Beta2: 0.99, Eps: 1e-8}
	}
}

// loss evaluates parameters on what no peer trains on.
func (m *simModel) loss(params []float32) float64 {
	switch m.cfg.Kind {
	case "cost":
		return m.curve(float64(params[0]))
	case "mlp":
		return m.net.eval(params)
	}
	sum := 0.0
	for _, x := range params {
		e := float64(x) - 1
		sum += float64(e * e)
	}
	return sum / float64(len(params))
}

func (m *simModel) curve(steps float64) float64 {
	return m.cfg.Floor + m.cfg.Scale*math.Pow(1+max(0, steps), -m.cfg.Power)
}

func (m *simModel) trainer(n *Node, lf *life) *trainer { return &trainer{m: m, n: n, lf: lf} }

// trainer implements elastic.Trainer: time is virtual, the numbers are real.
type trainer struct {
	m     *simModel
	n     *Node
	lf    *life
	theta []float32
}

// Schema implements elastic.Trainer.
func (t *trainer) Schema() wire.Schema { return t.m.schema }

// Init implements elastic.Trainer.
func (t *trainer) Init() (params, buffers []float32) { return t.m.init() }

// init returns the start weights.
func (m *simModel) init() (params, buffers []float32) {
	if m.net != nil {
		return slices.Clone(m.net.start), []float32{}
	}
	params = make([]float32, m.schema.Params())
	if m.cfg.Kind == "quadratic" {
		for i := range params {
			params[i] = float32(i%17) / 8
		}
	}
	return params, []float32{}
}

// Load implements elastic.Trainer.
func (t *trainer) Load(_ context.Context, params, _ []float32) error {
	t.theta = params // a State is never changed
	return nil
}

// StateDigest implements elastic.Trainer: local steps keep nothing.
func (t *trainer) StateDigest() wire.Digest { return wire.Digest{} }

// pace is how long a local step takes here, this time: no machine does the same
// work twice in the same time.
func (t *trainer) pace() time.Duration {
	const unsteady = 0.02
	return time.Duration(float64(t.m.cfg.Step) / t.n.Speed * (1 + unsteady*t.m.sw.rng.Float64()))
}

// Train implements elastic.Trainer. The steps that fit into the time until ctx
// ends are done at its end: nobody can see them before.
func (t *trainer) Train(ctx context.Context, j elastic.Job) (elastic.Update, error) {
	loop := t.m.sw.Loop
	steps := min(uint64(j.Steps), wire.SpanLen(j.Spans)/uint64(j.Batch))
	began, pace := loop.Now(), t.pace()
	err := loop.Sleep(ctx, time.Duration(steps)*pace)
	took := loop.Now().Sub(began)
	t.m.sw.computed += min(float64(steps), float64(took)/float64(pace))
	if err != nil {
		steps = min(steps, uint64(took/pace))
	}
	u := t.m.update(t.theta, j, steps)
	if steps == 0 {
		return u, nil
	}
	t.watch(u.Loss, u.Delta)
	if t.n.Lie != nil {
		t.n.Lie.update(u.Delta)
	} else {
		t.m.sw.learn(j.Round, u.Delta)
	}
	return u, nil
}

// Gradient implements elastic.Trainer.
func (t *trainer) Gradient(ctx context.Context, spans []wire.Span, dst []float32) (float32, error) {
	began, pace := t.m.sw.Loop.Now(), t.pace()
	err := t.m.sw.Loop.Sleep(ctx, pace)
	t.m.sw.computed += min(1, float64(t.m.sw.Loop.Now().Sub(began))/float64(pace))
	if err != nil {
		return 0, err
	}
	loss := t.m.gradient(t.theta, spans, dst)
	t.watch(loss, dst)
	if t.n.Lie != nil {
		t.n.Lie.gradient(dst)
	}
	return loss, nil
}

// watch tells of local work that is no number: nothing of it can count.
func (t *trainer) watch(loss float32, delta []float32) {
	if num.Finite(loss) && !slices.ContainsFunc(delta, func(x float32) bool { return !num.Finite(x) }) {
		return
	}
	t.m.sw.check.diverge(t.n, fmt.Sprintf("computed a loss of %v and values that are not finite; model.lr = %v is too large for this model", loss, t.m.cfg.LR))
}

// update is what the first steps of a job give from theta, which stays.
func (m *simModel) update(theta []float32, j elastic.Job, steps uint64) elastic.Update {
	u := elastic.Update{Steps: int(steps), Used: steps * uint64(j.Batch)}
	if steps == 0 {
		return u
	}
	used, _ := wire.SplitSpans(j.Spans, u.Used)
	to := slices.Clone(theta)
	u.Loss = m.descend(to, used, j.Batch, j.LRScale)
	u.Delta = make([]float32, len(theta))
	for i := range theta {
		u.Delta[i] = theta[i] - to[i]
	}
	return u
}

// marks are the parameters of the cost model that its steps do not count in.
const marks = 4

// mark adds a mark of the first position to the parameters, whose mean over
// positions is zero: no two peers do the same, as equal contributions are copies.
func mark(theta []float32, lo uint64) {
	h := sha256.Sum256(binary.BigEndian.AppendUint64(nil, lo))
	for i := range theta[:marks] {
		theta[i] += float32(int16(binary.BigEndian.Uint16(h[2*i:]))) / (1 << 16)
	}
}

// descend makes one local step for each batch of the positions, in place, and
// returns the mean loss before the steps.
func (m *simModel) descend(theta []float32, spans []wire.Span, batch int, scale float32) float32 {
	if m.cfg.Kind == "cost" {
		steps := wire.SpanLen(spans) / uint64(batch)
		loss := m.curve(float64(theta[0]))
		theta[0] += float32(steps)
		mark(theta[1:], spans[0].Lo)
		return float32(loss)
	}
	grad := make([]float32, len(theta))
	lr := m.cfg.LR * scale
	total, n := 0.0, 0
	for wire.SpanLen(spans) >= uint64(batch) {
		var now []wire.Span
		now, spans = wire.SplitSpans(spans, uint64(batch))
		total += float64(m.gradient(theta, now, grad))
		n++
		for i, g := range grad {
			theta[i] -= float32(lr * g)
		}
	}
	return float32(total / float64(max(1, n)))
}

// gradient writes the mean gradient over positions into dst and returns the mean loss.
func (m *simModel) gradient(theta []float32, spans []wire.Span, dst []float32) float32 {
	switch m.cfg.Kind {
	case "cost":
		dst[0] = -1
		return float32(m.curve(float64(theta[0])))
	case "mlp":
		return m.net.gradient(theta, spans, dst)
	}
	clear(dst)
	loss, n := 0.0, 0
	for _, s := range spans {
		for p := s.Lo; p < s.Hi; p++ {
			h := sha256.Sum256(binary.BigEndian.AppendUint64(nil, p))
			for i := range theta {
				e := theta[i] - 1 + float32(int8(h[i%32]))/512
				dst[i] += e
				loss += float64(e) * float64(e)
			}
			n++
		}
	}
	for i := range dst {
		dst[i] /= float32(n)
	}
	return float32(loss / float64(len(theta)) / float64(n))
}

// mlp is a two-layer classifier on the reference device. A fixed random network
// labels the samples, so that there is something to learn and no file to read.
type mlp struct {
	plan    *tensorops.Plan
	sess    tensorops.Session
	start   []float32
	batch   int
	teacher []float32 // classes x in
	seed    uint64
	x       []float32
	y       []int32
}

const (
	mlpIn      = 32
	mlpClasses = 10
)

func newMLP(cfg ModelConfig, seed uint64) (*mlp, error) {
	hidden := max(1, (cfg.Params-mlpClasses)/(mlpIn+1+mlpClasses))
	m := &mlp{batch: int(cfg.Batch), seed: seed, x: make([]float32, int(cfg.Batch)*mlpIn), y: make([]int32, cfg.Batch)}
	g := &tensorops.Graph{}
	x, y := g.Input("x", tensorops.F32, m.batch, mlpIn), g.Input("y", tensorops.I32, m.batch)
	he := func(n int) tensorops.Init {
		return tensorops.Init{Normal: true, Scale: float32(math.Sqrt(2 / float64(n)))}
	}
	h := g.Linear(x, g.Param("fc1.weight", he(mlpIn), false, hidden, mlpIn), g.Param("fc1.bias", tensorops.Init{}, false, hidden), tensorops.Relu)
	out := g.Linear(h, g.Param("fc2.weight", he(hidden), false, mlpClasses, hidden), g.Param("fc2.bias", tensorops.Init{}, false, mlpClasses), tensorops.None)
	var err error
	if m.plan, err = tensorops.Compile(g, g.CrossEntropy(out, y), tensorops.Options{}); err != nil {
		return nil, err
	}
	if m.sess, err = tensorops.Reference().Open(m.plan); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	m.start = make([]float32, m.plan.ParamLen)
	for _, p := range m.plan.Params {
		for i := range p.Shape.Size() {
			if p.Init.Normal {
				m.start[p.Off+i] = p.Init.Scale * gauss(rng)
			}
		}
	}
	m.teacher = make([]float32, mlpClasses*mlpIn)
	for i := range m.teacher {
		m.teacher[i] = gauss(rng)
	}
	return m, nil
}

// gauss is about normal: the sum of twelve uniforms has the same bits everywhere.
func gauss(rng *rand.Rand) float32 {
	s := -6.0
	for range 12 {
		s += rng.Float64()
	}
	return float32(s)
}

func (m *mlp) schema() wire.Schema {
	var s wire.Schema
	for _, p := range m.plan.Params {
		t := wire.Tensor{Name: p.Name}
		for _, d := range p.Shape {
			if d > 0 {
				t.Shape = append(t.Shape, uint32(d))
			}
		}
		s = append(s, t)
	}
	return s
}

// sample writes sample p and its label.
func (m *mlp) sample(p uint64, x []float32) int32 {
	rng := rand.New(rand.NewPCG(m.seed^0x73616d706c65, p))
	for i := range x {
		x[i] = gauss(rng)
	}
	best, label := float32(math.Inf(-1)), int32(0)
	for c := range mlpClasses {
		s := float32(0)
		for i, v := range x {
			s += float32(m.teacher[c*mlpIn+i] * v)
		}
		if s > best {
			best, label = s, int32(c)
		}
	}
	return label
}

// run adds the gradients of the samples at positions to the session and returns
// the summed loss.
func (m *mlp) run(positions []uint64) (float64, error) {
	total := 0.0
	for len(positions) > 0 {
		n := min(m.batch, len(positions))
		clear(m.x)
		for i := range m.y {
			m.y[i] = -1
		}
		for i, p := range positions[:n] {
			m.y[i] = m.sample(p, m.x[i*mlpIn:(i+1)*mlpIn])
		}
		positions = positions[n:]
		l, err := m.sess.Step(context.Background(), tensorops.Batch{Float: [][]float32{m.x}, Int: [][]int32{m.y}})
		if err != nil {
			return 0, err
		}
		total += l
	}
	return total, nil
}

func (m *mlp) gradient(theta []float32, spans []wire.Span, dst []float32) float32 {
	var at []uint64
	for _, s := range spans {
		for p := s.Lo; p < s.Hi; p++ {
			at = append(at, p)
		}
	}
	err := m.sess.Write(tensorops.Params, theta)
	m.sess.ZeroGrads()
	loss, err2 := m.run(at)
	if err = errors.Join(err, err2, m.sess.Read(tensorops.Grads, dst)); err != nil {
		panic(fmt.Sprintf("netsim: reference model: %v", err)) // shapes are its own
	}
	for i := range dst {
		dst[i] /= float32(len(at))
	}
	return float32(loss / float64(len(at)))
}

// eval returns the mean loss on samples that no position names.
func (m *mlp) eval(params []float32) float64 {
	const samples = 512
	at := make([]uint64, samples)
	for i := range at {
		at[i] = 1<<60 + uint64(i)
	}
	err := m.sess.Write(tensorops.Params, params)
	m.sess.ZeroGrads()
	loss, err2 := m.run(at)
	if err = errors.Join(err, err2); err != nil {
		panic(fmt.Sprintf("netsim: reference model: %v", err))
	}
	return loss / samples
}
