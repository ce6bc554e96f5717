package rules

import (
	"slices"
	"testing"

	"github.com/apiary-net/hived/wire"
)

func TestCoversIsBounded(t *testing.T) {
	if covers([]byte{0xff}, 9) || !covers([]byte{0xff, 1}, 9) || !covers(nil, 0) || covers(nil, 1) {
		t.Fatal("bitmap of parts is read wrongly")
	}
}

// Groups cut the peers into pieces of almost one size, and another seed deals
// them anew.
func TestGroupsOf(t *testing.T) {
	var peers []wire.PeerID
	for i := range 100 {
		d := wire.Sum([]byte{byte(i)})
		peers = append(peers, wire.PeerID(d))
	}
	slices.SortFunc(peers, wire.PeerID.Compare)
	for n := 1; n <= len(peers); n++ {
		for _, size := range []int{2, 3, 8, 32} {
			groups := groupsOf(wire.Sum([]byte("seed")), peers[:n], size)
			if want := (n + size - 1) / size; len(groups) != want {
				t.Fatalf("%d peers in groups of %d: %d groups, want %d", n, size, len(groups), want)
			}
			var all []wire.PeerID
			least, most := n, 0
			for _, g := range groups {
				if !slices.IsSortedFunc(g, wire.PeerID.Compare) {
					t.Fatal("members are not ascending")
				}
				least, most = min(least, len(g)), max(most, len(g))
				all = append(all, g...)
			}
			slices.SortFunc(all, wire.PeerID.Compare)
			if !slices.Equal(all, peers[:n]) || most > size || most-least > 1 {
				t.Fatalf("%d peers in groups of %d: sizes %d to %d, %d members", n, size, least, most, len(all))
			}
		}
	}
	a, b := groupsOf(wire.Sum([]byte("a")), peers, 8), groupsOf(wire.Sum([]byte("b")), peers, 8)
	same := 0
	for i := range a {
		for _, p := range a[i] {
			if slices.Contains(b[i], p) {
				same++
			}
		}
	}
	if same > 30 { // 100/13 are expected
		t.Fatalf("%d of 100 peers stay in their group under another seed", same)
	}
}
