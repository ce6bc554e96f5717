package tensorops

// B batch, T time, H heads to turn, D head width.

import (
	"fmt"
	"math"

	"github.com/apiary-net/hived/tensorops/num"
)

type rope struct {
	leaf
	n, t, row, heads, d int
	cos, sin            []float32 // [T,D/2]
}

// Rope turns the first heads*D of each row of x [B,T,R] by position, in halves:
// with a = pos*theta^(-2i/D), elements i and i+D/2 of a head become x*cos a - x'*sin
// a and x'*cos a + x*sin a (Su et al. 2021, with the halves of GPT-NeoX and of the
// Hugging Face Llama). Position 0 of x is at.
func (g *Graph) Rope(x V, heads, d int, theta float64, at int) V {
	t, row := x.Shape[1], x.Shape[2]
	if x.Shape.Rank() != 3 || d%2 != 0 || heads*d > row {
		panic(fmt.Sprintf("tensorops: rope of %v, %d heads of %d", x.Shape, heads, d))
	}
	o := &rope{n: x.Shape[0] * t, t: t, row: row, heads: heads, d: d}
	o.cos, o.sin = RopeTables(at, t, d, theta)
	return g.apply(o, []V{x}, x.Shape)[0]
}

// RopeTables returns cosines and sines [T,D/2] of the angles of positions at to
// at+t-1. They are computed with + - * / in float64 only: the same bits everywhere.
func RopeTables(at, t, d int, theta float64) (cos, sin []float32) {
	half := d / 2
	root := nthRoot(theta, half)
	cos, sin = make([]float32, t*half), make([]float32, t*half)
	for p := range t {
		freq := 1.0
		for i := range half {
			c, s := cosSin(float64(at+p) / freq)
			cos[p*half+i], sin[p*half+i] = float32(c), float32(s)
			freq = float64(freq * root)
		}
	}
	return cos, sin
}

// nthRoot bisects x with x^n = y, y >= 1.
func nthRoot(y float64, n int) float64 {
	lo, hi := 1.0, max(y, 1)
	for range 200 {
		m := lo + (hi-lo)/2
		p := 1.0
		for range n {
			p = float64(p * m)
		}
		if p > y {
			hi = m
		} else {
			lo = m
		}
	}
	return lo
}

// cosSin reduces a to turns and uses num's polynomials.
func cosSin(a float64) (cos, sin float64) {
	x := a / math.Pi
	x -= 2 * math.Floor(x/2)
	cosPi := func(x float64) float64 {
		if x > 1 {
			return num.CosPi(2 - x)
		}
		return num.CosPi(x)
	}
	y := x + 1.5 // sin(pi x) = cos(pi (x - 1/2))
	if y >= 2 {
		y -= 2
	}
	return cosPi(x), cosPi(y)
}

func (o *rope) name() string                { return "rope" }
func (o *rope) reads() (uint, uint)         { return 0, 0 }
func (o *rope) forward(k kernels, c *call)  { k.rope(o, c.in[0], c.out[0], 1) }
func (o *rope) backward(k kernels, c *call) { k.rope(o, c.dout[0], c.din[0], -1) }

// rope turns by the angles times sign, which is 1 or -1.
func (reference) rope(o *rope, x, y []float32, sign float32) {
	half := o.d / 2
	for r := range o.n {
		cs, sn := o.cos[r%o.t*half:][:half], o.sin[r%o.t*half:][:half]
		copy(y[r*o.row:][:o.row], x[r*o.row:][:o.row])
		for h := range o.heads {
			at := r*o.row + h*o.d
			a, b := x[at:][:half], x[at+half:][:half]
			for i := range half {
				s := sign * sn[i]
				y[at+i] = float32(a[i]*cs[i]) - float32(b[i]*s)
				y[at+half+i] = float32(b[i]*cs[i]) + float32(a[i]*s)
			}
		}
	}
}
