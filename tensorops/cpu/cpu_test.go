//go:build cgo

package cpu

import (
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/apiary-net/hived/tensorops/num"
)

func filled(n int, stream uint64) []float32 {
	x := make([]float32, n)
	num.FillNormal(x, 1, stream, 1)
	return x
}

func TestChoices(t *testing.T) {
	isas := ISAs()
	if !slices.Contains(isas, "scalar") || len(isas) == 0 || ISA() != isas[0] {
		t.Errorf("have %v, use %q", isas, ISA())
	}
	if err := SetISA("mmx"); err == nil || ISA() != isas[0] {
		t.Errorf("unknown set: %v, use %q", err, ISA())
	}
	for _, s := range isas {
		if err := SetISA(s); err != nil || ISA() != s {
			t.Errorf("choose %s: %v, use %q", s, err, ISA())
		}
	}
	if err := SetISA(isas[0]); err != nil {
		t.Fatal(err)
	}
	defer SetThreads(1)
	for _, c := range [][2]int{{0, 1}, {-5, 1}, {3, 3}, {1, 1}} {
		if got := SetThreads(c[0]); got != c[1] {
			t.Errorf("SetThreads(%d) = %d, want %d", c[0], got, c[1])
		}
	}
}

// TestConcurrentCallers lets callers meet in the pool: each gets its own product.
func TestConcurrentCallers(t *testing.T) {
	defer SetThreads(1)
	SetThreads(3)
	const m, n, k, callers = 96, 80, 120, 6
	var wg sync.WaitGroup
	for c := range callers {
		a, b := filled(m*k, uint64(2*c)), filled(n*k, uint64(2*c+1))
		want := make([]float32, m*n)
		Gemm(m, n, k, Mat{a, k, 1}, Mat{b, k, 1}, want, n, false, Finish{})
		for j, row := range want[:n] { // one row against the plain loop
			s := float32(0)
			for p := range k {
				s = num.Fma32(a[p], b[j*k+p], s)
			}
			if math.Float32bits(s) != math.Float32bits(row) {
				t.Fatalf("caller %d, column %d: %v, want %v", c, j, row, s)
			}
		}
		wg.Go(func() {
			got := make([]float32, m*n)
			for range 40 {
				Gemm(m, n, k, Mat{a, k, 1}, Mat{b, k, 1}, got, n, false, Finish{})
				if !slices.Equal(got, want) {
					t.Errorf("caller %d got another product", c)
					return
				}
			}
		})
	}
	wg.Wait()
	if WorkerTime() < 0 {
		t.Error("negative processor time")
	}
}

func TestSumSquares(t *testing.T) {
	for _, n := range []int{1, 17, 4096, 4097, 20001} {
		x := filled(n, 3)
		got := SumSquares(x, make([]float64, n/4096+1))
		if want := num.SumSquares(x); math.Float64bits(got) != math.Float64bits(want) {
			t.Errorf("n=%d: %v, want %v", n, got, want)
		}
	}
}

func BenchmarkGemm(b *testing.B) {
	const n = 512
	x, y, z := filled(n*n, 1), filled(n*n, 2), make([]float32, n*n)
	for b.Loop() {
		Gemm(n, n, n, Mat{x, n, 1}, Mat{y, n, 1}, z, n, false, Finish{})
	}
	b.ReportMetric(2*n*n*n/1e9/(b.Elapsed().Seconds()/float64(b.N)), "GFLOP/s")
}
