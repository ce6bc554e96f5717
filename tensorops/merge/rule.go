package merge

import (
	"errors"
	"fmt"
	"math"
	"strings"

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

// rules are all aggregators. A new one is a file and a line here; nothing else
// lists them.
var rules = []named[Rule]{{"mean", mean{}}, {"clip-median", clipMedian{}}}

// Names returns the names of all aggregators.
func Names() []string { return namesOf(rules) }

// NewRule returns the aggregator of that name.
func NewRule(name string) (Rule, error) { return find("aggregator", rules, name) }

type named[T any] struct {
	name  string
	value T
}

func namesOf[T any](all []named[T]) []string {
	var out []string
	for _, n := range all {
		out = append(out, n.name)
	}
	return out
}

func find[T any](what string, all []named[T], name string) (T, error) {
	for _, n := range all {
		if n.name == name {
			return n.value, nil
		}
	}
	var none T
	return none, fmt.Errorf("%s %q is not one of %s", what, name, strings.Join(namesOf(all), ", "))
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
