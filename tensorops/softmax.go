package tensorops

// N rows, C columns.

import "github.com/apiary-net/hived/tensorops/num"

type softmax struct {
	leaf
	n, c int
}

// Softmax returns exp(x-max)/sum over the last dimension, with the sum in 32 lanes
// (see lanes.go): [..,C] to [..,C].
func (g *Graph) Softmax(x V) V {
	n, c := x.Shape.Last()
	return g.apply(&softmax{n: n, c: c}, []V{x}, x.Shape)[0]
}

func (o *softmax) name() string        { return "softmax" }
func (o *softmax) reads() (uint, uint) { return 0, 1 }
func (o *softmax) forward(k kernels, c *call) {
	k.softmaxForward(o.n, o.c, c.in[0], c.out[0])
}
func (o *softmax) backward(k kernels, c *call) {
	k.softmaxBackward(o.n, o.c, c.out[0], c.dout[0], c.din[0])
}

// softmaxForward: m = max x; y = exp(x-m); y *= 1/sum y.
func (reference) softmaxForward(n, c int, x, y []float32) {
	for r := range n {
		row, out := x[r*c:][:c], y[r*c:][:c]
		m := maxRow(row)
		for j, f := range row {
			out[j] = num.Exp32(f - m)
		}
		inv := 1 / sumRow(out)
		for j := range out {
			out[j] = float32(out[j] * inv)
		}
	}
}

// softmaxBackward: dx = y*(dy - dot(dy, y)).
func (reference) softmaxBackward(n, c int, y, dy, dx []float32) {
	for r := range n {
		p, d := y[r*c:][:c], dy[r*c:][:c]
		s := dotRow(d, p)
		for j := range p {
			dx[r*c+j] = float32(p[j] * (d[j] - s))
		}
	}
}
