package shards

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Fault is what MemKV does to one Apply.
type Fault int

// The faults come in pairs: an error before the effect and one after it, and a
// stop of the machine in the middle of the write.
const (
	NoFault    Fault = iota
	FailBefore       // error, no effect, the store goes on
	FailAfter        // error although the batch was applied, the store goes on
	PowerCut         // error, the store is dead; Crash gives what the disk holds
)

// ErrInjected is the error of an injected fault.
var ErrInjected = errors.New("injected fault")

type batch struct {
	puts [][2][]byte
	dels [][]byte
}

func (b batch) apply(m map[string][]byte) {
	for _, p := range b.puts {
		m[string(p[0])] = p[1]
	}
	for _, d := range b.dels {
		delete(m, string(d))
	}
}

func (b batch) clone() batch {
	c := batch{make([][2][]byte, len(b.puts)), make([][]byte, len(b.dels))}
	for i, p := range b.puts {
		c.puts[i] = [2][]byte{bytes.Clone(p[0]), append([]byte{}, p[1]...)}
	}
	for i, d := range b.dels {
		c.dels[i] = bytes.Clone(d)
	}
	return c
}

// MemKV has BadgerKV's methods in memory, for tests and simulations. Its zero
// value is not ready; use NewMemKV. All methods may be called concurrently.
type MemKV struct {
	// Inject, if set before first use, is asked once per Apply with the number
	// of the call, from 0 on.
	Inject func(call int) Fault

	mu      sync.Mutex
	now     map[string][]byte // what readers see
	disk    map[string][]byte // what survives a crash for certain
	pending []batch           // applied since, not synced, in order
	calls   int
	closed  bool
}

// NewMemKV returns an empty store.
func NewMemKV() *MemKV {
	return &MemKV{now: map[string][]byte{}, disk: map[string][]byte{}}
}

// Get is BadgerKV's.
func (m *MemKV) Get(key []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, fs.ErrClosed
	}
	v, ok := m.now[string(key)]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return append([]byte{}, v...), nil
}

// Apply is BadgerKV's, with faults. A batch with sync false is visible at once
// and may be lost by Crash.
func (m *MemKV) Apply(puts [][2][]byte, dels [][]byte, sync bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return fs.ErrClosed
	}
	fault := NoFault
	if m.Inject != nil {
		fault = m.Inject(m.calls)
	}
	m.calls++
	switch fault {
	case FailBefore:
		return ErrInjected
	case PowerCut:
		m.closed = true
		return ErrInjected
	}
	b := batch{puts, dels}.clone()
	b.apply(m.now)
	m.pending = append(m.pending, b)
	if sync {
		for _, p := range m.pending {
			p.apply(m.disk)
		}
		m.pending = nil
	}
	if fault == FailAfter {
		return ErrInjected
	}
	return nil
}

// Scan is BadgerKV's. f may call other methods of m.
func (m *MemKV) Scan(prefix []byte, f func(key, value []byte) error) error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return fs.ErrClosed
	}
	snap := map[string][]byte{}
	for k, v := range m.now {
		if strings.HasPrefix(k, string(prefix)) {
			snap[k] = v
		}
	}
	m.mu.Unlock()
	for _, k := range slices.Sorted(maps.Keys(snap)) {
		if err := f([]byte(k), snap[k]); err != nil {
			return err
		}
	}
	return nil
}

// Reclaim is BadgerKV's; there is nothing to give back.
func (m *MemKV) Reclaim() error { return nil }

// Close ends the store; Crash still works.
func (m *MemKV) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

// Unsynced returns how many batches a crash could lose.
func (m *MemKV) Unsynced() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.pending)
}

// Crash stops m and returns the store that the next start finds: all that was
// synced, and the first keep of the batches that were not.
func (m *MemKV) Crash(keep int) *MemKV {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	n := NewMemKV()
	maps.Copy(n.disk, m.disk)
	for _, b := range m.pending[:min(keep, len(m.pending))] {
		b.apply(n.disk)
	}
	maps.Copy(n.now, n.disk)
	return n
}
