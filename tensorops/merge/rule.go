package merge

import (
	"errors"
	"fmt"
	"math"

	"github.com/apiary-net/hived/tensorops/num"
)

// MaxSamples bounds a weight, so that its product with a float32 is exact.
const MaxSamples = 1<<24 - 1

// ErrStat is returned for weights or norms that no honest sender declares.
var ErrStat = errors.New("declared numbers are not usable")

// Stat is what counts of one sender's part: its weight in samples, and the
// canonical sum of squares of its decoded values (num.SumSquares).
type Stat struct {
	Samples    uint32
	SumSquares float64
}

// Report tells of one merged part.
type Report struct {
	NonFinite bool // a merged value is not finite: the round is void
}

// Rule is an aggregator.
type Rule interface {
	// Weights returns each sender's factor a_i = float32(n_i*c_i), c_i its clip
	// factor, and the total sum n_i. It wraps ErrStat.
	Weights(stats []Stat) (a []float32, total float64, err error)
	// Merge writes sum a_i*in_i / total to out; all vectors have one length. It
	// returns ErrArithmetic where the thread cannot compute canonically.
	Merge(out []float32, in [][]float32, a []float32, total float64) (Report, error)
}

// NewRule returns the aggregator of that name: mean (by samples), or clip-median
// (the same, each part clipped to the lower median of the parts' norms).
func NewRule(name string) (Rule, error) {
	switch name {
	case "mean":
		return mean{}, nil
	case "clip-median":
		return clipMedian{}, nil
	}
	return nil, fmt.Errorf("find aggregator %q: have mean, clip-median", name)
}

// Clipped returns how many senders' factors are below their weights.
func Clipped(stats []Stat, a []float32) int {
	n := 0
	for i, s := range stats {
		if a[i] < float32(s.Samples) {
			n++
		}
	}
	return n
}

type mean struct{ fold }

func (mean) Weights(stats []Stat) ([]float32, float64, error) {
	return weights(stats, func(Stat) float32 { return 1 })
}

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

// weights checks stats and multiplies by the clip factor.
func weights(stats []Stat, clip func(Stat) float32) ([]float32, float64, error) {
	a := make([]float32, len(stats))
	total := uint64(0)
	for i, s := range stats {
		if s.Samples > MaxSamples {
			return nil, 0, fmt.Errorf("weigh part %d of %d samples, limit %d: %w", i, s.Samples, MaxSamples, ErrStat)
		}
		if !(s.SumSquares >= 0 && s.SumSquares <= math.MaxFloat64) {
			return nil, 0, fmt.Errorf("weigh part %d with sum of squares %v: %w", i, s.SumSquares, ErrStat)
		}
		a[i] = float32(float64(s.Samples) * float64(clip(s)))
		total += uint64(s.Samples)
	}
	if total == 0 {
		return nil, 0, fmt.Errorf("weigh %d parts of no samples: %w", len(stats), ErrStat)
	}
	return a, float64(total), nil
}

// fold is the weighted mean of numerics C2.
type fold struct{}

const foldBlock = 2048 // values whose accumulators stay in the first-level cache

func (fold) Merge(out []float32, in [][]float32, a []float32, total float64) (Report, error) {
	if len(in) != len(a) {
		panic(fmt.Sprintf("merge: %d parts with %d weights", len(in), len(a)))
	}
	for i, x := range in {
		if len(x) != len(out) {
			panic(fmt.Sprintf("merge: part %d of %d values into %d", i, len(x), len(out)))
		}
	}
	if err := Canary(); err != nil {
		return Report{}, err
	}
	var acc [foldBlock]float64
	var r Report
	for lo := 0; lo < len(out); lo += foldBlock {
		dst := out[lo:min(lo+foldBlock, len(out))]
		s := acc[:len(dst)]
		clear(s)
		for i, x := range in {
			w := float64(a[i])
			for j, f := range x[lo : lo+len(s)] {
				s[j] += float64(w * float64(f))
			}
		}
		for j, v := range s {
			f := float32(v / total)
			if f == 0 {
				f = 0 // -0 becomes +0
			}
			r.NonFinite = r.NonFinite || !num.Finite(f)
			dst[j] = f
		}
	}
	return r, nil
}
