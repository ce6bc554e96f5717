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

// values holds the large values of key-value stores, which are records, once too: a
// store has their name, behind inPool. They are never released.
type values struct {
	by   map[uint64][]byte // by hash; nothing ever depends on these
	seed maphash.Seed
}

func newValues() *values { return &values{map[uint64][]byte{}, maphash.MakeSeed()} }

const (
	inPool   = "netsim/pool/"
	interned = 2 << 10 // bytes from which on
)

// intern returns what a store keeps for v.
func (p *values) intern(v []byte) []byte {
	if len(v) < interned {
		return v
	}
	key := maphash.Bytes(p.seed, v)
	for len(p.by[key]) > 0 && !bytes.Equal(p.by[key], v) {
		key++ // another value has that hash
	}
	if p.by[key] == nil {
		p.by[key] = bytes.Clone(v)
	}
	return binary.LittleEndian.AppendUint64([]byte(inPool), key)
}

// value returns what v stands for. The caller must not change it.
func (p *values) value(v []byte) []byte {
	if len(v) == len(inPool)+8 && string(v[:len(inPool)]) == inPool {
		return p.by[binary.LittleEndian.Uint64(v[len(inPool):])]
	}
	return v
}

// blockStore is a Store on a disk that may be full.
type blockStore struct {
	*Store
	disk *disk
}

func (s blockStore) Put(epoch uint64, b []byte) (wire.CID, error) {
	if err := s.disk.writable(); err != nil {
		return wire.CID{}, err
	}
	return s.Store.Put(epoch, b)
}

func (s blockStore) Sync() error {
	if err := s.disk.writable(); err != nil {
		return err
	}
	return s.Store.Sync()
}

// disk is what outlives a peer's process.
type disk struct {
	values *values
	kv     *shards.MemKV
	log    *shards.MemKV // of the ledger
	bodies blockStore
	states blockStore

	full bool                   // all writes are refused
	bad  func(key []byte) error // of a write to the KV; nil: none fails
	slow time.Duration          // of each write that must be durable
}

func newDisk(p *Pool, v *values) *disk {
	d := &disk{values: v, kv: shards.NewMemKV(), log: shards.NewMemKV()}
	d.bodies, d.states = blockStore{NewStore(p), d}, blockStore{NewStore(p), d}
	return d
}

var errNoSpace = errors.New("no space left on the simulated disk")

func (d *disk) writable() error {
	if d.full {
		return errNoSpace
	}
	return nil
}

// refuses says why a batch cannot be written. Deletions alone always can.
func (d *disk) refuses(puts [][2][]byte) error {
	if len(puts) == 0 {
		return nil
	}
	for _, p := range puts {
		if d.bad == nil {
			break
		}
		if err := d.bad(p[0]); err != nil {
			return err
		}
	}
	return d.writable()
}

// crash is what a power cut leaves: all that was synced.
func (d *disk) crash() {
	d.kv, d.log = d.kv.Crash(0), d.log.Crash(0)
	d.bodies.Crash()
	d.states.Crash()
}

// wipe makes the disk an empty one.
func (d *disk) wipe() {
	d.bodies.Wipe()
	d.states.Wipe()
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
	return k.values().value(v), err
}

func (k lifeKV) Scan(prefix []byte, f func(key, value []byte) error) error {
	return k.kv.Scan(prefix, func(key, value []byte) error { return f(key, k.values().value(value)) })
}

func (k lifeKV) values() *values { return k.life.n.disk.values }

func (k lifeKV) Apply(puts [][2][]byte, dels [][]byte, sync bool) error {
	if sync && k.slow && k.life.n.disk.slow > 0 {
		if err := k.life.n.sw.Loop.Sleep(k.life.ctx, k.life.n.disk.slow); err != nil {
			return err
		}
	}
	if k.life.dead {
		return fs.ErrClosed
	}
	if err := k.life.n.disk.refuses(puts); err != nil {
		return err
	}
	short := make([][2][]byte, len(puts))
	for i, p := range puts {
		short[i] = [2][]byte{p[0], k.values().intern(p[1])}
	}
	return k.kv.Apply(short, dels, sync)
}

// Close implements ledger.KV; the disk stays.
func (k lifeKV) Close() error { return nil }

// lifeBlocks is a block store as one life sees it.
type lifeBlocks struct {
	life  *life
	store blockStore
}

func (s lifeBlocks) Put(epoch uint64, b []byte) (wire.CID, error) {
	if s.life.dead {
		return wire.CID{}, fs.ErrClosed
	}
	return s.store.Put(epoch, b)
}

// Sync takes the disk's time, as a write to the KV that must be durable does.
func (s lifeBlocks) Sync() error {
	if slow := s.store.disk.slow; slow > 0 {
		if err := s.life.n.sw.Loop.Sleep(s.life.ctx, slow); err != nil {
			return err
		}
	}
	if s.life.dead {
		return fs.ErrClosed
	}
	return s.store.Sync()
}

func (s lifeBlocks) Get(id wire.CID) ([]byte, error) { return s.store.Get(id) }

func (s lifeBlocks) DropBefore(epoch uint64) error {
	if s.life.dead {
		return fs.ErrClosed
	}
	return s.store.DropBefore(epoch)
}
