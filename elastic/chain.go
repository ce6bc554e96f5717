package elastic

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"

	"github.com/apiary-net/hived/elastic/decide"
	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/wire"
	"github.com/apiary-net/hived/wire/invariants"
)

// chain keeps decided records and certificates in a KV: rec/ROUND holds a
// wire.ChainItem, base/last the newest certificate of a base decision.
type chain struct {
	kv     KV
	newest atomic.Pointer[wire.Record] // that was put in this life
}

func recordKey(r uint64) []byte { return binary.BigEndian.AppendUint64([]byte("rec/"), r) }

var baseKey = []byte("base/last")

func (c *chain) put(p decide.PersistRecord) error {
	raw := p.Item
	if raw == nil {
		it := wire.ChainItem{Record: p.Record.Bytes()}
		if p.Cert != nil {
			it.Cert = wire.Marshal(p.Cert)
		} else {
			it.Start = p.Start.Bytes()
		}
		raw = wire.Marshal(it)
	}
	if invariants.On {
		c.checkNext(p, raw)
	}
	if err := c.kv.Apply([][2][]byte{{recordKey(p.Record.Round), raw}}, nil, true); err != nil {
		return fmt.Errorf("persist record %d: %w", p.Record.Round, err)
	}
	if invariants.On {
		c.checkWritten(p.Record.Round, raw)
	}
	c.newest.Store(p.Record)
	return nil
}

// record returns the record of round r, which the caller must not change.
func (c *chain) record(r uint64) (*wire.Record, error) {
	if rec := c.newest.Load(); rec != nil && rec.Round == r {
		return rec, nil
	}
	it, err := c.get(r)
	if err != nil {
		return nil, err
	}
	return it.Rec, nil
}

// get returns a decided record with what proves it. The caller must not change it.
func (c *chain) get(r uint64) (*wire.OpenedItem, error) {
	b, err := c.raw(r)
	if err != nil {
		return nil, err
	}
	it, err := wire.OpenChainItem(b)
	if err == nil && it.Rec.Round != r {
		return nil, fmt.Errorf("what is kept as record %d is record %d", r, it.Rec.Round)
	}
	return it, err
}

// raw is get without decoding anything.
func (c *chain) raw(r uint64) ([]byte, error) { return c.kv.Get(recordKey(r)) }

// walk calls f for every persisted record from round lo on, ascending, until one
// is missing.
func (c *chain) walk(lo uint64, f func(it *wire.OpenedItem) error) error {
	var before *wire.Record
	for r := lo; ; r++ {
		it, err := c.get(r)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read record %d: %w", r, err)
		}
		if before != nil && it.Rec.Prev != before.Digest() {
			return fmt.Errorf("read record %d: it does not follow record %s", r, before.Digest().Short())
		}
		before = it.Rec
		if err := f(it); err != nil {
			return err
		}
	}
}

// restored is how many records a restart reads: those that a plan looks back at,
// and those whose tables may still act.
const restored = 2 * rules.PlanWindow

// tail returns the round of the first of the newest records that a restart needs.
// Records are contiguous, so their number is found by halving.
func (c *chain) tail() (uint64, error) {
	missing := func(r uint64) (bool, error) {
		_, err := c.raw(r)
		if errors.Is(err, fs.ErrNotExist) {
			return true, nil
		}
		return false, err
	}
	lo, hi := uint64(0), uint64(1) // hi grows until it is missing
	for {
		gone, err := missing(hi)
		if err != nil {
			return 0, err
		}
		if gone {
			break
		}
		lo, hi = hi, 2*hi
	}
	for lo+1 < hi {
		mid := lo + (hi-lo)/2
		gone, err := missing(mid)
		if err != nil {
			return 0, err
		}
		if gone {
			hi = mid
		} else {
			lo = mid
		}
	}
	if lo < restored {
		return 0, nil
	}
	return lo - restored, nil
}

func (c *chain) putBase(cert *wire.Cert) error {
	return c.kv.Apply([][2][]byte{{baseKey, wire.Marshal(cert)}}, nil, true)
}

// base returns the newest certificate of a base decision, or nil.
func (c *chain) base() (*wire.Cert, error) {
	b, err := c.kv.Get(baseKey)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	cert := new(wire.Cert)
	if err == nil {
		err = wire.Unmarshal(b, cert, wire.MaxMessage)
	}
	if err != nil {
		return nil, fmt.Errorf("read the newest base decision: %w", err)
	}
	return cert, nil
}
