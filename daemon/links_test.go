package daemon

import (
	"context"
	"slices"
	"testing"

	"github.com/apiary-net/hived/wire"
)

// Connections reach a run in the order in which they changed, and of one peer the newest
// state is the last.
func TestLinksKeepTheirOrder(t *testing.T) {
	q := newLinkQueue()
	peer := func(i int) wire.PeerID { return wire.PeerID{byte(i)} }
	ctx, cancel := context.WithCancel(t.Context())
	last, seen := map[wire.PeerID]bool{}, []wire.PeerID{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		q.run(ctx, func(_ context.Context, p wire.PeerID, up bool) {
			last[p] = up
			seen = append(seen, p)
			if p == peer(255) {
				cancel()
			}
		})
	}()
	want := map[wire.PeerID]bool{}
	for i := range 5000 {
		p, up := peer(i%50), i%3 != 0
		q.put(p, up)
		want[p] = up
	}
	q.put(peer(255), true)
	want[peer(255)] = true
	<-ended
	for p, up := range want {
		if last[p] != up {
			t.Errorf("peer %d is last up: %v, want %v", p[0], last[p], up)
		}
	}
	if !slices.Equal(seen[len(seen)-1:], []wire.PeerID{peer(255)}) {
		t.Error("the last to change is not the last to be handed on")
	}
}
