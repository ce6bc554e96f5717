package merge

import (
	"math"

	"github.com/apiary-net/hived/tensorops/num"
)

// ClipNorm scales x in place to a norm of at most limit, which is positive. The norm
// is the root of num.SumSquares; the factor is rounded once to float32, and so is
// each product.
func ClipNorm(x []float32, limit float64) {
	n := math.Sqrt(num.SumSquares(x))
	if n <= limit {
		return
	}
	c := float32(limit / n)
	for i := range x {
		x[i] = float32(c * x[i])
	}
}
