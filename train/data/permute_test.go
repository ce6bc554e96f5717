package data

import "testing"

func TestPermute(t *testing.T) {
	for _, n := range []uint64{1, 2, 3, 5, 64, 100, 1000, 4097} {
		for epoch := range uint64(3) {
			seen := make([]bool, n)
			fixed := 0
			for p := range n {
				q := Permute(9, epoch, n, p)
				if q >= n || seen[q] {
					t.Fatalf("n=%d epoch %d: %d goes to %d, outside or taken", n, epoch, p, q)
				}
				seen[q] = true
				if p == q {
					fixed++
				}
			}
			if n >= 64 && fixed > 12 {
				t.Errorf("n=%d epoch %d: %d fixed points", n, epoch, fixed)
			}
		}
	}
	if Permute(1, 0, 1<<40, 5) == Permute(2, 0, 1<<40, 5) || Permute(1, 0, 1<<40, 5) == Permute(1, 1, 1<<40, 5) {
		t.Error("seed or epoch does not matter")
	}
	if got := Permute(1, 2, 60000, 3); got != permutePin {
		t.Errorf("Permute(1, 2, 60000, 3) = %d, want %d: old runs deal other samples", got, permutePin)
	}
}

// permutePin is Permute(1, 2, 60000, 3).
const permutePin = 47536
