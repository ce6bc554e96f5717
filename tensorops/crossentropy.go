package tensorops

// N rows, V classes.

import (
	"fmt"

	"github.com/apiary-net/hived/tensorops/num"
)

type crossEntropy struct {
	leaf
	n, v int
}

// CrossEntropy returns the sum over rows of -log softmax(logits)[label]: logits
// [..,V], labels I32 with one entry a row, to [1]. A negative label leaves its row
// out. The loss is a float64 sum, rows ascending; softmax and loss are one pass.
func (g *Graph) CrossEntropy(logits, labels V) V {
	n, v := logits.Shape.Last()
	if labels.Type != I32 || labels.Shape.Size() != n {
		panic(fmt.Sprintf("tensorops: cross entropy of %v with labels %v", logits.Shape, labels.Shape))
	}
	return g.apply(&crossEntropy{n: n, v: v}, []V{logits, labels}, Dims(1))[0]
}

func (o *crossEntropy) name() string        { return "crossentropy" }
func (o *crossEntropy) reads() (uint, uint) { return 3, 0 }
func (o *crossEntropy) lossRows() int       { return o.n }

// forward leaves the work to backward where one follows.
func (o *crossEntropy) forward(k kernels, c *call) {
	for i, l := range c.ints[1] {
		if int(l) >= o.v {
			panic(fmt.Sprintf("tensorops: cross entropy: label %d at %d, %d classes", l, i, o.v))
		}
	}
	if !c.train {
		*c.loss = k.crossEntropy(o.n, o.v, c.in[0], c.ints[1], nil, c.rows)
	}
}

func (o *crossEntropy) backward(k kernels, c *call) {
	*c.loss = k.crossEntropy(o.n, o.v, c.in[0], c.ints[1], c.din[0], c.rows)
}

// crossEntropy: m = max x; e = exp(x-m); s = sum of e by 32 lanes; loss = log s -
// (x[label]-m); dx = e*(1/s), less 1 at the label.
func (reference) crossEntropy(n, v int, x []float32, label []int32, dx []float32, loss []float64) float64 {
	e := make([]float32, v)
	total := 0.0
	for r := range n {
		if dx != nil {
			e = dx[r*v:][:v]
		}
		loss[r] = 0
		if label[r] < 0 {
			clear(e)
		} else {
			row := x[r*v:][:v]
			m := maxRow(row)
			for j := range e {
				e[j] = num.Exp32(row[j] - m)
			}
			s := sumRow(e)
			loss[r] = num.Log(float64(s)) - float64(row[label[r]]-m)
			inv := 1 / s
			for j := range e {
				e[j] = float32(e[j] * inv)
			}
			e[label[r]]--
		}
		total += loss[r]
	}
	return total
}
