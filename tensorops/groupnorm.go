package tensorops

// B batch, P positions (H*W), C channels, G groups.

import (
	"fmt"
	"math"
)

// gnShape are the sizes of a group norm, as package cpu takes them.
type gnShape struct {
	b, p, c, g int
	eps        float64
	relu       bool
}

type groupNorm struct {
	leaf
	s gnShape
}

// GroupNorm returns act(gain*(x-mean)/sqrt(var+eps) + shift), act None or Relu:
// x [B,H,W,C], gain and shift [C]; mean and variance are those of a sample's group
// of C/groups channels (Wu and He 2018). Sums are float64, by channel, positions
// ascending, then channels ascending.
func (g *Graph) GroupNorm(x, gain, shift V, groups int, eps float64, act Act) V {
	s := x.Shape
	if s.Rank() != 4 || groups < 1 || s[3]%groups != 0 || act == Gelu {
		panic(fmt.Sprintf("tensorops: group norm of %v in %d groups", s, groups))
	}
	want("groupnorm", "gain", gain, F32, s[3])
	want("groupnorm", "shift", shift, F32, s[3])
	o := &groupNorm{s: gnShape{b: s[0], p: s[1] * s[2], c: s[3], g: groups, eps: eps, relu: act == Relu}}
	return g.apply(o, []V{x, gain, shift}, s)[0]
}

func (o *groupNorm) name() string    { return "groupnorm" }
func (o *groupNorm) aux() (int, int) { return 2 * o.s.b * o.s.g, 2 * o.s.b * o.s.c }
func (o *groupNorm) reads() (uint, uint) {
	if o.s.relu {
		return 3, 1
	}
	return 3, 0
}

func (o *groupNorm) forward(k kernels, c *call) {
	k.gnForward(o.s, c.in[0], c.in[1], c.in[2], c.out[0], c.keep)
}

// backward adds the samples' shares of dgain and dshift ascending.
func (o *groupNorm) backward(k kernels, c *call) {
	k.gnBackward(o.s, c.in[0], c.out[0], c.in[1], c.keep, c.dout[0], c.din[0], c.work)
	for n := range o.s.b {
		for j := range o.s.c {
			c.din[1][j] += c.work[2*n*o.s.c+j]
			c.din[2][j] += c.work[(2*n+1)*o.s.c+j]
		}
	}
}

// sums adds, by channel, x and x*y over the positions of one sample.
func (o gnShape) sums(x, y []float32, s, q []float64) {
	clear(s)
	clear(q)
	for p := range o.p {
		y := y[p*o.c:][:o.c]
		for j, f := range x[p*o.c:][:o.c] {
			d := float64(f)
			s[j] += d
			q[j] += float64(d * float64(y[j]))
		}
	}
}

func (reference) gnForward(o gnShape, x, gain, shift, y, stats []float32) {
	s, q, per := make([]float64, o.c), make([]float64, o.c), o.c/o.g
	a, b := make([]float32, o.c), make([]float32, o.c)
	for n := range o.b {
		x, y := x[n*o.p*o.c:][:o.p*o.c], y[n*o.p*o.c:][:o.p*o.c]
		o.sums(x, x, s, q)
		for g := range o.g {
			sum, sq, m := 0.0, 0.0, float64(per*o.p)
			for j := g * per; j < (g+1)*per; j++ {
				sum += s[j]
				sq += q[j]
			}
			mean := sum / m
			rstd := 1 / math.Sqrt(max(0, sq/m-float64(mean*mean))+o.eps)
			stats[2*(n*o.g+g)], stats[2*(n*o.g+g)+1] = float32(mean), float32(rstd)
			for j := g * per; j < (g+1)*per; j++ {
				a[j] = float32(gain[j] * float32(rstd))
				b[j] = shift[j] - float32(float32(mean)*a[j])
			}
		}
		for i := 0; i < len(x); i += o.c {
			y := y[i:][:o.c]
			for j, f := range x[i:][:o.c] {
				v := float32(f*a[j]) + b[j]
				if o.relu && !(v > 0) {
					v = 0
				}
				y[j] = v
			}
		}
	}
}

// gnBackward: h = (x-mean)*rstd; A, B = means over the group of gain*dy and
// gain*dy*h; dx = rstd*(gain*dy - A - h*B), not written where nil; work receives each
// sample's sums of dy*h and of dy, by channel.
func (k reference) gnBackward(o gnShape, x, y, gain, stats, dy, dx, work []float32) {
	s, q, per := make([]float64, o.c), make([]float64, o.c), o.c/o.g
	u, v, w := make([]float32, o.c), make([]float32, o.c), make([]float32, o.c)
	masked := make([]float32, o.p*o.c)
	for n := range o.b {
		at := n * o.p * o.c
		x, dy, work := x[at:][:o.p*o.c], dy[at:][:o.p*o.c], work[2*n*o.c:][:2*o.c]
		if o.relu {
			k.reluMask(dy, y[at:][:o.p*o.c], masked)
			dy = masked
		}
		o.sums(dy, x, s, q)
		for g := range o.g {
			mean, rstd := float64(stats[2*(n*o.g+g)]), float64(stats[2*(n*o.g+g)+1])
			a, b, m := 0.0, 0.0, float64(per*o.p)
			for j := g * per; j < (g+1)*per; j++ {
				q[j] = float64((q[j] - float64(mean*s[j])) * rstd)
				a += float64(float64(gain[j]) * s[j])
				b += float64(float64(gain[j]) * q[j])
			}
			a, b = a/m, b/m
			for j := g * per; j < (g+1)*per; j++ {
				u[j] = float32(float64(gain[j]) * rstd)
				v[j] = float32(-float64(rstd*rstd) * b)
				w[j] = float32(float64(float64(mean*float64(rstd*rstd))*b) - float64(rstd*a))
				work[j], work[o.c+j] = float32(q[j]), float32(s[j])
			}
		}
		if dx == nil {
			continue
		}
		dx := dx[at:][:o.p*o.c]
		for i := 0; i < len(dx); i += o.c {
			x, dy := x[i:][:o.c], dy[i:][:o.c]
			for j := range dx[i:][:o.c] {
				dx[i+j] = float32(dy[j]*u[j]) + float32(x[j]*v[j]) + w[j]
			}
		}
	}
}
