package tensorops

import (
	"fmt"
	"math"

	"github.com/apiary-net/hived/tensorops/num"
)

// Rule names an optimizer.
type Rule uint8

// The optimizers.
const (
	AdamW Rule = iota // Loshchilov and Hutter 2019, algorithm 2, with bias correction
	SGD               // heavy-ball momentum, weight decay in the gradient
	LAMB              // AdamW with a rate for each tensor, see lamb.go
	Muon              // orthogonal steps for hidden matrices, see muon.go; AdamW for the rest
)

// Optimizer holds what stays fixed during a training.
type Optimizer struct {
	Rule         Rule
	Beta1, Beta2 float32 // decays, in [0, 1); SGD: Beta1 is the momentum
	Eps          float32 // all but SGD: > 0
	WeightDecay  float32 // of parameters with Decay; others 0
	Clip         float32 // bound of the gradient's norm; 0 is none
	Momentum     float32 // Muon: of hidden matrices, in [0, 1)
	Boost        float32 // Muon: their learning rate, relative to UpdateArgs.LR
}

// UpdateArgs is what changes: the learning rate, what gradients are multiplied
// with (one over the samples), and the number of this update, from 1.
type UpdateArgs struct {
	LR    float32
	Scale float64
	Step  uint64
	// Factors multiply the rate of each of Plan.Params; nil is 1 for all.
	Factors []float32
}

// factor of parameter i.
func (u UpdateArgs) factor(i int) float32 {
	if u.Factors == nil {
		return 1
	}
	return u.Factors[i]
}

// coef is gradient scale, rate, decays, epsilon, weight decay, bias corrections.
type coef [8]float32

// OptimizerBytes returns what Update takes for o besides Plan.Peak.
func (p *Plan) OptimizerBytes(o Optimizer) int64 {
	most := 0
	for _, q := range p.Params {
		switch {
		case q.Buffer:
		case o.Rule == LAMB:
			most = max(most, q.Shape.Size())
		case o.Rule == Muon && q.Hidden:
			most = max(most, muonFloats(q))
		}
	}
	return 4 * int64(most)
}

// Update makes one pass over parameters, gradients and moments. Where o.Clip or
// bfloat16 asks for it, a gradient that is not finite is an error and changes nothing.
func (s *hostSession) Update(o Optimizer, u UpdateArgs) error {
	if !s.plan.train || u.Step == 0 {
		return fmt.Errorf("update number %d: plan for training: %v", u.Step, s.plan.train)
	}
	s.settle()
	scale := u.Scale
	if o.Clip > 0 || s.plan.bf16 {
		norm := math.Sqrt(s.k.sumSquares(s.vec[Grads], s.part)) * scale
		if !(norm <= math.MaxFloat64) {
			return fmt.Errorf("update number %d: gradient is not finite", u.Step)
		}
		if o.Clip > 0 && norm > float64(o.Clip) {
			scale *= float64(o.Clip) / norm
		}
	}
	if need := int(s.plan.OptimizerBytes(o) / 4); len(s.extra) < need {
		s.extra = aligned(need)
	}
	c := coef{float32(scale), u.LR, o.Beta1, o.Beta2, o.Eps, 0, 1, 1}
	if o.Rule != SGD {
		c[6], c[7] = num.BiasCorrection(o.Beta1, u.Step), num.BiasCorrection(o.Beta2, u.Step)
	}
	for _, t := range s.plan.stretches(o.Rule, u) {
		c[1], c[5] = float32(u.LR*t.factor), 0
		if t.decay {
			c[5] = o.WeightDecay
		}
		p, m, v, g := s.vec[Params][t.lo:t.hi], s.vec[M1][t.lo:t.hi], s.vec[M2][t.lo:t.hi], s.vec[Grads][t.lo:t.hi]
		switch {
		case o.Rule == SGD:
			s.k.sgd(p, m, g, &c)
		case o.Rule == LAMB:
			s.lamb(p, m, v, g, c)
		case t.hidden != nil && o.Rule == Muon:
			s.muon(o, t.hidden, p, m, g, &c)
		default:
			s.k.adamw(p, m, v, g, &c)
		}
	}
	return nil
}

// stretch is a run of the flat vector that one rule treats alike.
type stretch struct {
	lo, hi int
	decay  bool
	factor float32 // of the learning rate
	hidden *Param  // the single matrix of a Muon step
}

// stretches joins neighbours with the same decay and rate, where the rule does not
// look at each tensor.
func (p *Plan) stretches(r Rule, u UpdateArgs) []stretch {
	var out []stretch
	for i := range p.Params {
		q := &p.Params[i]
		if q.Buffer {
			continue
		}
		t := stretch{lo: q.Off, hi: q.Off + q.Shape.Size(), decay: q.Decay, factor: u.factor(i)}
		if r == Muon && q.Hidden {
			t.hidden = q
		}
		if n := len(out) - 1; n >= 0 && r != LAMB && t.hidden == nil && out[n].hidden == nil && out[n].decay == t.decay && out[n].factor == t.factor {
			out[n].hi = t.hi
			continue
		}
		out = append(out, t)
	}
	return out
}

// adamw: x = g*scale; m = fma(b1, m, (1-b1)x); v = fma(b2, v, (1-b2)x*x);
// q = fma(wd, p, m*c1/(sqrt(v*c2)+eps)); p = fma(-lr, q, p).
func (reference) adamw(p, m, v, g []float32, c *coef) {
	b1, b2 := c[2], c[3]
	d1, d2 := 1-b1, 1-b2
	for i := range p {
		x := float32(g[i] * c[0])
		m[i] = num.Fma32(b1, m[i], float32(x*d1))
		v[i] = num.Fma32(b2, v[i], float32(float32(x*d2)*x))
		q := float32(m[i]*c[6]) / (sqrt32(float32(v[i]*c[7])) + c[4])
		q = num.Fma32(c[5], p[i], q)
		p[i] = num.Fma32(-c[1], q, p[i])
	}
}

// sgd: x = g*scale; m = fma(mu, m, fma(wd, p, x)); p = fma(-lr, m, p).
func (reference) sgd(p, m, g []float32, c *coef) {
	for i := range p {
		m[i] = num.Fma32(c[2], m[i], num.Fma32(c[5], p[i], float32(g[i]*c[0])))
		p[i] = num.Fma32(-c[1], m[i], p[i])
	}
}

func (reference) sumSquares(x []float32, _ []float64) float64 { return num.SumSquares(x) }

// combine writes z = fma(a, x, b*y); z may be either. Where b is 0 y is not read,
// x stands for it.
func (reference) combine(a float32, x []float32, b float32, y, z []float32) {
	if b == 0 {
		y = x
	}
	for i := range z {
		z[i] = num.Fma32(a, x[i], float32(b*y[i]))
	}
}
