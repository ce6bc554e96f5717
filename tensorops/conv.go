package tensorops

// B batch, H W input size, C input channels, O outputs, KH KW kernel.

import "fmt"

// geometry is B, H, W, C, OH, OW, O, KH, KW, stride, pad, as package cpu reads it.
type geometry [11]int

type conv struct {
	leaf
	g    geometry
	bias bool
	relu bool
}

// Conv returns act(conv(x, w) + b), act None or Relu: x [B,H,W,C], w [O,KH,KW,C],
// b [O] (or the zero V for none) to [B,H',W',O], H' = (H+2*pad-KH)/stride+1. It is a matrix product over
// patches in (kh, kw, c) order with zeros outside, blocks of K as in gemm.go.
func (g *Graph) Conv(x, w, b V, stride, pad int, act Act) V {
	s, o := x.Shape, w.Shape[0]
	want("conv", "weight", w, F32, o, w.Shape[1], w.Shape[2], s[3])
	kh, kw := w.Shape[1], w.Shape[2]
	if s.Rank() != 4 || stride < 1 || pad < 0 || s[1]+2*pad < kh || s[2]+2*pad < kw || act == Gelu {
		panic(fmt.Sprintf("tensorops: conv of %v by %v, stride %d, pad %d", s, w.Shape, stride, pad))
	}
	oh, ow := (s[1]+2*pad-kh)/stride+1, (s[2]+2*pad-kw)/stride+1
	c := &conv{g: geometry{s[0], s[1], s[2], s[3], oh, ow, o, kh, kw, stride, pad}, bias: b.Shape != Shape{}, relu: act == Relu}
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

// patches returns the matrix [B*OH*OW, KH*KW*C] of x.
func patches(g *geometry, x []float32) []float32 {
	b, h, w, c, oh, ow, kh, kw, stride, pad := g[0], g[1], g[2], g[3], g[4], g[5], g[7], g[8], g[9], g[10]
	m := make([]float32, b*oh*ow*kh*kw*c)
	d := m
	for q := range b * oh * ow {
		n, y0, x0 := q/(oh*ow), q/ow%oh*stride-pad, q%ow*stride-pad
		for t := range kh * kw {
			u, v := y0+t/kw, x0+t%kw
			if u >= 0 && u < h && v >= 0 && v < w {
				copy(d[:c], x[((n*h+u)*w+v)*c:])
			}
			d = d[c:]
		}
	}
	return m
}

// backPatches returns the matrix [B*H*W, KH*KW*O] of dy: for each input position
// and tap the gradient of the output that used it there, or zeros.
func backPatches(g *geometry, dy []float32) []float32 {
	b, h, w, oh, ow, o, kh, kw, stride, pad := g[0], g[1], g[2], g[4], g[5], g[6], g[7], g[8], g[9], g[10]
	m := make([]float32, b*h*w*kh*kw*o)
	d := m
	for q := range b * h * w {
		n, y, x := q/(h*w), q/w%h, q%w
		for t := range kh * kw {
			u, v := y+pad-t/kw, x+pad-t%kw
			if u >= 0 && v >= 0 && u%stride == 0 && v%stride == 0 && u/stride < oh && v/stride < ow {
				copy(d[:o], dy[((n*oh+u/stride)*ow+v/stride)*o:])
			}
			d = d[o:]
		}
	}
	return m
}

func (r reference) convForward(g *geometry, x, w, bias, y []float32, relu bool) {
	k := g[7] * g[8] * g[3]
	r.gemm(g[0]*g[4]*g[5], g[6], k, mat{patches(g, x), k, 1}, mat{w, k, 1}, y, g[6], false, bias, relu)
}

// convInput writes dx = backPatches(dy) times w with (kh, kw, o) as depth.
func (r reference) convInput(g *geometry, dy, w, dx []float32) {
	c, o, taps := g[3], g[6], g[7]*g[8]
	wt := make([]float32, len(w))
	for i := range o {
		for t := range taps {
			copy(wt[(t*o+i)*c:][:c], w[(i*taps+t)*c:])
		}
	}
	r.gemm(g[0]*g[1]*g[2], c, taps*o, mat{backPatches(g, dy), taps * o, 1}, mat{wt, 1, c}, dx, c, false, nil, false)
}

// convWeight adds dy' patches(x) to dw.
func (r reference) convWeight(g *geometry, dy, x, dw []float32) {
	k := g[7] * g[8] * g[3]
	r.gemm(g[6], k, g[0]*g[4]*g[5], mat{dy, 1, g[6]}, mat{patches(g, x), 1, k}, dw, k, true, nil, false)
}
