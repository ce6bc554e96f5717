package tensorops

// B batch, H W input size, C channels.

type maxPool struct {
	leaf
	s    Shape
	relu bool
}

// MaxPool2 returns the maxima of 2x2 squares, act None or Relu applied to them
// (equal to the maximum of relus): [B,H,W,C] to [B,H/2,W/2,C]; an odd last row or
// column is left out. The gradient goes to the first of equal maxima.
func (g *Graph) MaxPool2(x V, act Act) V {
	s := x.Shape
	if s.Rank() != 4 || s[1] < 2 || s[2] < 2 || act == Gelu {
		panic("tensorops: max pool of " + s.String())
	}
	return g.apply(&maxPool{s: s, relu: act == Relu}, []V{x}, Dims(s[0], s[1]/2, s[2]/2, s[3]))[0]
}

func (p *maxPool) name() string               { return "maxpool" }
func (p *maxPool) reads() (uint, uint)        { return 1, 1 }
func (p *maxPool) forward(k kernels, c *call) { k.poolForward(p.s, c.in[0], c.out[0], p.relu) }
func (p *maxPool) backward(k kernels, c *call) {
	k.poolBackward(p.s, c.in[0], c.out[0], c.dout[0], c.din[0], p.relu)
}

// squares calls f with the index of each output and of its four inputs.
func squares(s Shape, f func(out int, in [4]int)) {
	h, w, c := s[1], s[2], s[3]
	oh, ow := h/2, w/2
	for q := range s[0] * oh * ow * c {
		i, j, n := q/(ow*c)%oh, q/c%ow, q/(oh*ow*c)
		a := ((n*h+2*i)*w+2*j)*c + q%c
		f(q, [4]int{a, a + c, a + w*c, a + (w+1)*c})
	}
}

func (reference) poolForward(s Shape, x, y []float32, relu bool) {
	squares(s, func(o int, in [4]int) {
		m := x[in[0]]
		for _, i := range in[1:] {
			if !(m > x[i]) {
				m = x[i]
			}
		}
		if relu && !(m > 0) {
			m = 0
		}
		y[o] = m
	})
}

func (reference) poolBackward(s Shape, x, y, dy, dx []float32, relu bool) {
	clear(dx)
	squares(s, func(o int, in [4]int) {
		if relu && !(y[o] > 0) {
			return
		}
		for _, i := range in {
			if x[i] == y[o] {
				dx[i] = dy[o]
				return
			}
		}
	})
}
