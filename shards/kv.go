package shards

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// Errors that callers test for.
var (
	// ErrInUse is returned by OpenKV and Open when another process, or another
	// handle in this one, has the directory open.
	ErrInUse = errors.New("store is in use by another process")
	// ErrBusy is returned by Reclaim while another call is in progress.
	ErrBusy = errors.New("store is busy")
	// ErrTooBig is returned by Apply for a batch that cannot be one transaction,
	// and by Put for a block above 1 MiB.
	ErrTooBig = errors.New("too big for the store")
)

// Bounds and sizes of a KV. A batch must fit 15 % of a memtable.
const (
	valueThreshold   = 1 << 10
	defaultMemTable  = 8 << 20
	defaultValueFile = 16 << 20
	maxKeyBytes      = 1 << 12
	maxLevelZero     = 8 // tables that every Get may have to look into
)

// KVOptions are the choices of OpenKV; the zero value is good for all of
// ledger, consensus and round state.
type KVOptions struct {
	// MemTableBytes bounds the write buffer: 1 MiB to 64 MiB, default 8 MiB.
	// One Apply holds at most 15 % of it in keys and values below 1 KiB.
	MemTableBytes int64
	// ValueFileBytes is the size of one value-log file, which holds the values
	// above 1 KiB: 1 MiB to 1 GiB, default 16 MiB.
	ValueFileBytes int64
	// Logger may be nil.
	Logger *slog.Logger
}

// Validate reports the first bad option.
func (o KVOptions) Validate() error {
	if o.MemTableBytes != 0 && (o.MemTableBytes < 1<<20 || o.MemTableBytes > 64<<20) {
		return fmt.Errorf("memtable of %d bytes, want 1 MiB to 64 MiB", o.MemTableBytes)
	}
	if o.ValueFileBytes != 0 && (o.ValueFileBytes < 1<<20 || o.ValueFileBytes > 1<<30) {
		return fmt.Errorf("value file of %d bytes, want 1 MiB to 1 GiB", o.ValueFileBytes)
	}
	return nil
}

