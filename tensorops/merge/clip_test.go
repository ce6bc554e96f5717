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
