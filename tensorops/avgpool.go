package tensorops

// B batch, H W input size, C channels, K window, S stride.

import "fmt"

// poolShape is B, H, W, C, OH, OW, K, S, as package cpu reads it.
type poolShape [8]int

type avgPool struct {
	leaf
	s poolShape
}

// AvgPool returns the means of k x k windows, stride apart: [B,H,W,C] to [B,OH,OW,C],
// OH = (H-k)/stride+1; rows and columns that no window reaches are left out. A window
// is summed row by row from +0 and multiplied by 1/k^2.
func (g *Graph) AvgPool(x V, k, stride int) V {
	s := x.Shape
	if s.Rank() != 4 || k < 1 || stride < 1 || s[1] < k || s[2] < k {
		panic(fmt.Sprintf("tensorops: average pool of %v by %d, stride %d", s, k, stride))
	}
	oh, ow := (s[1]-k)/stride+1, (s[2]-k)/stride+1
	return g.apply(&avgPool{s: poolShape{s[0], s[1], s[2], s[3], oh, ow, k, stride}}, []V{x}, Dims(s[0], oh, ow, s[3]))[0]
}

func (p *avgPool) name() string                { return "avgpool" }
func (p *avgPool) reads() (uint, uint)         { return 0, 0 }
func (p *avgPool) forward(k kernels, c *call)  { k.avgPoolForward(&p.s, c.in[0], c.out[0]) }
func (p *avgPool) backward(k kernels, c *call) { k.avgPoolBackward(&p.s, c.dout[0], c.din[0]) }

func (reference) avgPoolForward(p *poolShape, x, y []float32) {
	h, w, c, oh, ow, k, s := p[1], p[2], p[3], p[4], p[5], p[6], p[7]
	inv := 1 / float32(k*k)
	for o := range p[0] * oh * ow {
		n, i, j := o/(oh*ow), o/ow%oh*s, o%ow*s
		for ch := range c {
			sum := float32(0)
			for t := range k * k {
				sum += x[((n*h+i+t/k)*w+j+t%k)*c+ch]
			}
			y[o*c+ch] = float32(sum * inv)
		}
	}
}

// avgPoolBackward sums the gradients of the windows that reach an input, row by row
// from +0, and multiplies by 1/k^2.
func (reference) avgPoolBackward(p *poolShape, dy, dx []float32) {
	h, w, c, oh, ow, k, s := p[1], p[2], p[3], p[4], p[5], p[6], p[7]
	inv := 1 / float32(k*k)
	for q := range p[0] * h * w {
		n, y, x := q/(h*w), q/w%h, q%w
		for ch := range c {
			sum := float32(0)
			for i := range oh {
				for j := range ow {
					if u, v := y-i*s, x-j*s; u >= 0 && u < k && v >= 0 && v < k {
						sum += dy[((n*oh+i)*ow+j)*c+ch]
					}
				}
			}
			dx[q*c+ch] = float32(sum * inv)
		}
	}
}
