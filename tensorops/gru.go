package tensorops

// B batch, T time, C input channels, H hidden.

import "fmt"

type gru struct {
	leaf
	b, t, c, h int
}

// GRU runs a gated recurrent unit over a whole sequence from a state of zeros: x
// [B,T,C], w [3H,C], u [3H,H], bw and bu [3H] to the states [B,T,H]. With gates in
// the order reset, update, new (Cho et al. 2014, in the form of cuDNN and PyTorch):
//
//	r, z = sigmoid(w x + bw + u h + bu); n = tanh(w x + bw + r*(u h + bu)); h = n + z*(h-n)
func (g *Graph) GRU(x, w, u, bw, bu V) V {
	s, h := x.Shape, u.Shape[1]
	if s.Rank() != 3 {
		panic(fmt.Sprintf("tensorops: gru of %v", s))
	}
	want("gru", "input weight", w, F32, 3*h, s[2])
	want("gru", "state weight", u, F32, 3*h, h)
	want("gru", "input bias", bw, F32, 3*h)
	want("gru", "state bias", bu, F32, 3*h)
	return g.apply(&gru{b: s[0], t: s[1], c: s[2], h: h}, []V{x, w, u, bw, bu}, Dims(s[0], s[1], h))[0]
}

func (o *gru) name() string        { return "gru" }
func (o *gru) reads() (uint, uint) { return 1 | 2 | 4, 1 }

// aux: forward keeps r, z, n and u h + bu of the new gate; backward needs the
// gradients of both products and the earlier states.
func (o *gru) aux() (int, int) {
	n := o.b * o.t * o.h
	return 4 * n, 7*n + 4*o.b*o.h
}

func (o *gru) forward(k kernels, c *call) {
	h3, n := 3*o.h, o.b*o.t*o.h
	gates, hn := c.keep[:3*n], c.keep[3*n:]
	k.gemm(o.b*o.t, h3, o.c, mat{c.in[0], o.c, 1}, mat{c.in[1], o.c, 1}, gates, h3, false, finish{bias: c.in[3]})
	uh, zero := make([]float32, o.b*h3), make([]float32, o.b*o.h)
	for t := range o.t {
		prev, stride := zero, o.h
		if t > 0 {
			prev, stride = c.out[0][(t-1)*o.h:], o.t*o.h
		}
		k.gemm(o.b, h3, o.h, mat{prev, stride, 1}, mat{c.in[2], o.h, 1}, uh, h3, false, finish{bias: c.in[4]})
		for b := range o.b {
			row := b*o.t + t
			a, s, y := gates[row*h3:][:h3], uh[b*h3:][:h3], c.out[0][row*o.h:][:o.h]
			for j := range o.h {
				r, z := sigmoid32(a[j]+s[j]), sigmoid32(a[o.h+j]+s[o.h+j])
				m := s[2*o.h+j]
				v := tanh32(a[2*o.h+j] + float32(r*m))
				a[j], a[o.h+j], a[2*o.h+j], hn[row*o.h+j] = r, z, v, m
				y[j] = v + float32(z*(prev[b*stride+j]-v))
			}
		}
	}
}

func (o *gru) backward(k kernels, c *call) {
	h3, n, rows := 3*o.h, o.b*o.t*o.h, o.b*o.t
	gates, hn := c.keep[:3*n], c.keep[3*n:]
	dgx, dgh, prev := c.work[:3*n], c.work[3*n:6*n], c.work[6*n:7*n] // of w x, of u h, h before
	dh, step := c.work[7*n:][:o.b*o.h], c.work[7*n+o.b*o.h:]
	for r := range rows {
		if r%o.t == 0 {
			clear(prev[r*o.h:][:o.h])
		} else {
			copy(prev[r*o.h:][:o.h], c.out[0][(r-1)*o.h:])
		}
	}
	clear(dh)
	for t := o.t - 1; t >= 0; t-- {
		for b := range o.b {
			row := b*o.t + t
			a, gx, gh := gates[row*h3:][:h3], dgx[row*h3:][:h3], dgh[row*h3:][:h3]
			for j := range o.h {
				r, z, v := a[j], a[o.h+j], a[2*o.h+j]
				d := dh[b*o.h+j] + c.dout[0][row*o.h+j]
				dv := float32(float32(d*(1-z)) * (1 - float32(v*v)))
				dz := float32(float32(d*(prev[row*o.h+j]-v)) * float32(z*(1-z)))
				dr := float32(float32(dv*hn[row*o.h+j]) * float32(r*(1-r)))
				gx[j], gx[o.h+j], gx[2*o.h+j] = dr, dz, dv
				gh[j], gh[o.h+j], gh[2*o.h+j] = dr, dz, float32(dv*r)
				dh[b*o.h+j] = float32(d * z)
			}
			copy(step[b*h3:][:h3], gh)
		}
		k.gemm(o.b, o.h, h3, mat{step, h3, 1}, mat{c.in[2], 1, o.h}, dh, o.h, true, finish{})
	}
	k.gemm(h3, o.c, rows, mat{dgx, 1, h3}, mat{c.in[0], 1, o.c}, c.din[1], o.c, true, finish{})
	k.gemm(h3, o.h, rows, mat{dgh, 1, h3}, mat{prev, 1, o.h}, c.din[2], o.h, true, finish{})
	k.columns(rows, h3, dgx, c.din[3])
	k.columns(rows, h3, dgh, c.din[4])
	if c.din[0] != nil {
		k.gemm(rows, o.c, h3, mat{dgx, h3, 1}, mat{c.in[1], 1, o.c}, c.din[0], o.c, false, finish{})
	}
}