func (o KVOptions) withDefaults() KVOptions {
	if o.MemTableBytes == 0 {
		o.MemTableBytes = defaultMemTable
	}
	if o.ValueFileBytes == 0 {
		o.ValueFileBytes = defaultValueFile
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// BadgerKV is a durable ordered key-value store in one directory. All methods
// may be called concurrently.
type BadgerKV struct {
	dir  string
	opts badger.Options
	log  *slog.Logger

	written    atomic.Int64 // bytes applied since compact last looked
	compacting atomic.Bool

	mu sync.RWMutex // held for reading by every call, for writing while db changes
	db *badger.DB   // nil once closed
}

// OpenKV opens or makes the store in dir. It opens unaided after a crash: what
// was not yet acknowledged at the end of the logs is dropped, and one log line
// says how many bytes that were. It returns ErrInUse if the directory is open
// elsewhere.
func OpenKV(dir string, o KVOptions) (*BadgerKV, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("open kv %s: %w", dir, err)
	}
	o = o.withDefaults()
	bo := badgerOptions(dir, o)
	// Two idle compactors of Badger wake 40 times a second and cost 0.6 % of a
	// core; compact does their work when there is some.
	bo = bo.WithNumCompactors(0).WithNumLevelZeroTablesStall(1 << 11).WithCompactL0OnClose(true).WithSyncWrites(true)
	db, err := openBadger(bo, o.Logger)
	if err != nil {
		return nil, fmt.Errorf("open kv %s: %w", dir, err)
	}
	k := &BadgerKV{dir: dir, opts: bo, log: o.Logger, db: db}
	if err := k.compact(); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k, nil
}

// compact merges the tables of level 0 once they are many. The caller holds mu
// for reading, or nobody else has k.
func (k *BadgerKV) compact() error {
	if k.db.Levels()[0].NumTables < maxLevelZero || !k.compacting.CompareAndSwap(false, true) {
		return nil
	}
	defer k.compacting.Store(false)
	if err := k.db.Flatten(1); err != nil {
		return fmt.Errorf("compact %s: %w", k.dir, err)
	}
	return nil
}

// badgerOptions are sized for a small gateway: no caches, no compression (the
// payload is noise), small buffers. Conflict detection is off because batches
// never read.
func badgerOptions(dir string, o KVOptions) badger.Options {
	return badger.DefaultOptions(dir).
		WithLogger(badgerLog{o.Logger}).
		WithMemTableSize(o.MemTableBytes).WithNumMemtables(2).
		WithValueLogFileSize(o.ValueFileBytes).WithValueThreshold(valueThreshold).
		WithCompression(options.None).WithBlockCacheSize(0).WithIndexCacheSize(0).
		WithNumVersionsToKeep(1).WithDetectConflicts(false).
		WithMetricsEnabled(false).WithNumGoroutines(1)
}

// openBadger repairs what a crash left, opens the database and says what was
// dropped.
func openBadger(bo badger.Options, log *slog.Logger) (*badger.DB, error) {
	unlock, err := lockDir(bo.Dir)
	if err != nil {
		return nil, err
	}
	torn, err := repairDir(bo.Dir)
	unlock()
	if err != nil {
		return nil, fmt.Errorf("repair after a crash: %w", err)
	}
	db, err := badger.Open(bo)
	if err != nil {
		if strings.Contains(err.Error(), "Cannot acquire directory lock") {
			return nil, ErrInUse
		}
		return nil, err
	}
	if torn > 0 {
		log.Warn("dropped unacknowledged bytes at the end of the store's logs", "dir", bo.Dir, "bytes", torn)
	}
	return db, nil
}

// Get returns a copy of the value of key. The error is fs.ErrNotExist if there
// is none.
func (k *BadgerKV) Get(key []byte) ([]byte, error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.db == nil {
		return nil, fs.ErrClosed
	}
	var v []byte
	err := k.db.View(func(t *badger.Txn) error {
		it, err := t.Get(key)
		if err != nil {
			return err
		}
		v, err = it.ValueCopy(nil)
		return err
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, fs.ErrNotExist
	}
	if err != nil {
		return nil, fmt.Errorf("get from %s: %w", k.dir, err)
	}
	return v, nil
}

// Apply writes puts, then deletes dels, as one atomic batch: after a crash all
// of it is there or none. The batch is durable when Apply returns; with sync
// false it may become so later, but this store makes no use of that. The slices
// are the caller's again when it returns. A batch that does not fit one
// transaction gives ErrTooBig and has no effect.
func (k *BadgerKV) Apply(puts [][2][]byte, dels [][]byte, sync bool) error {
	for _, p := range puts {
		if len(p[0]) == 0 || len(p[0]) > maxKeyBytes {
			return fmt.Errorf("apply to %s: key of %d bytes, want 1 to %d", k.dir, len(p[0]), maxKeyBytes)
		}
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.db == nil {
		return fs.ErrClosed
	}
	err := k.db.Update(func(t *badger.Txn) error {
		for _, p := range puts {
			if err := t.Set(p[0], p[1]); err != nil {
				return err
			}
		}
		for _, d := range dels {
			if err := t.Delete(d); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, badger.ErrTxnTooBig) {
		return fmt.Errorf("apply %d puts to %s: %w", len(puts), k.dir, ErrTooBig)
	}
	if err != nil {
		return fmt.Errorf("apply to %s: %w", k.dir, err)
	}
	if k.written.Add(batchBytes(puts, dels)) > k.opts.MemTableSize {
		k.written.Store(0)
		if err := k.compact(); err != nil {
			k.log.Error("compaction failed, reads will slow down", "dir", k.dir, "err", err)
		}
	}
	return nil
}

func batchBytes(puts [][2][]byte, dels [][]byte) (n int64) {
	for _, p := range puts {
		n += int64(len(p[0]) + min(len(p[1]), valueThreshold))
	}
	for _, d := range dels {
		n += int64(len(d))
	}
	return n
}

// Scan calls f for every key that starts with prefix, in ascending order, over
// one consistent state. f's slices are valid during the call only. An error of
// f ends the scan and is returned as it is.
func (k *BadgerKV) Scan(prefix []byte, f func(key, value []byte) error) error {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.db == nil {
		return fs.ErrClosed
	}
	return k.db.View(func(t *badger.Txn) error {
		o := badger.DefaultIteratorOptions
		o.Prefix, o.PrefetchValues = prefix, false
		it := t.NewIterator(o)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			item := it.Item()
			if err := item.Value(func(v []byte) error { return f(item.Key(), v) }); err != nil {
				return err
			}
		}
		return nil
	})
}

// Reclaim gives disk space of overwritten and deleted values back. It closes
// and opens the database, since the counts that its collector needs come from
// compaction only (dgraph-io/badger#2334), and keeps other calls waiting for
// that long: call it between rounds or at the start. It returns ErrBusy while
// another call is in progress.
func (k *BadgerKV) Reclaim() error {
	if !k.mu.TryLock() {
		return ErrBusy
	}
	defer k.mu.Unlock()
	if k.db == nil {
		return fs.ErrClosed
	}
	err := k.db.Close()
	k.db = nil
	if err != nil {
		return fmt.Errorf("close %s to reclaim space: %w", k.dir, err)
	}
	db, err := openBadger(k.opts, k.log)
	if err != nil {
		return fmt.Errorf("open %s to reclaim space: %w", k.dir, err)
	}
	k.db = db
	for {
		err := db.RunValueLogGC(0.5)
		if errors.Is(err, badger.ErrNoRewrite) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reclaim space in %s: %w", k.dir, err)
		}
	}
}

// Close makes everything durable and gives the directory free. A second Close
// returns nil.
func (k *BadgerKV) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.db == nil {
		return nil
	}
	err := k.db.Close()
	k.db = nil
	if err != nil {
		return fmt.Errorf("close kv %s: %w", k.dir, err)
	}
	return nil
}

// badgerLog passes Badger's lines on; what Badger calls information is detail
// to an operator.
type badgerLog struct{ l *slog.Logger }

func (b badgerLog) text(format string, args []any) string {
	return strings.TrimSpace(fmt.Sprintf(format, args...))
}

func (b badgerLog) Errorf(f string, a ...any)   { b.l.Error("badger", "text", b.text(f, a)) }
func (b badgerLog) Warningf(f string, a ...any) { b.l.Warn("badger", "text", b.text(f, a)) }
func (b badgerLog) Infof(f string, a ...any)    { b.l.Debug("badger", "text", b.text(f, a)) }
func (b badgerLog) Debugf(f string, a ...any)   { b.l.Debug("badger", "text", b.text(f, a)) }
