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
	verified = newMemory[struct{}](1 << 15) // signatures
	opened   = newMemory[Envelope](4 << 20) // envelopes, in bytes
	decoded  = newMemory[*Record](8 << 20)  // records, in bytes
	nouns    = newMemory[any](4 << 20)      // bodies of envelopes, in bytes
)

// Remember makes this process remember n times as much as it does by default: for
// many peers in one process. What is remembered already stays.
func Remember(n int) {
	verified.grow(n << 15)
	opened.grow(n * 4 << 20)
	decoded.grow(n * 8 << 20)
	nouns.grow(n * 4 << 20)
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
type memory[V any] struct {
	most int // of the sizes of a generation

	mu         sync.Mutex
	fresh, old map[Digest]memorized[V]
	size       int // of fresh
}

type memorized[V any] struct {
	v    V
	size int
}

func newMemory[V any](most int) *memory[V] {
	return &memory[V]{most: most, fresh: map[Digest]memorized[V]{}}
}

func (m *memory[V]) get(d Digest) (v V, ok bool) {
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

func (m *memory[V]) grow(most int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.most = max(m.most, most)
}

func (m *memory[V]) add(d Digest, v V, size int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(d, memorized[V]{v, size})
}

func (m *memory[V]) put(d Digest, e memorized[V]) {
	if m.size += e.size; m.size > m.most {
		m.fresh, m.old, m.size = map[Digest]memorized[V]{}, m.fresh, e.size
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
