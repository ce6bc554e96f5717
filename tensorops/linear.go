package tensorops

// N rows (all outer dimensions), C input channels, O outputs.

// Act is an activation that an op applies to its result.
type Act uint8

// The activations.
const (
	None Act = iota
	Relu
	Gelu
)

type linear struct {
	leaf
	n, c, o int
	bias    bool
	relu    bool
}

// Linear returns act(x w' + b): x [..,C], w [O,C], b [O] (or the zero V for none)
// to [..,O]. Accumulator float32 in blocks of K (see gemm.go). Gelu becomes an op
// of its own; relu needs a bias.
func (g *Graph) Linear(x, w, b V, act Act) V {
	n, c := x.Shape.Last()
	o := w.Shape[0]
	want("linear", "weight", w, F32, o, c)
	l := &linear{n: n, c: c, o: o, bias: b.Shape != Shape{}, relu: act == Relu}
	in := []V{x, w}
	if l.bias {
		want("linear", "bias", b, F32, o)
		in = append(in, b)
	} else if l.relu {
		panic("tensorops: linear: relu without bias")
	}
	y := g.apply(l, in, x.Shape.withLast(o))[0]
	if act == Gelu {
		return g.Gelu(y)
	}
	return y
}

func (l *linear) name() string { return "linear" }
func (l *linear) edits() bool  { return l.relu }
func (l *linear) writes() uint { return 2 }
func (l *linear) reads() (uint, uint) {
	if l.relu {
		return 3, 1
	}
	return 3, 0
}

func (l *linear) forward(k kernels, c *call) {
	e := finish{relu: l.relu}
	if l.bias {
		e.bias = c.in[2]
	}
	if c.next != nil {
		e.gelu = c.next.out[0]
	}
	product(k, c)(l.n, l.o, l.c, mat{c.in[0], l.c, 1}, mat{c.in[1], l.c, 1}, c.out[0], l.o, false, e)
}

// product returns the matrix product that the plan computes with.
func product(k kernels, c *call) func(m, n, k int, a, b mat, c []float32, ldc int, add bool, e finish) {
	if c.bf16 {
		return k.gemmBF16
	}
	return k.gemm
}

// backward: dx = dy w, dw += dy' x (or = where it is fresh), db += column sums of dy.
func (l *linear) backward(k kernels, c *call) {
	dy, gemm := c.dout[0], product(k, c)
	if l.relu {
		k.reluMask(dy, c.out[0], dy)
	}
	if l.bias {
		k.columns(l.n, l.o, dy, c.din[2])
	}
	if c.din[1] != nil {
		gemm(l.o, l.c, l.n, mat{dy, 1, l.o}, mat{c.in[0], 1, l.c}, c.din[1], l.c, c.fresh&2 == 0, finish{})
	}
	if c.din[0] != nil {
		e := finish{}
		if c.next != nil {
			e.slope = c.next.in[0]
		}
		gemm(l.n, l.c, l.o, mat{dy, l.o, 1}, mat{c.in[1], 1, l.c}, c.din[0], l.c, false, e)
	}
}
