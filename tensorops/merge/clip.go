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

// RateScale is the factor of a learning rate in round r of rounds, counted from 1:
// it falls in a line from 1 in the first round to decay in the last. A decay of 0 or
// 1 leaves the rate as it is.
func RateScale(decay float32, r, rounds uint64) float32 {
	if decay == 0 || decay == 1 || rounds < 2 {
		return 1
	}
	t := float32(min(r, rounds)-1) / float32(rounds-1)
	return 1 - float32(t*(1-decay))
}
