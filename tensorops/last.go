package tensorops

// B batch, T time, C channels.

type last struct {
	leaf
	b, t, c int
}

// Last returns the last step of x: [B,T,C] to [B,C].
func (g *Graph) Last(x V) V {
	s := x.Shape
	if s.Rank() != 3 {
		panic("tensorops: last step of " + s.String())
	}
	return g.apply(&last{b: s[0], t: s[1], c: s[2]}, []V{x}, Dims(s[0], s[2]))[0]
}

func (o *last) name() string        { return "last" }
func (o *last) reads() (uint, uint) { return 0, 0 }
func (o *last) forward(_ kernels, c *call) {
	for b := range o.b {
		copy(c.out[0][b*o.c:][:o.c], c.in[0][(b*o.t+o.t-1)*o.c:])
	}
}

func (o *last) backward(_ kernels, c *call) {
	clear(c.din[0])
	for b := range o.b {
		copy(c.din[0][(b*o.t+o.t-1)*o.c:][:o.c], c.dout[0][b*o.c:])
	}
}
