package merge

import (
	"math"

	"github.com/apiary-net/hived/tensorops/num"
)

// clipMedian weighs by samples, with each part clipped to the lower median of the
// parts' norms.
type clipMedian struct{ fold }

func (clipMedian) Weights(stats []Stat) ([]float32, float64, error) {
	norms := make([]float64, len(stats))
	for i, s := range stats {
		norms[i] = math.Sqrt(s.SumSquares) // IEEE: exact rounding everywhere
	}
	tau := num.LowerMedian(norms)
	return weights(stats, func(s Stat) float32 {
		n := math.Sqrt(s.SumSquares)
		if n == 0 || n <= tau {
			return 1
		}
		return float32(tau / n)
	})
}
