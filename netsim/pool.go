package netsim

import (
	"bytes"
	"io/fs"
	"sync"

	"github.com/apiary-net/hived/wire"
)

// Pool holds each block of a simulation once, whoever has it: copies of a thousand
// peers cost the memory of one. It may be used concurrently.
type Pool struct {
	mu     sync.Mutex
	blocks map[wire.CID]*pooled
}

type pooled struct {
	b    []byte
	refs int
}

// NewPool returns an empty pool.
func NewPool() *Pool { return &Pool{blocks: map[wire.CID]*pooled{}} }

// Block returns a block that anybody holds, or nil. The caller must not change it.
func (p *Pool) Block(id wire.CID) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.blocks[id]; e != nil {
		return e.b
	}
	return nil
}

func (p *Pool) hold(id wire.CID, b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.blocks[id]
	if e == nil {
		e = &pooled{b: bytes.Clone(b)}
		p.blocks[id] = e
	}
	e.refs++
}

func (p *Pool) release(id wire.CID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.blocks[id]
	if e.refs--; e.refs == 0 {
		delete(p.blocks, id)
	}
}

// Store is one peer's blocks, by epoch, in a Pool: elastic's Blocks and States. It
// may be used concurrently.
type Store struct {
	pool *Pool
	mu   sync.Mutex
	ids  map[wire.CID]uint64 // epoch
	late []wire.CID          // put since the last Sync
}

// NewStore returns an empty store.
func NewStore(p *Pool) *Store { return &Store{pool: p, ids: map[wire.CID]uint64{}} }

// Sync makes durable what was put. It never fails.
func (s *Store) Sync() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = s.late[:0]
	return nil
}

// Crash takes what was not synced.
func (s *Store) Crash() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.late {
		if _, ok := s.ids[id]; ok {
			s.pool.release(id)
			delete(s.ids, id)
		}
	}
	s.late = nil
}

// Put keeps a copy of b.
func (s *Store) Put(epoch uint64, b []byte) (wire.CID, error) {
	id := wire.RawCID(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.ids[id]; !ok {
		s.pool.hold(id, b)
		s.late = append(s.late, id)
	}
	s.ids[id] = epoch
	return id, nil
}

// Get returns a block, which the caller must not change, or fs.ErrNotExist.
func (s *Store) Get(id wire.CID) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.ids[id]; !ok {
		return nil, fs.ErrNotExist
	}
	return s.pool.Block(id), nil
}

// DropBefore forgets the blocks of epochs before one. It never fails.
func (s *Store) DropBefore(epoch uint64) error {
	s.drop(func(e uint64) bool { return e < epoch })
	return nil
}

// Wipe forgets all blocks.
func (s *Store) Wipe() { s.drop(func(uint64) bool { return true }) }

func (s *Store) drop(which func(epoch uint64) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, e := range s.ids { // the order leaves no trace
		if which(e) {
			s.pool.release(id)
			delete(s.ids, id)
		}
	}
}

// epochs returns how many epochs have blocks.
func (s *Store) epochs() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[uint64]bool{}
	for _, e := range s.ids {
		all[e] = true
	}
	return len(all)
}
