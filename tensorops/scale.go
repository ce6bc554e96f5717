package tensorops

// B batch, P positions, C channels.

type scale struct {
	leaf
	b, p, c int
}

// Scale returns x*s by channel: x [B,H,W,C], s [B,C]: the excitation of Hu et al.
// 2018.
func (g *Graph) Scale(x, s V) V {
	d := x.Shape
	want("scale", "factors", s, F32, d[0], d[3])
	return g.apply(&scale{b: d[0], p: d[1] * d[2], c: d[3]}, []V{x, s}, d)[0]
}

func (o *scale) name() string        { return "scale" }
func (o *scale) reads() (uint, uint) { return 3, 0 }
func (o *scale) forward(_ kernels, c *call) {
	for r := range o.b * o.p {
		s, x, y := c.in[1][r/o.p*o.c:][:o.c], c.in[0][r*o.c:][:o.c], c.out[0][r*o.c:][:o.c]
		for j := range y {
			y[j] = float32(x[j] * s[j])
		}
	}
}

// backward: dx = dy*s; ds = sum over positions of dy*x, ascending.
func (o *scale) backward(_ kernels, c *call) {
	if c.din[1] != nil {
		clear(c.din[1])
	}
	for r := range o.b * o.p {
		at := r / o.p * o.c
		x, dy := c.in[0][r*o.c:][:o.c], c.dout[0][r*o.c:][:o.c]
		for j, d := range dy {
			if c.din[0] != nil {
				c.din[0][r*o.c+j] = float32(d * c.in[1][at+j])
			}
			if c.din[1] != nil {
				c.din[1][at+j] += float32(d * x[j])
			}
		}
	}
}
