package gossip

import (
	"io/fs"
	"testing"
	"time"

	"github.com/apiary-net/hived/wire"
)

// A fetch begins with as few holders as its blocks need, the likely ones first,
// and asks more when they refuse or are slow.
func TestFetchBeginsNarrow(t *testing.T) {
	var ps []wire.PeerID
	for i := range 16 {
		ps = append(ps, wire.PeerID(wire.Sum([]byte{byte(i)})))
	}
	asked := func(f *fetch) (n int) {
		for i, h := range f.holders {
			if len(h.asked) > 0 {
				if n++; h.peer != ps[i] {
					t.Fatalf("holder %d is %v, want %v: the likely ones come first", i, h.peer, ps[i])
				}
			}
		}
		return n
	}
	now := time.Unix(0, 0)
	for _, c := range []struct{ blocks, holders int }{{1, 1}, {fetchWindow, 1}, {fetchWindow + 1, 2}, {5 * fetchWindow, 5}, {40 * fetchWindow, 16}} {
		_, ids := someBlocks(c.blocks, 4)
		f := newFetch(ids, ps, wire.PeerID{})
		f.assign(now)
		if got := asked(f); got != c.holders {
			t.Errorf("%d blocks are asked of %d holders, want %d", c.blocks, got, c.holders)
		}
	}
	_, ids := someBlocks(1, 4)
	f := newFetch(ids, ps, wire.PeerID{})
	f.assign(now)
	f.take(fetchEvent{from: f.holders[0], id: <-f.holders[0].work, err: fs.ErrNotExist})
	f.assign(now)
	if len(f.holders[1].asked) != 1 {
		t.Error("what the first holder refuses is not asked of the second")
	}
	f.hurry(now.Add(slowAfter + 1))
	f.assign(now.Add(slowAfter + 1))
	if len(f.holders[2].asked) != 1 {
		t.Error("what takes long is not asked of a third")
	}
}
