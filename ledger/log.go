package ledger

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/apiary-net/hived/wire"
	"github.com/apiary-net/hived/wire/invariants"
)

// Keys: entries and tree nodes by number, and the state of the log.
const (
	entryKey = "ledger/e"
	nodeKey  = "ledger/h"
	stateKey = "ledger/state"
)

func numbered(prefix string, n uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte(prefix), n)
}

// state is what the last batch left.
type state struct {
	_    struct{} `cbor:",toarray"`
	Head wire.Head
	Prev wire.Digest // SHA-256 of the last entry; zero for an empty log
}

// Log is this peer's own log in one run. All methods may be called concurrently.
type Log struct {
	cfg Config
	key logKey

	turn chan struct{} // holds one token; who has it may append

	mu      sync.Mutex
	st      state // guarded by mu; changed by who has the turn
	stopped error // guarded by mu
}

// Open opens or begins the log of cfg.Key in cfg.Run. It checks that the stored
// head is signed, that its root is that of the stored tree and that the last
// entry is the one it follows; else the error is ErrDamaged.
func Open(cfg Config) (*Log, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	cfg = cfg.withDefaults()
	peer := cfg.Key.Peer()
	l := &Log{cfg: cfg, key: logKey{wire.LogOrigin(cfg.Run, peer), peer, cfg.Key}, turn: make(chan struct{}, 1)}
	if err := l.load(); err != nil {
		return nil, fmt.Errorf("open log %s: %w", l.key.origin, err)
	}
	return l, nil
}

func (l *Log) load() error {
	raw, err := l.cfg.KV.Get([]byte(stateKey))
	if errors.Is(err, fs.ErrNotExist) {
		root, err := tlog.TreeHash(0, nodes{kv: l.cfg.KV})
		if err != nil {
			return err
		}
		l.st.Head, err = signHead(l.key, 0, wire.Digest(root))
		return err
	}
	if err != nil {
		return err
	}
	if err := wire.Unmarshal(raw, &l.st, 2*wire.MaxNote); err != nil {
		return fmt.Errorf("%w: state: %w", ErrDamaged, err)
	}
	h := l.st.Head
	if err := CheckHead(h, l.cfg.Run, l.key.peer); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	root, err := tlog.TreeHash(int64(h.Size), nodes{kv: l.cfg.KV})
	if err != nil {
		return fmt.Errorf("%w: root: %w", ErrDamaged, err)
	}
	if wire.Digest(root) != h.Root {
		return fmt.Errorf("%w: the tree has another root than the head of size %d", ErrDamaged, h.Size)
	}
	if h.Size == 0 {
		return nil
	}
	last, err := l.cfg.KV.Get(numbered(entryKey, h.Size-1))
	if err != nil {
		return fmt.Errorf("%w: entry %d: %w", ErrDamaged, h.Size-1, err)
	}
	if wire.Sum(last) != l.st.Prev {
		return fmt.Errorf("%w: entry %d is not the one that the log ended with", ErrDamaged, h.Size-1)
	}
	return nil
}

// nodes reads tree nodes from a batch in the making and from the store. It
// implements tlog.HashReader.
type nodes struct {
	kv      KV
	pending map[int64]tlog.Hash
}

func (r nodes) ReadHashes(ix []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(ix))
	for i, x := range ix {
		if h, ok := r.pending[x]; ok {
			out[i] = h
			continue
		}
		b, err := r.kv.Get(numbered(nodeKey, uint64(x)))
		if err != nil {
			return nil, fmt.Errorf("read tree node %d: %w", x, err)
		}
		if len(b) != tlog.HashSize {
			return nil, fmt.Errorf("tree node %d has %d bytes", x, len(b))
		}
		copy(out[i][:], b)
	}
	return out, nil
}

