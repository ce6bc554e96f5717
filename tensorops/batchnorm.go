package tensorops

// N rows (batch and space), C channels.

import (
	"math"

	"github.com/apiary-net/hived/tensorops/num"
)

// BatchNorm holds the parameters [C] and buffers [C] of a batch norm.
type BatchNorm struct {
	Gain, Shift   V       // parameters
	Mean, Var     V       // buffers: running statistics, which inference uses
	Eps, Momentum float32 // Momentum is the share of the newest batch
}

type batchNorm struct {
	b, n, c       int // b samples in n rows
	eps, momentum float32
	res, relu     bool
}

// BatchNorm returns act(gain*(x-mean)/sqrt(var+eps) + shift + res), act None or
// Relu, with mean and variance of each channel over all rows of the batch (Ioffe
// and Szegedy 2015, algorithm 1): x and res [..,C]; res may be the zero V. A
// training step moves the running statistics, the variance unbiased; without
// training they take the place of the batch's. Rows of samples beyond Batch.Samples
// are left out of statistics and have no gradient.
func (g *Graph) BatchNorm(x, res V, p BatchNorm, act Act) V {
	n, c := x.Shape.Last()
	for _, v := range []V{p.Gain, p.Shift, p.Mean, p.Var} {
		want("batch norm", "parameter", v, F32, c)
	}
	if act == Gelu || n < 2 {
		panic("tensorops: batch norm of " + x.Shape.String())
	}
	o := &batchNorm{b: x.Shape[0], n: n, c: c, eps: p.Eps, momentum: p.Momentum, relu: act == Relu}
	in := []V{x, p.Gain, p.Shift, p.Mean, p.Var}
	if o.res = res.Shape != (Shape{}); o.res {
		want("batch norm", "residual", res, F32, x.Shape[:x.Shape.Rank()]...)
		in = append(in, res)
	}
	return g.apply(o, in, x.Shape)[0]
}

func (o *batchNorm) name() string { return "batchnorm" }
func (o *batchNorm) aux() (int, int) {
	return 2 * o.c, (2*chunks(o.n) + 2) * o.c
}
func (o *batchNorm) edits() bool  { return o.relu }
func (o *batchNorm) writes() uint { return 0 }
func (o *batchNorm) shares() (int, uint) {
	if o.res {
		return 0, 1 << 5
	}
	return 0, 1
}
func (o *batchNorm) reads() (uint, uint) {
	if o.relu {
		return 3, 1
	}
	return 3, 0
}

func (o *batchNorm) forward(k kernels, c *call) {
	a := bnArgs{n: o.n, c: o.c, x: c.in[0], gain: c.in[1], shift: c.in[2], y: c.out[0], stats: c.keep, relu: o.relu}
	if o.res {
		a.res = c.in[5]
	}
	mean, variance := c.in[3], c.in[4]
	if !c.train {
		for j := range mean {
			a.stats[j], a.stats[o.c+j] = mean[j], rstd(float64(variance[j]), o.eps)
		}
		k.bnApply(&a)
		return
	}
	a.n = o.real(c)
	m2 := k.bnStats(&a)
	for j := range mean {
		v := m2[j] / float64(a.n)
		a.stats[o.c+j] = rstd(v, o.eps)
		if c.again {
			continue
		}
		mean[j] = num.Fma32(o.momentum, a.stats[j]-mean[j], mean[j])
		variance[j] = num.Fma32(o.momentum, float32(m2[j]/float64(max(1, a.n-1)))-variance[j], variance[j])
	}
	a.n = o.n
	k.bnApply(&a)
}

// real is the number of rows that samples of the batch have.
func (o *batchNorm) real(c *call) int { return o.n / o.b * min(o.b, *c.samples) }

func rstd(variance float64, eps float32) float32 {
	return float32(1 / math.Sqrt(variance+float64(eps)))
}

