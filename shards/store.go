package shards

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/apiary-net/hived/wire"
)

// Store keeps blocks by CID, one directory per epoch. All methods may be called
// concurrently; reads never wait for a writer or for DropBefore.
type Store struct {
	dir    string
	cfg    Config
	unlock func() // gives the directory free; called once, by Close

	// write serialises what opens or drops epochs. It is taken before mu.
	write sync.Mutex

	mu     sync.RWMutex
	epochs []*epoch // ascending; guarded by mu
	floor  uint64   // first epoch that may be written; guarded by mu
	closed bool     // guarded by mu

	corrupt atomic.Int64
}

// Stat is what `store stat` prints.
type Stat struct {
	Blocks    int64    // blocks held, counted once per epoch
	LiveBytes int64    // their lengths
	DiskBytes int64    // what the file system has allocated for them
	Epochs    []uint64 // ascending
	Corrupt   int64    // blocks that failed their hash since Open
}

// Open opens or makes the store in dir and removes what a crash left of dropped
// epochs. It returns ErrInUse if another process has it open.
func Open(dir string, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	unlock, err := lockDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	s := &Store{dir: dir, cfg: cfg.withDefaults(), unlock: unlock}
	if err := s.openEpochs(); err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, errors.Join(err, s.Close()))
	}
	return s, nil
}

func (s *Store) openEpochs() error {
	names, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		path := filepath.Join(s.dir, n.Name())
		id, kind := parseEpochDir(n.Name())
		switch kind {
		case liveDir:
			e, err := openEpoch(path, id, s.cfg)
			if err != nil {
				return fmt.Errorf("epoch %d: %w", id, err)
			}
			s.epochs = append(s.epochs, e)
		case deadDir:
			if err := os.RemoveAll(path); err != nil {
				return fmt.Errorf("remove dropped epoch %d: %w", id, err)
			}
		}
	}
	slices.SortFunc(s.epochs, func(a, b *epoch) int { return cmp.Compare(a.id, b.id) })
	return nil
}

func byID(e *epoch, id uint64) int { return cmp.Compare(e.id, id) }

type dirKind int

const (
	otherDir dirKind = iota
	liveDir
	deadDir // renamed before it is deleted, so that a crash never leaves half an epoch
)

func epochDir(id uint64) string { return fmt.Sprintf("epoch-%016x", id) }

func parseEpochDir(name string) (uint64, dirKind) {
	kind := liveDir
	if rest, ok := strings.CutPrefix(name, "dropped-"); ok {
		kind, name = deadDir, rest
	}
	hex, ok := strings.CutPrefix(name, "epoch-")
	if !ok || len(hex) != 16 {
		return 0, otherDir
	}
	id, err := strconv.ParseUint(hex, 16, 64)
	if err != nil {
		return 0, otherDir
	}
	return id, kind
}

// Put keeps b, at most 1 MiB, in epoch and returns its CID; b is the caller's
// again. A block that the epoch has is not written twice. Errors: ErrTooBig,
// ErrNoSpace, ErrDropped, ErrTooManyEpochs, fs.ErrClosed.
func (s *Store) Put(epoch uint64, b []byte) (wire.CID, error) {
	if len(b) > wire.MaxBlock {
		return wire.CID{}, fmt.Errorf("put block of %d bytes, limit %d: %w", len(b), wire.MaxBlock, ErrTooBig)
	}
	id := wire.RawCID(b)
	e, err := s.epochForWrite(epoch)
	if err != nil {
		return wire.CID{}, fmt.Errorf("put block: %w", err)
	}
	defer e.release()
	if has, err := e.has(id); err != nil || has {
		return id, err
	}
	if err := s.checkSpace(len(b)); err != nil {
		return wire.CID{}, fmt.Errorf("put block: %w", err)
	}
	if err := e.put(id, b); err != nil {
		return wire.CID{}, fmt.Errorf("put block in epoch %d: %w", epoch, err)
	}
	return id, nil
}

func (s *Store) checkSpace(n int) error {
	if s.cfg.FloorBytes == 0 {
		return nil
	}
	free, err := s.cfg.Free(s.dir)
	if err != nil {
		return err
	}
	if free < s.cfg.FloorBytes+uint64(n) {
		return fmt.Errorf("%w in %s: %d bytes free, %d must stay free", ErrNoSpace, s.dir, free, s.cfg.FloorBytes)
	}
	return nil
}

