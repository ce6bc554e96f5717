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
)

// Optimizer holds what stays fixed during a training.
type Optimizer struct {
	Rule         Rule
	Beta1, Beta2 float32 // AdamW: decays, in [0, 1); SGD: Beta1 is the momentum
	Eps          float32 // AdamW: > 0
	WeightDecay  float32 // of parameters with Decay; others 0
	Clip         float32 // bound of the gradient's norm; 0 is none
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

// Update makes one pass over parameters, gradients and moments.
func (s *hostSession) Update(o Optimizer, u UpdateArgs) error {
	if !s.plan.train || u.Step == 0 {
		return fmt.Errorf("update number %d: plan for training: %v", u.Step, s.plan.train)
	}
	scale := u.Scale
	if o.Clip > 0 {
		norm := math.Sqrt(s.k.sumSquares(s.vec[Grads], s.part)) * scale
		if !(norm <= math.MaxFloat64) {
			return fmt.Errorf("update number %d: gradient is not finite", u.Step)
		}
		if norm > float64(o.Clip) {
			scale *= float64(o.Clip) / norm
		}
	}
	c := coef{float32(scale), u.LR, o.Beta1, o.Beta2, o.Eps, 0, 1, 1}
	if o.Rule == AdamW {
		c[6], c[7] = BiasCorrection(o.Beta1, u.Step), BiasCorrection(o.Beta2, u.Step)
	}
	for i := 0; i < len(s.plan.Params); {
		lo, hi, decay, factor := -1, 0, false, float32(1)
		for ; i < len(s.plan.Params); i++ { // neighbours with the same decay and rate are one stretch
			p := s.plan.Params[i]
			if p.Buffer {
				continue
			}
			if lo < 0 {
				lo, decay, factor = p.Off, p.Decay, u.factor(i)
			} else if p.Decay != decay || u.factor(i) != factor {
				break
			}
			hi = p.Off + p.Shape.Size()
		}
		if lo < 0 {
			break
		}
		c[1], c[5] = float32(u.LR*factor), 0
		if decay {
			c[5] = o.WeightDecay
		}
		if o.Rule == AdamW {
			s.k.adamw(s.vec[Params][lo:hi], s.vec[M1][lo:hi], s.vec[M2][lo:hi], s.vec[Grads][lo:hi], &c)
		} else {
			s.k.sgd(s.vec[Params][lo:hi], s.vec[M1][lo:hi], s.vec[Grads][lo:hi], &c)
		}
	}
	return nil
}

// BiasCorrection returns 1/(1-beta^t) rounded once to float32; the power is taken
// by squaring in float64.
func BiasCorrection(beta float32, t uint64) float32 {
	p, b := 1.0, float64(beta)
	for ; t > 0; t >>= 1 {
		if t&1 == 1 {
			p *= b
		}
		b *= b
	}
	return float32(1 / (1 - p))
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
