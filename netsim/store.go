package netsim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"io/fs"
	"time"

	"github.com/apiary-net/hived/shards"
	"github.com/apiary-net/hived/wire"
)

// pool holds each block of a simulation once, whoever has it: copies of a
// thousand peers cost the memory of one.
type pool struct {
	blocks map[wire.CID]*pooled
	values map[uint64][]byte // by hash; nothing ever depends on these
	seed   maphash.Seed
}

type pooled struct {
	b    []byte
	refs int
}

func newPool() *pool {
	return &pool{blocks: map[wire.CID]*pooled{}, values: map[uint64][]byte{}, seed: maphash.MakeSeed()}
}

func (p *pool) hold(id wire.CID, b []byte) {
	e := p.blocks[id]
	if e == nil {
		e = &pooled{b: append([]byte{}, b...)}
		p.blocks[id] = e
	}
	e.refs++
}

// Large values of key-value stores, which are records, are held once too: a store
// has their name, behind inPool. They are never released.
const (
	inPool   = "netsim/pool/"
	interned = 2 << 10 // bytes from which on
)

// intern returns what a store keeps for v.
func (p *pool) intern(v []byte) []byte {
	if len(v) < interned {
		return v
	}
	key := maphash.Bytes(p.seed, v)
	for len(p.values[key]) > 0 && !bytes.Equal(p.values[key], v) {
		key++ // another value has that hash
	}
	if p.values[key] == nil {
		p.values[key] = bytes.Clone(v)
	}
	return binary.LittleEndian.AppendUint64([]byte(inPool), key)
}

// value returns what v stands for. The caller must not change it.
func (p *pool) value(v []byte) []byte {
	if len(v) == len(inPool)+8 && string(v[:len(inPool)]) == inPool {
		return p.values[binary.LittleEndian.Uint64(v[len(inPool):])]
	}
	return v
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

	full bool          // all writes are refused
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

func (k lifeKV) Get(key []byte) ([]byte, error) {
	v, err := k.kv.Get(key)
	return k.pool().value(v), err
}

func (k lifeKV) Scan(prefix []byte, f func(key, value []byte) error) error {
	return k.kv.Scan(prefix, func(key, value []byte) error { return f(key, k.pool().value(value)) })
}

func (k lifeKV) pool() *pool { return k.life.n.disk.pool }

func (k lifeKV) Apply(puts [][2][]byte, dels [][]byte, sync bool) error {
	if sync && k.slow && k.life.n.disk.slow > 0 {
		if err := k.life.n.sw.Loop.Sleep(k.life.ctx, k.life.n.disk.slow); err != nil {
			return err
		}
	}
	if k.life.dead {
		return fs.ErrClosed
	}
	short := make([][2][]byte, len(puts))
	for i, p := range puts {
		short[i] = [2][]byte{p[0], k.pool().intern(p[1])}
	}
	return k.kv.Apply(short, dels, sync)
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
