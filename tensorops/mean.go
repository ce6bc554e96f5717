package tensorops

// B batch, S positions, C channels.

type mean struct {
	leaf
	b, s, c int
}

// Mean returns the mean over all dimensions but the first and the last (global
// average pooling): [B,..,C] to [B,C]. Sums are taken as in columns (gemm.go) and
// multiplied by 1/S.
func (g *Graph) Mean(x V) V {
	r := x.Shape.Rank()
	if r < 3 {
		panic("tensorops: mean of " + x.Shape.String())
	}
	o := &mean{b: x.Shape[0], c: x.Shape[r-1]}
	o.s = x.Shape.Size() / o.b / o.c
	return g.apply(o, []V{x}, Dims(o.b, o.c))[0]
}

func (o *mean) name() string        { return "mean" }
func (o *mean) reads() (uint, uint) { return 0, 0 }

func (o *mean) forward(k kernels, c *call) {
	clear(c.out[0])
	for b := range o.b {
		k.columns(o.s, o.c, c.in[0][b*o.s*o.c:][:o.s*o.c], c.out[0][b*o.c:][:o.c])
	}
	inv := 1 / float32(o.s)
	for i := range c.out[0] {
		c.out[0][i] *= inv
	}
}

func (o *mean) backward(_ kernels, c *call) {
	inv := 1 / float32(o.s)
	for b := range o.b {
		row := c.din[0][b*o.s*o.c:][:o.c]
		for j, d := range c.dout[0][b*o.c:][:o.c] {
			row[j] = float32(d * inv)
		}
		for s := 1; s < o.s; s++ {
			copy(c.din[0][(b*o.s+s)*o.c:][:o.c], row)
		}
	}
}
