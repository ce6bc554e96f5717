package daemon

import (
	"context"
	"sync"

	"github.com/apiary-net/hived/wire"
)

// linkQueue hands connections that came up or went down to a run, in order. It never
// blocks who puts in, and has one entry a peer: of what is not yet handed on, the newest
// counts.
type linkQueue struct {
	more chan struct{}

	mu    sync.Mutex
	order []wire.PeerID        // guarded by mu
	up    map[wire.PeerID]bool // of those in order; guarded by mu
}

func newLinkQueue() *linkQueue {
	return &linkQueue{more: make(chan struct{}, 1), up: map[wire.PeerID]bool{}}
}

func (q *linkQueue) put(p wire.PeerID, up bool) {
	q.mu.Lock()
	if _, waits := q.up[p]; !waits {
		q.order = append(q.order, p)
	}
	q.up[p] = up
	q.mu.Unlock()
	select {
	case q.more <- struct{}{}:
	default:
	}
}

func (q *linkQueue) take() (p wire.PeerID, up, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.order) == 0 {
		return p, false, false
	}
	p, q.order = q.order[0], q.order[1:]
	up = q.up[p]
	delete(q.up, p)
	return p, up, true
}

// run hands on until ctx ends.
func (q *linkQueue) run(ctx context.Context, connected func(context.Context, wire.PeerID, bool)) {
	for {
		for p, up, ok := q.take(); ok && ctx.Err() == nil; p, up, ok = q.take() {
			connected(ctx, p, up)
		}
		select {
		case <-ctx.Done():
			return
		case <-q.more:
		}
	}
}
