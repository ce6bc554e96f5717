package tensorops

// B batch, H W input size, C input channels, O outputs, KH KW kernel.

import (
	"fmt"

	"github.com/apiary-net/hived/tensorops/num"
)

// geometry is B, H, W, C, OH, OW, O, KH, KW, stride, pad, groups, as package cpu
// reads it.
type geometry [12]int

type conv struct {
	leaf
	g    geometry
	bias bool
	relu bool
}

// Conv returns act(conv(x, w) + b), act None or Relu: x [B,H,W,C], w [O,KH,KW,C/G],
// b [O] (or the zero V for none) to [B,H',W',O], H' = (H+2*pad-KH)/stride+1. G
// groups, told by the shape of w, each join their share of channels and outputs. It
// is a matrix product over patches in (kh, kw, c) order with zeros outside, blocks
// of K as in gemm.go.
func (g *Graph) Conv(x, w, b V, stride, pad int, act Act) V {
	s, o, kh, kw := x.Shape, w.Shape[0], w.Shape[1], w.Shape[2]
	if s.Rank() != 4 || w.Shape.Rank() != 4 || w.Type != F32 || s[3]%w.Shape[3] != 0 || o%(s[3]/w.Shape[3]) != 0 ||
		stride < 1 || pad < 0 || s[1]+2*pad < kh || s[2]+2*pad < kw || act == Gelu {
		panic(fmt.Sprintf("tensorops: conv of %v by %v, stride %d, pad %d", s, w.Shape, stride, pad))
	}
	oh, ow := (s[1]+2*pad-kh)/stride+1, (s[2]+2*pad-kw)/stride+1
	c := &conv{g: geometry{s[0], s[1], s[2], s[3], oh, ow, o, kh, kw, stride, pad, s[3] / w.Shape[3]}, bias: b.Shape != Shape{}, relu: act == Relu}
	in := []V{x, w}
	if c.bias {
		want("conv", "bias", b, F32, o)
		in = append(in, b)
	} else if c.relu {
		panic("tensorops: conv: relu without bias")
	}
	return g.apply(c, in, Dims(s[0], oh, ow, o))[0]
}

func (c *conv) name() string { return "conv" }
func (c *conv) edits() bool  { return c.relu }
func (c *conv) reads() (uint, uint) {
	if c.relu {
		return 3, 1
	}
	return 3, 0
}

func (c *conv) forward(k kernels, a *call) {
	var bias []float32
	if c.bias {
		bias = a.in[2]
	}
	k.convForward(&c.g, a.in[0], a.in[1], bias, a.out[0], c.relu)
}

func (c *conv) backward(k kernels, a *call) {
	dy := a.dout[0]
	if c.relu {
		k.reluMask(dy, a.out[0], dy)
	}
	if c.bias {
		k.columns(c.g[0]*c.g[4]*c.g[5], c.g[6], dy, a.din[2])
	}
	k.convWeight(&c.g, dy, a.in[0], a.din[1])
	if a.din[0] != nil {
		k.convInput(&c.g, dy, a.in[1], a.din[0])
	}
}

// each calls f for every output position and tap inside the image with the offsets
// of the tap's input and of the position's output.
func (g *geometry) each(f func(pos, tap, in int)) {
	b, h, w, c, oh, ow, kw, stride, pad := g[0], g[1], g[2], g[3], g[4], g[5], g[8], g[9], g[10]
	for q := range b * oh * ow {
		n, y0, x0 := q/(oh*ow), q/ow%oh*stride-pad, q%ow*stride-pad
		for t := range g[7] * kw {
			if u, v := y0+t/kw, x0+t%kw; u >= 0 && u < h && v >= 0 && v < w {
				f(q, t, ((n*h+u)*w+v)*c)
			}
		}
	}
}

// patches returns the matrix [B*OH*OW, KH*KW*C/G] of group i of x.
func patches(g *geometry, x []float32, i int) []float32 {
	c, taps := g[3]/g[11], g[7]*g[8]
	m := make([]float32, g[0]*g[4]*g[5]*taps*c)
	g.each(func(pos, tap, in int) { copy(m[(pos*taps+tap)*c:][:c], x[in+i*c:]) })
	return m
}

func (r reference) convForward(g *geometry, x, w, bias, y []float32, relu bool) {
	n, o, k := g[0]*g[4]*g[5], g[6]/g[11], g[7]*g[8]*g[3]/g[11]
	for i := range g[11] {
		r.gemm(n, o, k, mat{patches(g, x, i), k, 1}, mat{w[i*o*k:], k, 1}, y[i*o:], g[6], false, finish{})
	}
	if bias != nil {
		addBias(n, g[6], y, g[6], bias, relu)
	}
}

// convInput writes dx: a product of the gradients of the outputs that used an input
// and the weights they used, with (kh, kw, o) as depth, zeros for outputs outside.
// Taps that fall between outputs of a stride are no part of the chains.
func (r reference) convInput(g *geometry, dy, w, dx []float32) {
	h, wd, c, oh, ow, kh, kw, stride, pad := g[1], g[2], g[3]/g[11], g[4], g[5], g[7], g[8], g[9], g[10]
	o := g[6] / g[11]
	kc, s := kcOf(kh*kw*o), make([]float32, c)
	for q := range g[0] * h * wd {
		n, y, x := q/(h*wd), q/wd%h, q%wd
		for i := range g[11] {
			row := dx[q*g[3]+i*c:][:c]
			for p0 := 0; p0 < kh*kw*o; p0 += kc {
				clear(s)
				for p := p0; p < min(kh*kw*o, p0+kc); p++ {
					u, v, d := y+pad-p/o/kw, x+pad-p/o%kw, float32(0)
					if u%stride != 0 || v%stride != 0 {
						continue
					}
					if u >= 0 && v >= 0 && u/stride < oh && v/stride < ow {
						d = dy[((n*oh+u/stride)*ow+v/stride)*g[6]+i*o+p%o]
					}
					for j, f := range w[((i*o+p%o)*kh*kw+p/o)*c:][:c] {
						s[j] = num.Fma32(d, f, s[j])
					}
				}
				for j, f := range s {
					if p0 > 0 {
						f = row[j] + f
					}
					row[j] = f
				}
			}
		}
	}
}

// convWeight adds dy' patches(x) to dw.
func (r reference) convWeight(g *geometry, dy, x, dw []float32) {
	o, k := g[6]/g[11], g[7]*g[8]*g[3]/g[11]
	for i := range g[11] {
		r.gemm(o, k, g[0]*g[4]*g[5], mat{dy[i*o:], 1, g[6]}, mat{patches(g, x, i), 1, k}, dw[i*o*k:], k, true, finish{})
	}
}
