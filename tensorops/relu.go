package tensorops

type relu struct{ leaf }

// Relu returns max(x, 0).
func (g *Graph) Relu(x V) V { return g.apply(&relu{}, []V{x}, x.Shape)[0] }

func (o *relu) name() string                { return "relu" }
func (o *relu) reads() (uint, uint)         { return 0, 1 }
func (o *relu) shares() (int, uint)         { return 0, 1 }
func (o *relu) forward(k kernels, c *call)  { k.reluMask(c.in[0], c.in[0], c.out[0]) }
func (o *relu) backward(k kernels, c *call) { k.reluMask(c.dout[0], c.out[0], c.din[0]) }

// reluMask writes dx = dy where y > 0 and 0 elsewhere; dx may be dy.
func (reference) reluMask(dy, y, dx []float32) {
	for i, d := range dy {
		if !(y[i] > 0) {
			d = 0
		}
		dx[i] = d
	}
}
