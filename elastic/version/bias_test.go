package version

import "testing"

func TestBiasMatchesItsDefinition(t *testing.T) {
	for _, n := range []uint64{1, 2, 3, 7, 100, 12345} {
		p := 1.0
		for range n {
			p *= float64(float32(0.99))
		}
		want := float32(1 / (1 - p))
		if got := bias(0.99, n); got < want*0.999999 || got > want*1.000001 {
			t.Fatalf("bias after %d steps: %v, want %v", n, got, want)
		}
	}
}
