package nettier

import (
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/apiary-net/hived/daemon"
	"github.com/apiary-net/hived/shards"
	"github.com/apiary-net/hived/wire"
)

// pool holds each block once, whoever has it.
type pool struct {
	mu     sync.Mutex
	blocks map[wire.CID]*pooled
}

type pooled struct {
	b    []byte
	refs int
}

func (p *pool) hold(id wire.CID, b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.blocks[id]
	if e == nil {
		e = &pooled{b: append([]byte{}, b...)}
		p.blocks[id] = e
	}
	e.refs++
}

func (p *pool) get(id wire.CID) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.blocks[id].b
}

func (p *pool) release(id wire.CID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.blocks[id]
	if e.refs--; e.refs == 0 {
		delete(p.blocks, id)
	}
}

// disk is what outlives the daemons of a machine.
type disk struct {
	pool   *pool
	kv     *shards.MemKV
	blocks map[string]*blocks // by directory; belongs to the machine
}

func newDisk(p *pool) *disk { return &disk{p, shards.NewMemKV(), map[string]*blocks{}} }

func (d *disk) wipe() {
	for _, b := range d.blocks {
		b.drop(func(uint64) bool { return true })
	}
	d.kv, d.blocks = shards.NewMemKV(), map[string]*blocks{}
}

// blocks is one store of a disk.
type blocks struct {
	pool *pool
	mu   sync.Mutex
	ids  map[wire.CID]uint64 // epoch; guarded by mu
}

func (s *blocks) drop(which func(epoch uint64) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, e := range s.ids {
		if which(e) {
			s.pool.release(id)
			delete(s.ids, id)
		}
	}
}

// life is one daemon's hold on its disk: once it is dead nothing is written.
type life struct{ dead atomic.Bool }

type lifeKV struct {
	*shards.MemKV
	life *life
}

// Apply implements daemon.KV.
func (k lifeKV) Apply(puts [][2][]byte, dels [][]byte, sync bool) error {
	if k.life.dead.Load() {
		return fs.ErrClosed
	}
	return k.MemKV.Apply(puts, dels, sync)
}

// Close implements daemon.KV; the disk stays.
func (k lifeKV) Close() error { return nil }

type lifeBlocks struct {
	*blocks
	life *life
}

// Put implements daemon.Blocks.
func (s lifeBlocks) Put(epoch uint64, b []byte) (wire.CID, error) {
	if s.life.dead.Load() {
		return wire.CID{}, fs.ErrClosed
	}
	id := wire.RawCID(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.ids[id]; !ok {
		s.pool.hold(id, b)
	}
	s.ids[id] = epoch
	return id, nil
}

// Get implements daemon.Blocks.
func (s lifeBlocks) Get(id wire.CID) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.ids[id]; !ok {
		return nil, fs.ErrNotExist
	}
	return s.pool.get(id), nil
}

// DropBefore implements daemon.Blocks.
func (s lifeBlocks) DropBefore(epoch uint64) error {
	if s.life.dead.Load() {
		return fs.ErrClosed
	}
	s.drop(func(e uint64) bool { return e < epoch })
	return nil
}

// Close implements daemon.Blocks; the disk stays.
func (s lifeBlocks) Close() error { return nil }

// open gives the stores to one life of a daemon.
func (d *disk) open(w *daemon.World, l *life) {
	w.KV = func(string) (daemon.KV, error) { return lifeKV{d.kv, l}, nil }
	var mu sync.Mutex
	w.Blocks = func(dir string) (daemon.Blocks, error) {
		mu.Lock()
		defer mu.Unlock()
		if d.blocks[dir] == nil {
			d.blocks[dir] = &blocks{pool: d.pool, ids: map[wire.CID]uint64{}}
		}
		return lifeBlocks{d.blocks[dir], l}, nil
	}
}
