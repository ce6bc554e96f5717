package num

import (
	"math"
	"math/big"
	"math/rand"
	"testing"
)

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
		want := rounded24(op().Sub(one, op().Mul(q, op().Sub(one, float(float64(decay))))))
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

func rounded24(f *big.Float) float32 {
	x, _ := f.Float32()
	return x
}
