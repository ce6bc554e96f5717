package wire

import (
	"crypto/sha256"
	"sync"
)

// opened remembers envelopes that were opened, by their bytes: one statement
// comes from many peers and stands in the records that embed it.
var opened = envelopes{fresh: map[Digest]Envelope{}}

// maxOpened bounds the bytes of each of two generations of envelopes, maxOpenedOne
// those of one: larger ones are proposals, which come once.
const (
	maxOpened    = 4 << 20
	maxOpenedOne = 16 << 10
)

type envelopes struct {
	mu         sync.Mutex
	fresh, old map[Digest]Envelope
	size       int // of fresh
}

func (c *envelopes) get(d Digest) (Envelope, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.fresh[d]; ok {
		return e, true
	}
	e, ok := c.old[d]
	if ok {
		c.put(e)
	}
	return e, ok
}

func (c *envelopes) add(e Envelope) {
	if len(e.raw) > maxOpenedOne {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(e)
}

func (c *envelopes) put(e Envelope) {
	const overhead = 256 // of an Envelope and its place in the map
	if c.size += 2*len(e.raw) + overhead; c.size > maxOpened {
		c.fresh, c.old, c.size = map[Digest]Envelope{}, c.fresh, 0
	}
	c.fresh[e.name] = e
}

// verified remembers signatures that were found good: a statement is looked at
// when it is heard, in each record that embeds it and when that is replayed, and
// a digest costs a hundredth of a check. Only good ones are remembered, by all
// bytes that the check reads, so an answer never depends on what was asked before.
var verified = remembered{fresh: map[[32]byte]struct{}{}}

// maxRemembered is how many digests each of two generations holds: 4 MB.
const maxRemembered = 1 << 15

type remembered struct {
	mu         sync.Mutex
	fresh, old map[[32]byte]struct{}
}

func digestOf(p PeerID, msg, sig []byte) [32]byte {
	h := sha256.New()
	h.Write(p[:])
	h.Write(sig) // of fixed length
	h.Write(msg)
	return [32]byte(h.Sum(nil))
}

func (r *remembered) has(d [32]byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.fresh[d]; ok {
		return true
	}
	_, ok := r.old[d]
	if ok {
		r.put(d)
	}
	return ok
}

func (r *remembered) add(d [32]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(d)
}

func (r *remembered) put(d [32]byte) {
	if len(r.fresh) >= maxRemembered {
		r.fresh, r.old = make(map[[32]byte]struct{}, maxRemembered), r.fresh
	}
	r.fresh[d] = struct{}{}
}
