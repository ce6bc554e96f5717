//go:build cgo

package cpu

import (
	"fmt"
	"math"
	"testing"

	"github.com/apiary-net/hived/tensorops/num"
)

// TestGemmBF16 compares with float64 sums over rounded operands, in every layout.
func TestGemmBF16(t *testing.T) {
	isas := ISAs()
	defer func() { _ = SetISA(isas[0]) }()
	defer SetThreads(1)
	defer setTiles(true)
	for _, isa := range isas {
		if err := SetISA(isa); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: own instructions: %v", isa, HasBF16())
		for i, s := range [][3]int{{1, 1, 1}, {32, 32, 32}, {33, 17, 31}, {64, 100, 96}, {70, 48, 600}, {300, 40, 64}, {5, 700, 40}} {
			for layout := range 4 {
				setTiles(i%2 == 0)
				SetThreads(1 + (i+layout)%3)
				checkBF16(t, fmt.Sprintf("%s %v layout %d", isa, s, layout), s[0], s[1], s[2], layout)
			}
		}
	}
}

func checkBF16(t *testing.T, what string, m, n, k, layout int) {
	t.Helper()
	p, q, bias := filled(m*k, 1), filled(n*k, 2), filled(n, 3)
	a, b := Mat{p, k, 1}, Mat{q, k, 1}
	if layout&1 == 1 {
		a = Mat{p, 1, m}
	}
	if layout&2 == 2 {
		b = Mat{q, 1, n}
	}
	c, add, relu := filled(m*n, 4), layout == 1, layout == 2
	want := make([]float64, m*n)
	size := make([]float64, m*n)
	for i := range m {
		for j := range n {
			s, z := 0.0, 0.0
			for e := range k {
				x := float64(round16(a.P[i*a.Lane+e*a.Depth])) * float64(round16(b.P[j*b.Lane+e*b.Depth]))
				s, z = s+x, z+math.Abs(x)
			}
			if add {
				s += float64(c[i*n+j])
			}
			s += float64(bias[j])
			if relu && s < 0 {
				s = 0
			}
			want[i*n+j], size[i*n+j] = s, z+1
		}
	}
	GemmBF16(m, n, k, a, b, c, n, add, Finish{Bias: bias, Relu: relu})
	for i, f := range c {
		if d := math.Abs(float64(f) - want[i]); !(d <= 1e-6*size[i]) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, f, want[i])
		}
	}
}

func round16(x float32) float32 { return num.FromBF16(num.ToBF16(x)) }
