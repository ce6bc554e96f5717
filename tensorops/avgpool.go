package tensorops

// B batch, H W size, C channels.

import "fmt"

type avgPool struct {
	leaf
	s      Shape
	kh, kw int
}

// AvgPool returns the means of kh x kw windows that touch each other:
// [B,H,W,C] to [B,H/kh,W/kw,C]; odd last rows and columns are left out. Sums are
// float32, rows of a window ascending.
func (g *Graph) AvgPool(x V, kh, kw int) V {
	s := x.Shape
	if s.Rank() != 4 || kh < 1 || kw < 1 || kh > s[1] || kw > s[2] {
		panic(fmt.Sprintf("tensorops: average pool of %v by %dx%d", s, kh, kw))
	}
	return g.apply(&avgPool{s: s, kh: kh, kw: kw}, []V{x}, Dims(s[0], s[1]/kh, s[2]/kw, s[3]))[0]
}

func (p *avgPool) name() string        { return "avgpool" }
func (p *avgPool) reads() (uint, uint) { return 0, 0 }

// each calls f with the offsets of an output's and an input's channels.
func (p *avgPool) each(f func(out, in int)) {
	h, w, c := p.s[1], p.s[2], p.s[3]
	oh, ow := h/p.kh, w/p.kw
	for q := range p.s[0] * oh * ow {
		n, i, j := q/(oh*ow), q/ow%oh, q%ow
		for u := range p.kh {
			for v := range p.kw {
				f(q*c, ((n*h+i*p.kh+u)*w+j*p.kw+v)*c)
			}
		}
	}
}

func (p *avgPool) forward(_ kernels, c *call) {
	x, y, n := c.in[0], c.out[0], p.s[3]
	clear(y)
	p.each(func(out, in int) {
		y := y[out:][:n]
		for j, f := range x[in:][:n] {
			y[j] += f
		}
	})
	for i := range y {
		y[i] /= float32(p.kh * p.kw)
	}
}

func (p *avgPool) backward(_ kernels, c *call) {
	dy, dx, n := c.dout[0], c.din[0], p.s[3]
	clear(dx)
	p.each(func(out, in int) {
		dx := dx[in:][:n]
		for j, f := range dy[out:][:n] {
			dx[j] = f / float32(p.kh*p.kw)
		}
	})
}
