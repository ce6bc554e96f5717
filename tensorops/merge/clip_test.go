package merge

import (
	"math"
	"math/big"
	"math/rand"
	"testing"

	"github.com/apiary-net/hived/tensorops/num"
)

// TestClipNorm compares with exact operations, each rounded once.
func TestClipNorm(t *testing.T) {
	r := rand.New(rand.NewSource(4))
	clipped := 0
	for range 300 {
		x := make([]float32, 1+r.Intn(6000))
		for i := range x {
			x[i] = float32(r.NormFloat64() * math.Pow(2, float64(r.Intn(20)-15)))
		}
		limit := math.Abs(r.NormFloat64()) * math.Pow(2, float64(r.Intn(14)))
		norm := round53(new(big.Float).SetPrec(53).Sqrt(big.NewFloat(num.SumSquares(x))))
		want := append([]float32(nil), x...)
		if norm > limit {
			clipped++
			c := float32(round53(new(big.Float).SetPrec(53).Quo(big.NewFloat(limit), big.NewFloat(norm))))
			for i := range want {
				want[i] = round24(new(big.Float).SetPrec(48).Mul(big.NewFloat(float64(c)), big.NewFloat(float64(x[i]))))
			}
		}
		ClipNorm(x, limit)
		for i := range x {
			if math.Float32bits(x[i]) != math.Float32bits(want[i]) {
				t.Fatalf("value %d of %d is %x, want %x", i, len(x), x[i], want[i])
			}
		}
	}
	if clipped < 50 || clipped > 250 {
		t.Errorf("%d of 300 vectors were clipped", clipped)
	}
}

// TestRateScale compares with operations that are rounded one by one to 24 bits.
func TestRateScale(t *testing.T) {
	r := rand.New(rand.NewSource(5))
	float := func(f float64) *big.Float { return new(big.Float).SetPrec(24).SetFloat64(f) }
	one := float(1)
	op := func() *big.Float { return new(big.Float).SetPrec(24) }
	for range 2000 {
		decay, rounds := float32(r.Float64()), 2+uint64(r.Int63n(1<<uint(1+r.Intn(31))))
		at := 1 + uint64(r.Int63n(int64(rounds)))
		q := op().Quo(float(float64(at-1)), float(float64(rounds-1)))
		want := round24(op().Sub(one, op().Mul(q, op().Sub(one, float(float64(decay))))))
		if got := RateScale(decay, at, rounds); math.Float32bits(got) != math.Float32bits(want) {
			t.Fatalf("decay %v, round %d of %d: %x, want %x", decay, at, rounds, got, want)
		}
	}
	for _, c := range []struct {
		decay     float32
		r, rounds uint64
		want      float32
	}{{0, 5, 9, 1}, {1, 5, 9, 1}, {0.5, 1, 1, 1}, {0.5, 1, 9, 1}, {0.5, 5, 9, 0.75}, {0.5, 9, 9, 0.5}, {0.5, 12, 9, 0.5}} {
		if got := RateScale(c.decay, c.r, c.rounds); got != c.want {
			t.Errorf("decay %v, round %d of %d: %v, want %v", c.decay, c.r, c.rounds, got, c.want)
		}
	}
}