// Append signs bodies as the next entries and returns the new head; both are
// durable when it returns. It fills in run, number, previous digest, peer, and
// time where that is zero. The error is ErrStopped when an earlier write failed
// or Stop was called, else the log is as it was or, after a failed write, stopped.
func (l *Log) Append(ctx context.Context, bodies []wire.EntryBody) (wire.Head, error) {
	if len(bodies) > MaxAppend {
		return wire.Head{}, fmt.Errorf("append %d entries, limit %d", len(bodies), MaxAppend)
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return wire.Head{}, fmt.Errorf("append to log: %w", ctx.Err())
	}
	defer func() { <-l.turn }()
	st, err := l.current()
	if err != nil || len(bodies) == 0 {
		return st.Head, err
	}
	first := st.Head.Size
	puts, err := l.batch(&st, bodies)
	if err != nil {
		return wire.Head{}, fmt.Errorf("append entry %d: %w", first, err)
	}
	if err := l.cfg.KV.Apply(puts, nil, true); err != nil {
		// Whether it is on disk is not known; a second entry of this number
		// would be a lie, so nothing more is signed.
		l.Stop(fmt.Errorf("a write failed: %w", err))
		return wire.Head{}, fmt.Errorf("append entry %d: %w: a write failed: %w", first, ErrStopped, err)
	}
	if invariants.On {
		l.checkHead(st)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.st = st
	return st.Head, nil
}

func (l *Log) current() (state, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.st, l.stopped
}

// batch makes the pairs of one Append and moves st on.
func (l *Log) batch(st *state, bodies []wire.EntryBody) ([][2][]byte, error) {
	r := nodes{l.cfg.KV, map[int64]tlog.Hash{}}
	size := st.Head.Size
	var puts [][2][]byte
	for _, b := range bodies {
		b.Run, b.Seq, b.Prev = l.cfg.Run, size, st.Prev
		if b.Time == 0 {
			b.Time = uint64(max(0, l.cfg.Now().UnixMilli()))
		}
		leaf := wire.SealEntry(l.cfg.Key, b)
		if len(leaf) > wire.MaxEntry {
			return nil, fmt.Errorf("%s entry of %d bytes, limit %d", b.Kind, len(leaf), wire.MaxEntry)
		}
		puts = append(puts, [2][]byte{numbered(entryKey, size), leaf})
		hs, err := tlog.StoredHashes(int64(size), leaf, r)
		if err != nil {
			return nil, err
		}
		base := tlog.StoredHashIndex(0, int64(size))
		for i, h := range hs {
			r.pending[base+int64(i)] = h
			puts = append(puts, [2][]byte{numbered(nodeKey, uint64(base)+uint64(i)), bytes.Clone(h[:])})
		}
		st.Prev = wire.Sum(leaf)
		size++
	}
	root, err := tlog.TreeHash(int64(size), r)
	if err != nil {
		return nil, err
	}
	if st.Head, err = signHead(l.key, size, wire.Digest(root)); err != nil {
		return nil, err
	}
	return append(puts, [2][]byte{[]byte(stateKey), wire.Marshal(*st)}), nil
}

// Head returns the signed head of what is durable.
func (l *Log) Head() wire.Head {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.st.Head
}

// Stop ends appending, for example after ErrBehind. The first cause is kept.
func (l *Log) Stop(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped != nil {
		return
	}
	l.stopped = fmt.Errorf("%w: %w", ErrStopped, why)
}

// Read calls f for the entries lo up to hi, which is bounded by the size. raw is
// valid during the call. An entry that does not verify is ErrDamaged; an error
// of f ends the reading and is returned as it is.
func (l *Log) Read(lo, hi uint64, f func(raw []byte, e wire.EntryBody) error) error {
	for i := lo; i < min(hi, l.Head().Size); i++ {
		raw, err := l.cfg.KV.Get(numbered(entryKey, i))
		if err != nil {
			return fmt.Errorf("read entry %d: %w", i, err)
		}
		e, err := wire.OpenEntry(raw)
		if err != nil {
			return fmt.Errorf("read entry %d: %w: %w", i, ErrDamaged, err)
		}
		if e.Seq != i || e.Peer != l.key.peer || e.Run != l.cfg.Run {
			return fmt.Errorf("read entry %d: %w: it is entry %d of %s in run %s", i, ErrDamaged, e.Seq, e.Peer, e.Run.Short())
		}
		if err := f(raw, e); err != nil {
			return err
		}
	}
	return nil
}
