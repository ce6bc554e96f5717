package wire

import (
	"crypto/sha256"
	"sync"
)

// What was checked once is remembered, by a digest of all bytes that the check
// read: a statement is looked at when it is heard, in each record that embeds it
// and when that is replayed, and a digest costs a hundredth of a check. Only what
// was found good is remembered, so an answer never depends on what was asked
// before.
var (
	verified = newMemory[Digest, struct{}](1 << 15) // signatures
	opened   = newMemory[Digest, Envelope](4 << 20) // envelopes, in bytes
	decoded  = newMemory[Digest, *Record](8 << 20)  // records, in bytes
	nouns    = newMemory[Digest, any](4 << 20)      // bodies of envelopes, in bytes
	places   = newMemory[*byte, place](4 << 20)     // what Once opened, in bytes
)

// place is what bytes at one address were opened to. It holds them, so that the
// address is not used again.
type place struct {
	b []byte
	v any
}

// Once returns what open makes of b, and remembers it for these bytes at this place in
// memory: a caller with the very same slice gets the same value, even without a hash
// of it. Neither b nor the value may be changed afterwards. Errors are not remembered.
func Once[T any](b []byte, open func([]byte) (*T, error)) (*T, error) {
	if len(b) == 0 {
		return open(b)
	}
	if p, ok := places.get(&b[0]); ok && len(p.b) == len(b) {
		if v, ok := p.v.(*T); ok {
			return v, nil
		}
	}
	v, err := open(b)
	if err == nil {
		places.add(&b[0], place{b, v}, 4*len(b))
	}
	return v, err
}

// Remember makes this process remember n times as much as it does by default: for
// many peers in one process. What is remembered already stays.
func Remember(n int) {
	verified.grow(n << 15)
	opened.grow(n * 4 << 20)
	decoded.grow(n * 8 << 20)
	nouns.grow(n * 4 << 20)
	places.grow(n * 16 << 20)
}

// Read returns the body of e as the noun T, which the caller must not change:
// others may have it too.
func Read[T any](e Envelope) (*T, error) {
	name := e.Digest()
	if v, ok := nouns.get(name); ok {
		if t, ok := v.(*T); ok {
			return t, nil
		}
	}
	t := new(T)
	if err := e.Decode(t); err != nil {
		return nil, err
	}
	if len(e.Body) <= maxOpenedOne {
		nouns.add(name, t, 4*len(e.Body)+128)
	}
	return t, nil
}

// maxOpenedOne bounds the bytes of one remembered envelope: larger ones are
// proposals, which come once.
const maxOpenedOne = 16 << 10

// memory is a bounded map of two generations: what is asked for stays. It may be
// used concurrently.
type memory[K comparable, V any] struct {
	most int // of the sizes of a generation

	mu         sync.Mutex
	fresh, old map[K]memorized[V]
	size       int // of fresh
}

type memorized[V any] struct {
	v    V
	size int
}

func newMemory[K comparable, V any](most int) *memory[K, V] {
	return &memory[K, V]{most: most, fresh: map[K]memorized[V]{}}
}

func (m *memory[K, V]) get(d K) (v V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.fresh[d]; ok {
		return e.v, true
	}
	e, ok := m.old[d]
	if ok {
		m.put(d, e)
	}
	return e.v, ok
}

func (m *memory[K, V]) grow(most int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.most = max(m.most, most)
}

func (m *memory[K, V]) add(d K, v V, size int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(d, memorized[V]{v, size})
}

func (m *memory[K, V]) put(d K, e memorized[V]) {
	if m.size += e.size; m.size > m.most {
		m.fresh, m.old, m.size = map[K]memorized[V]{}, m.fresh, e.size
	}
	m.fresh[d] = e
}

// signatureDigest names a signature check.
func signatureDigest(p PeerID, msg, sig []byte) Digest {
	h := sha256.New()
	h.Write(p[:])
	h.Write(sig) // of fixed length
	h.Write(msg)
	return Digest(h.Sum(nil))
}
