package ledger

import (
	"testing"

	"github.com/apiary-net/hived/wire"
)

// In a large swarm each log has a fixed number of witnesses, in a small one
// everybody is one.
func TestWitnesses(t *testing.T) {
	const direct = 32
	for _, n := range []int{2, direct, 100} {
		var members []wire.PeerID
		for range n {
			members = append(members, wire.NewKey().Peer())
		}
		want := witnesses
		if n <= direct {
			want = n - 1
		}
		follows := 0
		for _, p := range members {
			got := 0
			for _, q := range members {
				if q != p && IsWitness(q, p, members, direct) {
					got++
				}
			}
			if told := WitnessesOf(p, members, direct); n > direct && len(told) != want || n <= direct && told != nil {
				t.Fatalf("%d members: a log's head goes to %d", n, len(told))
			}
			if got != want {
				t.Fatalf("%d members: a log has %d witnesses, want %d", n, got, want)
			}
			follows += got
		}
		if follows != n*want {
			t.Fatalf("%d members: %d logs are followed", n, follows)
		}
	}
}
