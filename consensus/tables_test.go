package consensus

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/quick"

	"github.com/apiary-net/hived/wire"
)

func table(ids ...byte) wire.Table {
	var t wire.Table
	for i, id := range ids {
		t = append(t, wire.Power{Rank: uint32(i), Peer: wire.PeerID{id}, Power: 1})
	}
	return t
}

// The table of an instance is that of the last record decided at least Lookback
// instances before it; instances before that use the start record's.
func TestTablesActLookbackInstancesLater(t *testing.T) {
	var b Tables
	b.Start(table(1))
	b.Decided(0, table(2))
	b.Decided(3, table(3)) // 1 and 2 were base decisions
	for _, c := range []struct {
		instance uint64
		want     byte
	}{{4, 1}, {5, 2}, {7, 2}, {8, 3}, {1000, 3}} {
		if got := b.At(c.instance); got[0].Peer[0] != c.want {
			t.Errorf("instance %d uses the table of %d, want %d", c.instance, got[0].Peer[0], c.want)
		}
	}
}

// A long run of decisions and base decisions gives at each instance what a book that
// forgets nothing gives, and keeps a bounded number of tables.
func TestTablesMatchABookOfAll(t *testing.T) {
	f := func(seed uint64) bool {
		rng := rand.New(rand.NewPCG(seed, 1))
		var b Tables
		b.Start(table(0))
		type row struct {
			instance uint64
			id       byte
		}
		var all []row
		for i := uint64(0); i < 200; i++ {
			want := byte(0)
			for _, r := range all {
				if r.instance+Lookback <= i {
					want = r.id
				}
			}
			if got := b.At(i); got[0].Peer[0] != want {
				return false
			}
			if rng.IntN(3) > 0 { // else a base decision
				id := byte(1 + rng.IntN(255))
				all = append(all, row{i, id})
				b.Decided(i, table(id))
			}
		}
		return len(b.rows) <= Lookback+2
	}
	if err := quick.Check(f, nil); err != nil {
		t.Fatal(err)
	}
}

// Who leads is a function of the seed, the round and the instance alone, not of the
// order of the table, and everybody's turn comes.
func TestLeaderIsDrawn(t *testing.T) {
	seed := wire.Sum([]byte("seed"))
	all := table(1, 2, 3, 4, 5, 6, 7)
	turns := map[wire.PeerID]int{}
	for r := range uint64(30) {
		for i := range uint64(20) {
			p := Leader(seed, r, i, all)
			turned := slices.Clone(all)
			slices.Reverse(turned)
			if Leader(seed, r, i, turned) != p {
				t.Fatalf("round %d, instance %d: the order of the table decides who leads", r, i)
			}
			turns[p]++
		}
	}
	for _, v := range all { // 600 draws of 7: 86 each, give or take five deviations
		if n := turns[v.Peer]; n < 43 || n > 129 {
			t.Errorf("%d leads %d times in 600", v.Peer[0], n)
		}
	}
	if Leader(wire.Sum([]byte("another")), 1, 1, all) == Leader(seed, 1, 1, all) && Leader(wire.Sum([]byte("another")), 1, 2, all) == Leader(seed, 1, 2, all) && Leader(wire.Sum([]byte("another")), 1, 3, all) == Leader(seed, 1, 3, all) {
		t.Error("the seed does not matter")
	}
	defer func() {
		if recover() == nil {
			t.Error("an empty table has a leader")
		}
	}()
	Leader(seed, 1, 1, nil)
}
