package tensorops

// B batch, T time, C input channels, O outputs, K taps.

import "fmt"

type causalConv struct {
	leaf
	b, t, c, o, k, dilation int
	relu                    bool
}

// CausalConv returns act(sum over taps of w[.,i,.] x[t-(K-1-i)*dilation] + b), act
// None or Relu, with zeros before the start: x [B,T,C], w [O,K,C], b [O] to [B,T,O]
// (van den Oord et al., "WaveNet", 2016, section 2.1). It is a matrix product over
// patches in (tap, channel) order, blocks of K as in gemm.go.
func (g *Graph) CausalConv(x, w, b V, dilation int, act Act) V {
	s, o, k := x.Shape, w.Shape[0], w.Shape[1]
	if s.Rank() != 3 || dilation < 1 || act == Gelu {
		panic(fmt.Sprintf("tensorops: causal conv of %v, dilation %d", s, dilation))
	}
	want("causal conv", "weight", w, F32, o, k, s[2])
	want("causal conv", "bias", b, F32, o)
	c := &causalConv{b: s[0], t: s[1], c: s[2], o: o, k: k, dilation: dilation, relu: act == Relu}
	return g.apply(c, []V{x, w, b}, Dims(s[0], s[1], o))[0]
}

func (o *causalConv) name() string { return "causalconv" }
func (o *causalConv) edits() bool  { return o.relu }
func (o *causalConv) aux() (int, int) {
	n := o.b * o.t * o.k * o.c
	return n, n
}
func (o *causalConv) reads() (uint, uint) {
	if o.relu {
		return 2, 1
	}
	return 2, 0
}

// each calls f with the offsets of a patch's tap and of its input, -1 before the
// start.
func (o *causalConv) each(f func(patch, in int)) {
	for r := range o.b * o.t {
		for i := range o.k {
			at, back := -1, (o.k-1-i)*o.dilation
			if r%o.t >= back {
				at = (r - back) * o.c
			}
			f((r*o.k+i)*o.c, at)
		}
	}
}

func (o *causalConv) forward(k kernels, c *call) {
	patches, n := c.keep, o.k*o.c
	o.each(func(p, in int) {
		if in < 0 {
			clear(patches[p:][:o.c])
			return
		}
		copy(patches[p:][:o.c], c.in[0][in:])
	})
	k.gemm(o.b*o.t, o.o, n, mat{patches, n, 1}, mat{c.in[1], n, 1}, c.out[0], o.o, false, finish{bias: c.in[2], relu: o.relu})
}

func (o *causalConv) backward(k kernels, c *call) {
	dy, rows, n := c.dout[0], o.b*o.t, o.k*o.c
	if o.relu {
		k.reluMask(dy, c.out[0], dy)
	}
	k.columns(rows, o.o, dy, c.din[2])
	k.gemm(o.o, n, rows, mat{dy, 1, o.o}, mat{c.keep, 1, n}, c.din[1], n, true, finish{})
	if c.din[0] == nil {
		return
	}
	k.gemm(rows, n, o.o, mat{dy, o.o, 1}, mat{c.in[1], 1, n}, c.work, n, false, finish{})
	clear(c.din[0])
	o.each(func(p, in int) {
		if in < 0 {
			return
		}
		dx := c.din[0][in:][:o.c]
		for j, f := range c.work[p:][:o.c] {
			dx[j] += f
		}
	})
}
