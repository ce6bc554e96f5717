package tensorops

// N rows, Q quantiles.

import "fmt"

type quantile struct {
	leaf
	n      int
	levels []float32
}

// Forecast returns the loss of rows of forecasts [N,1+Q] of targets F32 [N], to
// [1]: half the squared error of the first column, which so becomes the mean, and
// for each level q the pinball loss max(q*e, (q-1)*e), e = target - forecast, of
// its column (Koenker and Bassett 1978). A target that is not a number leaves its
// row out. The loss is a float64 sum, rows ascending.
func (g *Graph) Forecast(pred, target V, levels []float32) V {
	n, w := pred.Shape.Last()
	if target.Type != F32 || target.Shape.Size() != n || w != 1+len(levels) {
		panic(fmt.Sprintf("tensorops: forecast %v of targets %v with %d levels", pred.Shape, target.Shape, len(levels)))
	}
	return g.apply(&quantile{n: n, levels: levels}, []V{pred, target}, Dims(1))[0]
}

func (o *quantile) name() string        { return "forecast" }
func (o *quantile) reads() (uint, uint) { return 3, 0 }
func (o *quantile) lossRows() int       { return o.n }

func (o *quantile) forward(_ kernels, c *call) {
	if !c.train {
		*c.loss = o.loss(c.in[0], c.in[1], nil)
	}
}

func (o *quantile) backward(_ kernels, c *call) { *c.loss = o.loss(c.in[0], c.in[1], c.din[0]) }

func (o *quantile) loss(pred, target, dx []float32) float64 {
	w, total := 1+len(o.levels), 0.0
	for r, y := range target {
		p := pred[r*w:][:w]
		if dx != nil {
			clear(dx[r*w:][:w])
		}
		if y != y {
			continue
		}
		e := p[0] - y
		total += float64(0.5 * float64(e) * float64(e))
		for j, q := range o.levels {
			e, slope := y-p[1+j], -q
			if e < 0 {
				slope = 1 - q
			}
			total -= float64(float64(slope) * float64(e))
			if dx != nil {
				dx[r*w+1+j] = slope
			}
		}
		if dx != nil {
			dx[r*w] = e
		}
	}
	return total
}
