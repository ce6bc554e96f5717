package shards

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/dgraph-io/badger/v4"

	"github.com/apiary-net/hived/wire"
)

// Sizes of an epoch's database: an entry of its tree is about 100 bytes, for a
// block of up to 1 MiB in a value file.
const (
	epochMemTable  = 1 << 20
	epochValueFile = 64 << 20
)

// epoch is one Badger directory of blocks.
type epoch struct {
	id  uint64
	dir string
	db  *badger.DB

	users  sync.WaitGroup // calls in progress; close waits for them
	puts   sync.Mutex     // makes has-then-put one step, so that counts are right
	blocks atomic.Int64
	live   atomic.Int64
}

func openEpoch(dir string, id uint64, cfg Config) (*epoch, error) {
	bo := badgerOptions(dir, KVOptions{MemTableBytes: epochMemTable, ValueFileBytes: epochValueFile, Logger: cfg.Logger})
	// Nothing is overwritten, so there is nothing to compact; two idle
	// compactors would wake 40 times a second.
	bo = bo.WithNumCompactors(0).WithNumLevelZeroTables(1 << 10).WithNumLevelZeroTablesStall(1 << 11).WithSyncWrites(cfg.Sync)
	db, err := openBadger(bo, cfg.Logger)
	if err != nil {
		return nil, err
	}
	e := &epoch{id: id, dir: dir, db: db}
	if err := e.count(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return e, nil
}

// count sets blocks and live from the lengths.
func (e *epoch) count() error {
	return e.db.View(func(t *badger.Txn) error {
		o := badger.DefaultIteratorOptions
		o.PrefetchValues, o.Prefix = false, []byte{lenKey}
		it := t.NewIterator(o)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			n, err := blockLen(it.Item())
			if err != nil {
				return err
			}
			e.blocks.Add(1)
			e.live.Add(n)
		}
		return nil
	})
}

func blockLen(it *badger.Item) (n int64, err error) {
	err = it.Value(func(v []byte) error {
		if len(v) != 4 {
			return fmt.Errorf("length of %d bytes, want 4", len(v))
		}
		n = int64(binary.BigEndian.Uint32(v))
		return nil
	})
	return n, err
}

// acquire must be called while the epoch is in the store's list.
func (e *epoch) acquire() { e.users.Add(1) }
func (e *epoch) release() { e.users.Done() }

// A block is two pairs of one transaction: its bytes, and its length, which
// stays in the tree (Badger's own estimate of a value's size is off by some).
const (
	dataKey = 'b'
	lenKey  = 'n'
)

func key(kind byte, id wire.CID) []byte {
	d := id.Digest()
	return append([]byte{kind}, d[:]...)
}

func (e *epoch) has(id wire.CID) (bool, error) {
	err := e.db.View(func(t *badger.Txn) error {
		_, err := t.Get(key(lenKey, id))
		return err
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return false, nil
	}
	return err == nil, err
}

func (e *epoch) get(id wire.CID) ([]byte, error) {
	var b []byte
	err := e.db.View(func(t *badger.Txn) error {
		it, err := t.Get(key(dataKey, id))
		if err != nil {
			return err
		}
		b, err = it.ValueCopy(nil)
		return err
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, fs.ErrNotExist
	}
	return b, err
}

func (e *epoch) put(id wire.CID, b []byte) error {
	e.puts.Lock()
	defer e.puts.Unlock()
	if has, err := e.has(id); err != nil || has {
		return err
	}
	n := binary.BigEndian.AppendUint32(nil, uint32(len(b)))
	err := e.db.Update(func(t *badger.Txn) error {
		return errors.Join(t.Set(key(lenKey, id), n), t.Set(key(dataKey, id), b))
	})
	if err != nil {
		return err
	}
	e.blocks.Add(1)
	e.live.Add(int64(len(b)))
	return nil
}

// remove forgets a block that failed its hash, once.
func (e *epoch) remove(id wire.CID) error {
	e.puts.Lock()
	defer e.puts.Unlock()
	var size int64
	err := e.db.Update(func(t *badger.Txn) error {
		it, err := t.Get(key(lenKey, id))
		if err != nil {
			return err
		}
		if size, err = blockLen(it); err != nil {
			return err
		}
		return errors.Join(t.Delete(key(lenKey, id)), t.Delete(key(dataKey, id)))
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	e.blocks.Add(-1)
	e.live.Add(-size)
	return nil
}

func (e *epoch) close() error {
	e.users.Wait()
	return e.db.Close()
}

// destroy closes the epoch and deletes its directory; the rename makes that
// one step for a crash.
func (e *epoch) destroy() error {
	if err := e.close(); err != nil {
		return err
	}
	dead := filepath.Join(filepath.Dir(e.dir), "dropped-"+filepath.Base(e.dir))
	if err := os.Rename(e.dir, dead); err != nil {
		return err
	}
	return os.RemoveAll(dead)
}

// diskBytes returns the bytes that the file system has allocated below dir.
func diskBytes(dir string) int64 {
	var n int64
	// Files may vanish while we look; what is left is counted.
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if fi, err := d.Info(); err == nil {
			if st, ok := fi.Sys().(*syscall.Stat_t); ok {
				n += st.Blocks * 512
			}
		}
		return nil
	})
	return n
}
