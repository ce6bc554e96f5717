package wire

import (
	"crypto/sha256"
	"slices"
	"testing"
)

// TestDraw compares with a selection sort over digests of joined bytes, and pins
// one draw.
func TestDraw(t *testing.T) {
	for n := range 8 {
		seed := digestN(n)
		var want []PeerID
		for left := peersN(n); len(left) > 0; {
			least := 0
			for i := range left {
				a := sha256.Sum256([]byte("hived/test/v1\n" + string(seed[:]) + string(left[i][:])))
				b := sha256.Sum256([]byte("hived/test/v1\n" + string(seed[:]) + string(left[least][:])))
				if string(a[:]) < string(b[:]) {
					least = i
				}
			}
			want = append(want, left[least])
			left = slices.Delete(left, least, least+1)
		}
		in := peersN(n)
		slices.Reverse(in)
		if got := Draw("hived/test/v1\n", seed[:], in); !slices.Equal(got, want) {
			t.Errorf("%d peers: %v, want %v", n, got, want)
		}
	}
	if got, want := Ticket("hived/test/v1\n", nil, PeerID{}).String(), "0280d451"; got[:8] != want {
		t.Errorf("ticket %s, want %s...", got, want)
	}
}