// epochForWrite returns the epoch with a reference taken, opening it if need be.
func (s *Store) epochForWrite(id uint64) (*epoch, error) {
	if e, err := s.find(id); e != nil || err != nil {
		return e, err
	}
	s.write.Lock()
	defer s.write.Unlock()
	if e, err := s.find(id); e != nil || err != nil {
		return e, err
	}
	s.mu.RLock()
	n := len(s.epochs)
	s.mu.RUnlock()
	if n >= s.cfg.MaxEpochs {
		return nil, fmt.Errorf("epoch %d: %w", id, ErrTooManyEpochs)
	}
	e, err := openEpoch(filepath.Join(s.dir, epochDir(id)), id, s.cfg)
	if err != nil {
		return nil, err
	}
	e.acquire()
	s.mu.Lock()
	defer s.mu.Unlock()
	i, _ := slices.BinarySearchFunc(s.epochs, id, byID)
	s.epochs = slices.Insert(slices.Clone(s.epochs), i, e)
	return e, nil
}

// find returns the open epoch with a reference taken, or nil.
func (s *Store) find(id uint64) (*epoch, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, fs.ErrClosed
	}
	if id < s.floor {
		return nil, fmt.Errorf("epoch %d: %w", id, ErrDropped)
	}
	for _, e := range s.epochs {
		if e.id == id {
			e.acquire()
			return e, nil
		}
	}
	return nil, nil
}

// newestFirst returns all epochs with references taken.
func (s *Store) newestFirst() ([]*epoch, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, fs.ErrClosed
	}
	es := slices.Clone(s.epochs)
	slices.Reverse(es)
	for _, e := range es {
		e.acquire()
	}
	return es, nil
}

func releaseAll(es []*epoch) {
	for _, e := range es {
		e.release()
	}
}

// Get returns the block in a new slice; its hash was checked. Errors:
// fs.ErrNotExist, ErrCorrupt, fs.ErrClosed.
func (s *Store) Get(id wire.CID) ([]byte, error) {
	es, err := s.newestFirst()
	if err != nil {
		return nil, err
	}
	defer releaseAll(es)
	miss := fs.ErrNotExist
	for _, e := range es {
		b, err := e.get(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && id.Names(b) {
			return b, nil
		}
		s.corrupt.Add(1)
		s.cfg.Logger.Error("block is corrupt, removed", "cid", id.String(), "epoch", e.id, "err", err)
		if err := e.remove(id); err != nil {
			return nil, fmt.Errorf("remove corrupt block %s: %w", id, err)
		}
		miss = ErrCorrupt
	}
	return nil, fmt.Errorf("get block %s: %w", id, miss)
}

// DropBefore deletes all epochs below epoch, directory by directory, and
// refuses later writes to them. It waits for reads of the dropped epochs only.
func (s *Store) DropBefore(epoch uint64) error {
	s.write.Lock()
	defer s.write.Unlock()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return fs.ErrClosed
	}
	s.floor = max(s.floor, epoch)
	n, _ := slices.BinarySearchFunc(s.epochs, epoch, byID)
	gone := s.epochs[:n]
	s.epochs = slices.Clone(s.epochs[n:])
	s.mu.Unlock()
	var errs []error
	for _, e := range gone {
		if err := e.destroy(); err != nil {
			errs = append(errs, fmt.Errorf("drop epoch %d: %w", e.id, err))
		}
	}
	return errors.Join(errs...)
}

// Stat adds up all epochs.
func (s *Store) Stat() Stat {
	st := Stat{Corrupt: s.corrupt.Load()}
	es, err := s.newestFirst()
	if err != nil {
		return st
	}
	defer releaseAll(es)
	for _, e := range slices.Backward(es) {
		st.Blocks += e.blocks.Load()
		st.LiveBytes += e.live.Load()
		st.DiskBytes += diskBytes(e.dir)
		st.Epochs = append(st.Epochs, e.id)
	}
	return st
}

// Sync makes all blocks put so far durable.
func (s *Store) Sync() error {
	es, err := s.newestFirst()
	if err != nil {
		return err
	}
	defer releaseAll(es)
	for _, e := range es {
		if err := e.db.Sync(); err != nil {
			return fmt.Errorf("sync epoch %d: %w", e.id, err)
		}
	}
	return nil
}

// Close waits for calls in progress and closes all epochs. A second Close
// returns nil.
func (s *Store) Close() error {
	s.write.Lock()
	defer s.write.Unlock()
	s.mu.Lock()
	es, was := s.epochs, s.closed
	s.epochs, s.closed = nil, true
	s.mu.Unlock()
	if was {
		return nil
	}
	var errs []error
	for _, e := range es {
		errs = append(errs, e.close())
	}
	s.unlock()
	return errors.Join(errs...)
}
