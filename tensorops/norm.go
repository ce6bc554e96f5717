package tensorops

// N rows, C channels.

import (
	"math"

	"github.com/apiary-net/hived/tensorops/num"
)

type norm struct {
	leaf
	n, c  int
	eps   float32
	fused bool
	x     int // operand: after gain and, but for a root mean square, shift
}

// Norm returns the layer norm of sum = x + res over the last dimension, and sum
// itself: gain*(sum-mean)/sqrt(var+eps) + shift (Ba, Kiros, Hinton 2016, section
// 3). x and res [..,C], gain and shift [C]. res may be the zero V: then sum is x.
func (g *Graph) Norm(x, res, gain, shift V, eps float32) (y, sum V) {
	n, c := x.Shape.Last()
	want("norm", "gain", gain, F32, c)
	want("norm", "shift", shift, F32, c)
	return g.norm(&norm{n: n, c: c, eps: eps}, x, res, gain, shift)
}

// RMSNorm is Norm without mean and shift: gain*sum/sqrt(mean(sum^2)+eps) (Zhang and
// Sennrich 2019).
func (g *Graph) RMSNorm(x, res, gain V, eps float32) (y, sum V) {
	n, c := x.Shape.Last()
	want("rmsnorm", "gain", gain, F32, c)
	return g.norm(&norm{n: n, c: c, eps: eps}, x, res, gain)
}

// norm appends o of x and, where it is there, res.
func (g *Graph) norm(o *norm, x, res V, params ...V) (y, sum V) {
	o.x, o.fused = len(params), res.Shape != Shape{}
	if !o.fused {
		return g.apply(o, append(params, x), x.Shape)[0], x
	}
	want("norm", "residual", res, F32, x.Shape[:x.Shape.Rank()]...)
	out := g.apply(o, append(params, x, res), x.Shape, x.Shape)
	return out[0], out[1]
}

func (o *norm) name() string    { return "norm" }
func (o *norm) aux() (int, int) { return 2 * o.n, chunks(o.n) * 2 * o.c }
func (o *norm) shares() (int, uint) {
	if o.fused {
		return 1, 3 << o.x
	}
	return -1, 0
}
func (o *norm) reads() (uint, uint) {
	if o.fused {
		return 1, 2
	}
	return 1 | 1<<o.x, 0
}

// shift returns the second of the parameters, nil of a root mean square.
func (o *norm) shift(params [][]float32) []float32 {
	if o.x == 1 {
		return nil
	}
	return params[1]
}

func (o *norm) forward(k kernels, c *call) {
	var res, sum []float32
	if o.fused {
		res, sum = c.in[o.x+1], c.out[1]
	}
	k.normForward(o.n, o.c, o.eps, c.in[o.x], res, c.in[0], o.shift(c.in), c.out[0], sum, c.keep)
}

func (o *norm) backward(k kernels, c *call) {
	sum, dx := c.in[o.x], c.din[o.x]
	var dsum []float32
	if o.fused {
		sum, dsum = c.out[1], c.dout[1]
		if dx == nil {
			dx = c.din[o.x+1]
		}
	}
	if dx == nil { // of frozen weights: nobody reads it
		dx = make([]float32, len(sum))
	}
	k.normBackward(o.n, o.c, sum, c.keep, c.in[0], c.dout[0], dsum, dx, c.din[0], o.shift(c.din), c.work)
	if o.fused && c.din[o.x+1] != nil && &c.din[o.x+1][0] != &dx[0] {
		copy(c.din[o.x+1], dx)
	}
}

// normForward: per row mean = sum/C; d = x - mean; rstd = 1/sqrt(sum d*d / C + eps);
// y = fma(d*rstd, gain, shift). Sums by 32 lanes. Where shift is nil, it and mean are 0.
func (reference) normForward(n, c int, eps float32, x, res, gain, shift, y, sum, stats []float32) {
	for r := range n {
		row := x[r*c:][:c]
		if res != nil {
			s := sum[r*c:][:c]
			for j := range s {
				s[j] = row[j] + res[r*c+j]
			}
			row = s
		}
		mean := float32(0)
		if shift != nil {
			mean = sumRow(row) / float32(c)
		}
		d := y[r*c:][:c]
		for j := range d {
			d[j] = row[j] - mean
		}
		rstd := 1 / sqrt32(dotRow(d, d)/float32(c)+eps)
		for j := range d {
			s := float32(0)
			if shift != nil {
				s = shift[j]
			}
			d[j] = num.Fma32(float32(d[j]*rstd), gain[j], s)
		}
		stats[2*r], stats[2*r+1] = mean, rstd
	}
}

// normBackward: h = (x-mean)*rstd; e = dy*gain; a = sum e / C; b = sum e*h / C;
// dx = fma(h, -b, e-a)*rstd (+ dsum). dgain and dshift are chains over 64-row
// chunks, added ascending. Where dshift is nil, a is 0.
func (reference) normBackward(n, c int, sum, stats, gain, dy, dsum, dx, dgain, dshift, part []float32) {
	h, e := make([]float32, c), make([]float32, c)
	clear(part)
	for r := range n {
		mean, rstd := stats[2*r], stats[2*r+1]
		dg, db := part[r/chunk*2*c:][:c], part[r/chunk*2*c+c:][:c]
		for j := range h {
			d := dy[r*c+j]
			h[j] = float32((sum[r*c+j] - mean) * rstd)
			e[j] = float32(d * gain[j])
			dg[j] = num.Fma32(d, h[j], dg[j])
			db[j] += d
		}
		a, b := float32(0), -(dotRow(e, h) / float32(c))
		if dshift != nil {
			a = sumRow(e) / float32(c)
		}
		for j := range h {
			u := float32(num.Fma32(h[j], b, e[j]-a) * rstd)
			if dsum != nil {
				u = dsum[r*c+j] + u
			}
			dx[r*c+j] = u
		}
	}
	for t := range chunks(n) {
		for j := range c {
			dgain[j] += part[t*2*c+j]
			if dshift != nil {
				dshift[j] += part[t*2*c+c+j]
			}
		}
	}
}

func sqrt32(x float32) float32 { return float32(math.Sqrt(float64(x))) }
