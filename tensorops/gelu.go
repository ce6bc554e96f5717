package tensorops

import "github.com/apiary-net/hived/tensorops/num"

type gelu struct {
	leaf
	n int
}

// Gelu returns x*sigmoid(2u), u = sqrt(2/pi)*(x + 0.044715 x^3), the tanh form of
// Hendrycks and Gimpel 2016. A linear layer before or behind it computes it along.
func (g *Graph) Gelu(x V) V { return g.apply(&gelu{n: x.Shape.Size()}, []V{x}, x.Shape)[0] }

func (o *gelu) name() string                { return "gelu" }
func (o *gelu) cheap()                      {}
func (o *gelu) shares() (int, uint)         { return 0, 1 }
func (o *gelu) reads() (uint, uint)         { return 1, 0 }
func (o *gelu) forward(k kernels, c *call)  { k.geluForward(c.in[0], c.out[0]) }
func (o *gelu) backward(k kernels, c *call) { k.geluBackward(c.in[0], c.dout[0], c.din[0]) }

// Twice sqrt(2/pi), that times 0.044715, and three times that.
const (
	gelu0 = float32(1.5957691216)
	gelu1 = float32(0.0713548163)
	gelu3 = float32(0.2140644489)
)

func (reference) geluForward(x, y []float32) {
	for i, v := range x {
		p := num.Fma32(float32(v*v), gelu1, gelu0)
		y[i] = v / (1 + num.Exp32(-float32(v*p)))
	}
}

func (reference) geluBackward(x, dy, dx []float32) {
	for i, v := range x {
		t := float32(v * v)
		p := num.Fma32(t, gelu1, gelu0)
		s := 1 / (1 + num.Exp32(-float32(v*p)))
		q := float32(s * (1 - s))
		dx[i] = float32(dy[i] * num.Fma32(float32(v*q), num.Fma32(t, gelu3, gelu0), s))
	}
}