func (o *batchNorm) backward(k kernels, c *call) {
	a := bnArgs{n: o.real(c), c: o.c, x: c.in[0], gain: c.in[1], stats: c.keep, dy: c.dout[0], dx: c.din[0], work: c.work}
	if o.relu {
		a.y = c.out[0]
	}
	k.bnSums(&a)
	a1, b1 := c.work[:o.c], c.work[o.c:][:o.c]
	for j := range a1 {
		c.din[2][j] += a1[j]
		c.din[1][j] += b1[j]
		a1[j] /= float32(a.n)
		b1[j] /= float32(a.n)
	}
	if o.res && c.din[5] != nil && &c.din[5][0] != &a.dy[0] {
		copy(c.din[5], a.dy)
	}
	if a.dx != nil {
		k.bnInput(&a)
		clear(a.dx[a.n*o.c:])
	}
}

// bnArgs are the operands of the batch norm's kernels. stats holds means, then
// 1/sqrt(var+eps); work holds two vectors and 2*chunks(n) of them as scratch.
type bnArgs struct {
	n, c                          int
	x, res, gain, shift, stats, y []float32
	dy, dx, work                  []float32
	relu                          bool
}

// chunkMoments are one chunk's mean and sum of squared distances from it.
func chunkMoments(a *bnArgs, r0, r1, j int) (mean, m2 float32) {
	s := float32(0)
	for r := r0; r < r1; r++ {
		s += a.x[r*a.c+j]
	}
	mean = s / float32(r1-r0)
	for r := r0; r < r1; r++ {
		d := a.x[r*a.c+j] - mean
		m2 = num.Fma32(d, d, m2)
	}
	return mean, m2
}

// bnStats writes the means to stats and returns the sums of squared distances:
// chunks of 64 rows, joined ascending in float64 (Chan, Golub, LeVeque 1979,
// equation 2.1).
func (reference) bnStats(a *bnArgs) []float64 {
	out := make([]float64, a.c)
	for j := range a.c {
		mean, m2 := 0.0, 0.0
		for r0 := 0; r0 < a.n; r0 += chunk {
			r1 := min(a.n, r0+chunk)
			m, q := chunkMoments(a, r0, r1, j)
			share := float64(r1-r0) / float64(r1)
			d := float64(m) - mean
			mean += float64(d * share)
			m2 += float64(q) + float64(float64(d*d)*float64(float64(r0)*share))
		}
		a.stats[j], out[j] = float32(mean), m2
	}
	return out
}

// bnApply: y = fma(x-mean, rstd*gain, shift), then + res, then relu.
func (reference) bnApply(a *bnArgs) {
	for r := range a.n {
		for j := range a.c {
			i := r*a.c + j
			v := num.Fma32(a.x[i]-a.stats[j], float32(a.stats[a.c+j]*a.gain[j]), a.shift[j])
			if a.res != nil {
				v += a.res[i]
			}
			if a.relu && !(v > 0) {
				v = 0
			}
			a.y[i] = v
		}
	}
}

// bnSums clears dy where y (if not nil) is not above 0, and writes the column sums
// of dy and of dy*h, h = (x-mean)*rstd, to work: chunks of 64 rows, the second sum
// fused, added ascending.
func (reference) bnSums(a *bnArgs) {
	for j := range a.c {
		var sum, dot float32
		for r0 := 0; r0 < a.n; r0 += chunk {
			var s, q float32
			for r := r0; r < min(a.n, r0+chunk); r++ {
				i := r*a.c + j
				if a.y != nil && !(a.y[i] > 0) {
					a.dy[i] = 0
				}
				s += a.dy[i]
				q = num.Fma32(a.dy[i], float32((a.x[i]-a.stats[j])*a.stats[a.c+j]), q)
			}
			sum += s
			dot += q
		}
		a.work[j], a.work[a.c+j] = sum, dot
	}
}

// bnInput: dx = fma(h, -b, dy-a) * (rstd*gain), a and b the two vectors of work;
// dx may be dy.
func (reference) bnInput(a *bnArgs) {
	for r := range a.n {
		for j := range a.c {
			i, s := r*a.c+j, a.stats[a.c+j]
			h := float32((a.x[i] - a.stats[j]) * s)
			a.dx[i] = float32(num.Fma32(h, -a.work[a.c+j], a.dy[i]-a.work[j]) * float32(s*a.gain[j]))
		}
	}
}
