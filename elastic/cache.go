package elastic

import (
	"bytes"
	"io/fs"
	"sync"

	"github.com/apiary-net/hived/wire"
	"github.com/apiary-net/hived/wire/invariants"
)

// cache holds the bodies of the newest rounds in memory and knows which of them
// may be given to whom: bodies of the open round only to those that the machine names.
type cache struct {
	mu     sync.Mutex
	items  map[wire.CID]cached
	open   uint64               // the open round
	all    bool                 // everybody may have its bodies
	shown  map[wire.PeerID]bool // who may have them before
	voters map[wire.PeerID]bool // of the open round: they fetch what groups merged
	size   int
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
	return &cache{items: map[wire.CID]cached{}, shown: map[wire.PeerID]bool{}}
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
	if invariants.On {
		c.check()
		defer c.check()
	}
	c.open, c.all = head.Round+1, false
	clear(c.shown)
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

// show lets peers have the bodies of the open round.
func (c *cache) show(peers []wire.PeerID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range peers {
		c.shown[p] = true
	}
}

// showAll lets everybody have the bodies of the open round.
func (c *cache) showAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = true
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
	early := it.round >= c.open && c.open > 0 && !c.all
	if early && !c.shown[asker] && !(it.merged && c.voters[asker]) {
		return nil, fs.ErrPermission
	}
	return it.b, nil
}
