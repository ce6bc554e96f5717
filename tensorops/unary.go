package tensorops

import "github.com/apiary-net/hived/tensorops/num"

// unary applies a function to each element; its slope is computed from input and
// output.
type unary struct {
	leaf
	what    string
	in, out uint
	f       func(x float32) float32
	slope   func(x, y float32) float32
}

func (o *unary) name() string        { return o.what }
func (o *unary) reads() (uint, uint) { return o.in, o.out }
func (o *unary) forward(_ kernels, c *call) {
	y := c.out[0]
	for i, x := range c.in[0] {
		y[i] = o.f(x)
	}
}

func (o *unary) backward(_ kernels, c *call) {
	dx := c.din[0]
	for i, d := range c.dout[0] {
		x, y := float32(0), float32(0)
		if o.in != 0 {
			x = c.in[0][i]
		}
		if o.out != 0 {
			y = c.out[0][i]
		}
		dx[i] = float32(d * o.slope(x, y))
	}
}

func (g *Graph) unary(x V, o *unary) V { return g.apply(o, []V{x}, x.Shape)[0] }

// sigmoid32 is 1/(1+exp(-x)).
func sigmoid32(x float32) float32 { return 1 / (1 + num.Exp32(-x)) }

// tanh32 is 2*sigmoid(2x) - 1.
func tanh32(x float32) float32 { return 2*sigmoid32(2*x) - 1 }

// Relu returns max(x, 0).
func (g *Graph) Relu(x V) V {
	return g.unary(x, &unary{what: "relu", out: 1,
		f: func(x float32) float32 {
			if x > 0 {
				return x
			}
			return 0
		},
		slope: func(_, y float32) float32 {
			if y > 0 {
				return 1
			}
			return 0
		}})
}

// Sigmoid returns 1/(1+exp(-x)).
func (g *Graph) Sigmoid(x V) V {
	return g.unary(x, &unary{what: "sigmoid", out: 1, f: sigmoid32, slope: func(_, y float32) float32 { return float32(y * (1 - y)) }})
}

// Silu returns x*sigmoid(x) (Elfwing et al. 2017).
func (g *Graph) Silu(x V) V {
	return g.unary(x, &unary{what: "silu", in: 1, f: silu32, slope: siluSlope})
}

func silu32(x float32) float32 { return x / (1 + num.Exp32(-x)) }

func siluSlope(x, _ float32) float32 {
	s := sigmoid32(x)
	return float32(s * (1 + float32(x*(1-s))))
}
