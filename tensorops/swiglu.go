package tensorops

// N rows, C channels of the result.

type swiglu struct {
	leaf
	n, c int
}

// Swiglu returns silu(a)*b of x = [a, b]: [..,2C] to [..,C] (Shazeer, "GLU Variants
// Improve Transformer", 2020).
func (g *Graph) Swiglu(x V) V {
	n, c := x.Shape.Last()
	if c%2 != 0 {
		panic("tensorops: swiglu of " + x.Shape.String())
	}
	return g.apply(&swiglu{n: n, c: c / 2}, []V{x}, x.Shape.withLast(c/2))[0]
}

func (o *swiglu) name() string        { return "swiglu" }
func (o *swiglu) reads() (uint, uint) { return 1, 0 }
func (o *swiglu) forward(_ kernels, c *call) {
	for r := range o.n {
		a, b, y := c.in[0][2*r*o.c:][:o.c], c.in[0][(2*r+1)*o.c:][:o.c], c.out[0][r*o.c:][:o.c]
		for j := range y {
			y[j] = float32(silu32(a[j]) * b[j])
		}
	}
}

func (o *swiglu) backward(_ kernels, c *call) {
	for r := range o.n {
		a, b, dy := c.in[0][2*r*o.c:][:o.c], c.in[0][(2*r+1)*o.c:][:o.c], c.dout[0][r*o.c:][:o.c]
		da, db := c.din[0][2*r*o.c:][:o.c], c.din[0][(2*r+1)*o.c:][:o.c]
		for j, d := range dy {
			da[j] = float32(float32(d*b[j]) * siluSlope(a[j], 0))
			db[j] = float32(d * silu32(a[j]))
		}
	}
}
