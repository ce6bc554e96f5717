package tensorops

// B samples, N elements of one.

import (
	"fmt"

	"github.com/apiary-net/hived/tensorops/num"
)

type dropout struct {
	leaf
	b, n  int
	rate  float64
	salt  uint64
	keep  float32 // 1/(1-rate)
	bound uint32
}

// Dropout sets elements of x [B,..] to zero with probability rate, in [0, 1), and
// divides the others by 1-rate (Srivastava et al. 2014); a plan for inference
// returns x. keys I32 [B] name the samples' random streams, salt the layer: the
// mask depends on nothing else, so any peer draws the same one.
func (g *Graph) Dropout(x, keys V, rate float64, salt uint64) V {
	b := x.Shape[0]
	want("dropout", "keys", keys, I32, b)
	if !(rate >= 0 && rate < 1) {
		panic(fmt.Sprintf("tensorops: dropout of %v", rate))
	}
	o := &dropout{b: b, n: x.Shape.Size() / b, rate: rate, salt: salt, keep: float32(1 / (1 - rate)), bound: uint32(rate * (1 << 32))}
	return g.apply(o, []V{x, keys}, x.Shape)[0]
}

func (o *dropout) name() string                { return "dropout" }
func (o *dropout) reads() (uint, uint)         { return 2, 0 }
func (o *dropout) backward(_ kernels, c *call) { o.mask(c.ints[1], c.dout[0], c.din[0]) }
func (o *dropout) forward(_ kernels, c *call) {
	if !c.train {
		copy(c.out[0], c.in[0])
		return
	}
	o.mask(c.ints[1], c.in[0], c.out[0])
}

func (o *dropout) mask(keys []int32, x, y []float32) {
	for s, key := range keys {
		x, y := x[s*o.n:][:o.n], y[s*o.n:][:o.n]
		for i := 0; i < o.n; i += 4 {
			r := num.Philox(uint64(uint32(key)), o.salt, uint64(i/4))
			for j := i; j < min(i+4, o.n); j++ {
				y[j] = 0
				if r[j-i] >= o.bound {
					y[j] = float32(x[j] * o.keep)
				}
			}
		}
	}
}
