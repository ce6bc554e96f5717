package tensorops

type add struct{ leaf }

// Add returns x + y, elementwise; equal shapes.
func (g *Graph) Add(x, y V) V {
	want("add", "second operand", y, F32, x.Shape[:x.Shape.Rank()]...)
	return g.apply(&add{}, []V{x, y}, x.Shape)[0]
}

func (*add) name() string               { return "add" }
func (*add) shares() (int, uint)        { return 0, 3 }
func (*add) reads() (uint, uint)        { return 0, 0 }
func (*add) forward(k kernels, c *call) { k.add(c.in[0], c.in[1], c.out[0]) }
func (*add) backward(_ kernels, c *call) {
	for _, d := range c.din {
		if d != nil && &d[0] != &c.dout[0][0] {
			copy(d, c.dout[0])
		}
	}
}

// add writes z = x + y; z may be either.
func (reference) add(x, y, z []float32) {
	for i := range z {
		z[i] = x[i] + y[i]
	}
}
