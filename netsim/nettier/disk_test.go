package nettier

import (
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/apiary-net/hived/daemon"
	"github.com/apiary-net/hived/netsim"
	"github.com/apiary-net/hived/shards"
	"github.com/apiary-net/hived/wire"
)

// disk is what outlives the daemons of a machine.
type disk struct {
	pool   *netsim.Pool
	kv     *shards.MemKV
	blocks map[string]*netsim.Store // by directory; belongs to the machine
}

func newDisk(p *netsim.Pool) *disk { return &disk{p, shards.NewMemKV(), map[string]*netsim.Store{}} }

func (d *disk) wipe() {
	for _, b := range d.blocks {
		b.Wipe()
	}
	d.kv, d.blocks = shards.NewMemKV(), map[string]*netsim.Store{}
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
	*netsim.Store
	life *life
}

// Put implements daemon.Blocks.
func (s lifeBlocks) Put(epoch uint64, b []byte) (wire.CID, error) {
	if s.life.dead.Load() {
		return wire.CID{}, fs.ErrClosed
	}
	return s.Store.Put(epoch, b)
}

// DropBefore implements daemon.Blocks.
func (s lifeBlocks) DropBefore(epoch uint64) error {
	if s.life.dead.Load() {
		return fs.ErrClosed
	}
	return s.Store.DropBefore(epoch)
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
			d.blocks[dir] = netsim.NewStore(d.pool)
		}
		return lifeBlocks{d.blocks[dir], l}, nil
	}
}
