package netsim

import (
	"errors"
	"io/fs"
	"time"

	"github.com/apiary-net/hived/shards"
	"github.com/apiary-net/hived/wire"
)

// pool holds each block of a simulation once, whoever has it: copies of a
// thousand peers cost the memory of one.
type pool struct {
	blocks map[wire.CID]*pooled
}

type pooled struct {
	b    []byte
	refs int
}

func newPool() *pool { return &pool{blocks: map[wire.CID]*pooled{}} }

func (p *pool) hold(id wire.CID, b []byte) {
	e := p.blocks[id]
	if e == nil {
		e = &pooled{b: append([]byte{}, b...)}
		p.blocks[id] = e
	}
	e.refs++
}

func (p *pool) release(id wire.CID) {
	e := p.blocks[id]
	if e.refs--; e.refs == 0 {
		delete(p.blocks, id)
	}
}

// blockStore is a peer's own view of the pool: elastic's Blocks and States.
type blockStore struct {
	disk *disk
	ids  map[wire.CID]uint64 // epoch
}

func (s *blockStore) Put(epoch uint64, b []byte) (wire.CID, error) {
	if err := s.disk.writable(); err != nil {
		return wire.CID{}, err
	}
	id := wire.RawCID(b)
	if _, ok := s.ids[id]; !ok {
		s.disk.pool.hold(id, b)
	}
	s.ids[id] = epoch
	return id, nil
}

func (s *blockStore) Get(id wire.CID) ([]byte, error) {
	if _, ok := s.ids[id]; !ok {
		return nil, fs.ErrNotExist
	}
	return s.disk.pool.blocks[id].b, nil
}

func (s *blockStore) DropBefore(epoch uint64) error {
	for id, e := range s.ids { // the order leaves no trace
		if e < epoch {
			s.disk.pool.release(id)
			delete(s.ids, id)
		}
	}
	return nil
}

func (s *blockStore) wipe() {
	for id := range s.ids {
		s.disk.pool.release(id)
	}
	clear(s.ids)
}

// disk is what outlives a peer's process.
type disk struct {
	pool   *pool
	kv     *shards.MemKV
	log    *shards.MemKV // of the ledger
	bodies *blockStore
	states *blockStore

	full bool          // blocks are refused; the small key-value store has room
	slow time.Duration // of each write that must be durable
}

func newDisk(p *pool) *disk {
	d := &disk{pool: p, kv: shards.NewMemKV(), log: shards.NewMemKV()}
	d.bodies, d.states = &blockStore{d, map[wire.CID]uint64{}}, &blockStore{d, map[wire.CID]uint64{}}
	return d
}

var errNoSpace = errors.New("no space left on the simulated disk")

func (d *disk) writable() error {
	if d.full {
		return errNoSpace
	}
	return nil
}

// crash is what a power cut leaves: all that was synced.
func (d *disk) crash() { d.kv, d.log = d.kv.Crash(0), d.log.Crash(0) }

// wipe makes the disk an empty one.
func (d *disk) wipe() {
	d.bodies.wipe()
	d.states.wipe()
	d.kv, d.log = shards.NewMemKV(), shards.NewMemKV()
}

// lifeKV is the store as one life of a process sees it: after its death nothing
// is written any more.
type lifeKV struct {
	life *life
	kv   *shards.MemKV
	slow bool // writes take the disk's time
}

func (k lifeKV) Get(key []byte) ([]byte, error) { return k.kv.Get(key) }

func (k lifeKV) Scan(prefix []byte, f func(key, value []byte) error) error {
	return k.kv.Scan(prefix, f)
}

func (k lifeKV) Apply(puts [][2][]byte, dels [][]byte, sync bool) error {
	if sync && k.slow && k.life.n.disk.slow > 0 {
		if err := k.life.n.sw.Loop.Sleep(k.life.ctx, k.life.n.disk.slow); err != nil {
			return err
		}
	}
	if k.life.dead {
		return fs.ErrClosed
	}
	return k.kv.Apply(puts, dels, sync)
}

// Close implements ledger.KV; the disk stays.
func (k lifeKV) Close() error { return nil }

// lifeBlocks is a block store as one life sees it.
type lifeBlocks struct {
	life  *life
	store *blockStore
}

func (s lifeBlocks) Put(epoch uint64, b []byte) (wire.CID, error) {
	if s.life.dead {
		return wire.CID{}, fs.ErrClosed
	}
	return s.store.Put(epoch, b)
}

func (s lifeBlocks) Get(id wire.CID) ([]byte, error) { return s.store.Get(id) }

func (s lifeBlocks) DropBefore(epoch uint64) error {
	if s.life.dead {
		return fs.ErrClosed
	}
	return s.store.DropBefore(epoch)
}
