package ledger

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
)

// memKV is a KV in memory. fail, if set, is asked before each Apply: "before"
// and "after" the effect it fails, on "" it works.
type memKV struct {
	mu   sync.Mutex
	m    map[string][]byte
	fail func() string
}

func newMemKV() *memKV { return &memKV{m: map[string][]byte{}} }

var errDisk = errors.New("disk failed")

func (k *memKV) Get(key []byte) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, ok := k.m[string(key)]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return bytes.Clone(v), nil
}

func (k *memKV) Apply(puts [][2][]byte, dels [][]byte, _ bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	what := ""
	if k.fail != nil {
		what = k.fail()
	}
	if what == "before" {
		return errDisk
	}
	for _, p := range puts {
		k.m[string(p[0])] = bytes.Clone(p[1])
	}
	for _, d := range dels {
		delete(k.m, string(d))
	}
	if what == "after" {
		return errDisk
	}
	return nil
}

func (k *memKV) Scan(prefix []byte, f func(key, value []byte) error) error {
	k.mu.Lock()
	var keys []string
	for s := range k.m {
		if strings.HasPrefix(s, string(prefix)) {
			keys = append(keys, s)
		}
	}
	k.mu.Unlock()
	slices.Sort(keys)
	for _, s := range keys {
		v, err := k.Get([]byte(s))
		if err != nil {
			return err
		}
		if err := f([]byte(s), v); err != nil {
			return err
		}
	}
	return nil
}

func (k *memKV) Close() error { return nil }

func (k *memKV) clone() *memKV {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := newMemKV()
	for s, v := range k.m {
		c.m[s] = bytes.Clone(v)
	}
	return c
}
