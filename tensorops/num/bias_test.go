package num

import (
	"math"
	"math/big"
	"math/rand"
	"testing"
)

// TestBiasCorrection compares with products that are rounded one by one to 53
// bits, and with the exact power.
func TestBiasCorrection(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	float := func(prec uint, f float64) *big.Float { return new(big.Float).SetPrec(prec).SetFloat64(f) }
	for range 2000 {
		beta, n := float32(r.Float64()), 1+uint64(r.Int63n(1<<uint(1+r.Intn(12))))
		p, b := float(53, 1), float(53, float64(beta))
		for k := n; k > 0; k >>= 1 {
			if k&1 == 1 {
				p.Mul(p, b)
			}
			b.Mul(b, b)
		}
		q := new(big.Float).SetPrec(53).Quo(float(53, 1), new(big.Float).SetPrec(53).Sub(float(53, 1), p))
		want64, _ := q.Float64()
		got := BiasCorrection(beta, n)
		if want := float32(want64); math.Float32bits(got) != math.Float32bits(want) {
			t.Fatalf("beta %v, step %d: %x, want %x", beta, n, got, want)
		}
		exact := float(4000, 1)
		for range n {
			exact.Mul(exact, float(24, float64(beta)))
		}
		exact.Quo(float(4000, 1), exact.Sub(float(4000, 1), exact))
		if e, _ := exact.Float64(); math.Abs(float64(got)/e-1) > 1e-6 {
			t.Fatalf("beta %v, step %d: %v, exactly %v", beta, n, got, e)
		}
	}
	if BiasCorrection(0, 0) != 1 || BiasCorrection(0, 9) != 1 {
		t.Error("without decay there is nothing to correct")
	}
}
