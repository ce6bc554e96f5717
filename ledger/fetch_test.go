package ledger

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/apiary-net/hived/wire"
)

// TestFetchBelievesNothing asks peers that give a log in pieces, another's, a false
// head, other entries, and entries without an end.
func TestFetchBelievesNothing(t *testing.T) {
	k := testKey(1)
	l := open(t, newMemKV(), k)
	grow(t, l, 20, rand.New(rand.NewPCG(1, 1)))
	head, all := l.Head(), leaves(t, l)
	other := open(t, newMemKV(), testKey(2))
	grow(t, other, 20, rand.New(rand.NewPCG(1, 2)))
	second := open(t, newMemKV(), k)
	if _, err := second.Append(t.Context(), []wire.EntryBody{body(1000)}); err != nil {
		t.Fatal(err)
	}
	grow(t, second, 19, rand.New(rand.NewPCG(1, 3)))
	huge, err := signHead(logKey{wire.LogOrigin(testRun, k.Peer()), k.Peer(), k}, maxSize-1, wire.Digest{1})
	if err != nil {
		t.Fatal(err)
	}
	unsigned := head
	unsigned.Size = 1 << 30
	from := func(h wire.Head, leaf func(i uint64) []byte) func(lo uint64) (wire.LogAnswer, error) {
		return func(lo uint64) (wire.LogAnswer, error) {
			return wire.LogAnswer{Head: h, Entries: [][]byte{leaf(lo), leaf(lo + 1), leaf(lo + 2)}}, nil
		}
	}
	honest := func(i uint64) []byte { return all[i%20] }
	got, entries, err := Fetch(testRun, k.Peer(), 20, from(head, honest))
	if err != nil || got.Size != 20 || len(entries) != 20 || !bytes.Equal(entries[19], all[19]) {
		t.Fatalf("%d entries of %d, %v", len(entries), got.Size, err)
	}
	for what, c := range map[string]struct {
		head wire.Head
		leaf func(i uint64) []byte
		asks int
	}{
		"another's log":           {other.Head(), honest, 1},
		"a head without its note": {unsigned, honest, 1},
		"more than a run can say": {huge, honest, 1},
		"another's entries":       {head, func(i uint64) []byte { return leaves(t, other)[i%20] }, 1},
		"one entry again":         {head, func(uint64) []byte { return all[0] }, 1},
		"a second history":        {head, func(i uint64) []byte { return leaves(t, second)[i%20] }, 7},
	} {
		asks := 0
		ask := from(c.head, c.leaf)
		_, _, err := Fetch(testRun, k.Peer(), 20, func(lo uint64) (wire.LogAnswer, error) { asks++; return ask(lo) })
		if err == nil || asks != c.asks {
			t.Errorf("%s: asked %d times, want %d: %v", what, asks, c.asks, err)
		}
	}
	if _, _, err := Fetch(testRun, k.Peer(), 20, func(uint64) (wire.LogAnswer, error) { return wire.LogAnswer{Head: head}, nil }); err == nil {
		t.Error("a log without entries is taken")
	}
}
