package tensorops

// N rows, C channels.

type rmsNorm struct {
	leaf
	n, c int
	eps  float32
}

// RMSNorm returns gain*x/sqrt(mean(x^2)+eps) over the last dimension (Zhang and
// Sennrich 2019): x [..,C], gain [C]. Row sums use 32 lanes.
func (g *Graph) RMSNorm(x, gain V, eps float32) V {
	n, c := x.Shape.Last()
	want("rmsnorm", "gain", gain, F32, c)
	return g.apply(&rmsNorm{n: n, c: c, eps: eps}, []V{x, gain}, x.Shape)[0]
}

func (o *rmsNorm) name() string        { return "rmsnorm" }
func (o *rmsNorm) aux() (int, int)     { return o.n, 0 }
func (o *rmsNorm) reads() (uint, uint) { return 3, 0 }
func (o *rmsNorm) forward(_ kernels, c *call) {
	for r := range o.n {
		x, y := c.in[0][r*o.c:][:o.c], c.out[0][r*o.c:][:o.c]
		for j, f := range x {
			y[j] = float32(f * f)
		}
		rstd := 1 / sqrt32(sumRow(y)/float32(o.c)+o.eps)
		c.keep[r] = rstd
		for j, f := range x {
			y[j] = float32(float32(f*rstd) * c.in[1][j])
		}
	}
}

// backward: h = x*rstd; dx = rstd*(gain*dy - h*mean(gain*dy*h)); dgain += dy*h, rows
// ascending.
func (o *rmsNorm) backward(_ kernels, c *call) {
	e := make([]float32, o.c)
	for r := range o.n {
		x, dy, rstd := c.in[0][r*o.c:][:o.c], c.dout[0][r*o.c:][:o.c], c.keep[r]
		for j, d := range dy {
			h := float32(x[j] * rstd)
			e[j] = float32(float32(d*c.in[1][j]) * h)
			c.din[1][j] += float32(d * h)
		}
		if c.din[0] == nil {
			continue
		}
		m := sumRow(e) / float32(o.c)
		dx := c.din[0][r*o.c:][:o.c]
		for j, d := range dy {
			dx[j] = float32(rstd * (float32(d*c.in[1][j]) - float32(float32(x[j]*rstd)*m)))
		}
	}
}
