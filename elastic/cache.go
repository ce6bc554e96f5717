package elastic

import (
	"bytes"
	"io/fs"
	"slices"
	"sync"

	"github.com/apiary-net/hived/wire"
)

// cache holds the bodies of the newest rounds in memory and knows which of them
// may be given to whom: bodies of the open round only to peers that have
// committed themselves, to guests once nobody is left to commit, or to anyone after
// the deadline.
type cache struct {
	mu        sync.Mutex
	items     map[wire.CID]cached
	open      uint64               // the open round
	overdue   bool                 // its deadline has passed
	committed map[wire.PeerID]bool // whose header of the open round is known
	voters    map[wire.PeerID]bool // of the open round: they fetch what groups merged
	guests    []wire.PeerID        // who have no work of their own in the open round to copy into
	size      int
}

type cached struct {
	round  uint64
	b      []byte
	merged bool // of a merged update, which voters may have at once
}

// maxCache bounds the memory of bodies. What does not fit is fetched again when
// it is merged.
const maxCache = 2 << 30

func newCache() *cache {
	return &cache{items: map[wire.CID]cached{}, committed: map[wire.PeerID]bool{}}
}

// put keeps a copy of b as part of a round.
func (c *cache) put(round uint64, id wire.CID, b []byte) { c.add(id, cached{round: round, b: b}) }

// putMerged keeps a copy of a block of a merged update, and reports whether there
// was room.
func (c *cache) putMerged(round uint64, id wire.CID, b []byte) bool {
	return c.add(id, cached{round: round, b: b, merged: true})
}

func (c *cache) add(id wire.CID, it cached) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.items[id]; ok {
		return true
	}
	if c.size+len(it.b) > maxCache {
		return false
	}
	it.b = bytes.Clone(it.b)
	c.items[id] = it
	c.size += len(it.b)
	return true
}

// get returns a block that the caller must not change, or nil.
func (c *cache) get(id wire.CID) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.items[id].b
}

// turn opens the round after head and forgets bodies of rounds before head's.
func (c *cache) turn(head *wire.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open, c.overdue, c.guests = head.Round+1, false, nil
	clear(c.committed)
	c.voters = map[wire.PeerID]bool{}
	for _, p := range head.Table {
		c.voters[p.Peer] = true
	}
	for id, it := range c.items {
		if it.round < head.Round {
			c.size -= len(it.b)
			delete(c.items, id)
		}
	}
}

func (c *cache) commit(p wire.PeerID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.committed[p] = true
}

func (c *cache) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.overdue = true
}

// invite lets guests have the bodies of the open round.
func (c *cache) invite(guests []wire.PeerID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.guests = guests
}

// serve returns a block for another peer, fs.ErrPermission while it may not have
// it yet, or fs.ErrNotExist.
func (c *cache) serve(asker wire.PeerID, id wire.CID) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	it, ok := c.items[id]
	if !ok {
		return nil, fs.ErrNotExist
	}
	early := it.round >= c.open && c.open > 0 && !c.overdue
	if early && !c.committed[asker] && !(it.merged && c.voters[asker]) && !slices.Contains(c.guests, asker) {
		return nil, fs.ErrPermission
	}
	return it.b, nil
}
