package tensorops

// N rows, C channels of the result.

import "github.com/apiary-net/hived/tensorops/num"

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

func (o *swiglu) name() string               { return "swiglu" }
func (o *swiglu) cheap()                     {}
func (o *swiglu) reads() (uint, uint)        { return 1, 0 }
func (o *swiglu) forward(k kernels, c *call) { k.swigluForward(o.n, o.c, c.in[0], c.out[0]) }
func (o *swiglu) backward(k kernels, c *call) {
	k.swigluBackward(o.n, o.c, c.in[0], c.dout[0], c.din[0])
}

// silu32 is x/(1+exp(-x)).
func silu32(x float32) float32 { return x / (1 + num.Exp32(-x)) }

// siluSlope: s = 1/(1+exp(-x)); s*fma(x, 1-s, 1).
func siluSlope(x float32) float32 {
	s := 1 / (1 + num.Exp32(-x))
	return float32(s * num.Fma32(x, 1-s, 1))
}

func (reference) swigluForward(n, c int, x, y []float32) {
	for r := range n {
		a, b, y := x[2*r*c:][:c], x[(2*r+1)*c:][:c], y[r*c:][:c]
		for j := range y {
			y[j] = float32(silu32(a[j]) * b[j])
		}
	}
}

func (reference) swigluBackward(n, c int, x, dy, dx []float32) {
	for r := range n {
		a, b, dy := x[2*r*c:][:c], x[(2*r+1)*c:][:c], dy[r*c:][:c]
		da, db := dx[2*r*c:][:c], dx[(2*r+1)*c:][:c]
		for j, d := range dy {
			da[j] = float32(float32(d*b[j]) * siluSlope(a[j]))
			db[j] = float32(d * silu32(a[j]))
		}
	}
}
