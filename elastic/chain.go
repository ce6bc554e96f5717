package elastic

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"

	"github.com/apiary-net/hived/elastic/decide"
	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/wire"
)

// chain keeps decided records and certificates in a KV: rec/ROUND holds a
// chainItem, base/last the newest certificate of a base decision.
type chain struct {
	kv     KV
	newest atomic.Pointer[wire.Record] // that was put in this life
}

// chainItem is a decided record with what proves it: a certificate, or for
// record 0 the creator's envelope.
type chainItem struct {
	_      struct{} `cbor:",toarray"`
	Record []byte
	Cert   []byte // of a GPBFT instance; none for record 0
	Start  []byte // the sealed proposal of record 0; else none
}

func recordKey(r uint64) []byte { return binary.BigEndian.AppendUint64([]byte("rec/"), r) }

var baseKey = []byte("base/last")

func (c *chain) put(p decide.PersistRecord) error {
	raw := p.Item
	if raw == nil {
		it := chainItem{Record: p.Record.Bytes()}
		if p.Cert != nil {
			it.Cert = wire.Marshal(p.Cert)
		} else {
			it.Start = p.Start.Bytes()
		}
		raw = wire.Marshal(it)
	}
	if err := c.kv.Apply([][2][]byte{{recordKey(p.Record.Round), raw}}, nil, true); err != nil {
		return fmt.Errorf("persist record %d: %w", p.Record.Round, err)
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
	return it.rec, nil
}

// get returns a decided record with what proves it. The caller must not change it.
func (c *chain) get(r uint64) (*openedItem, error) {
	b, err := c.raw(r)
	if err != nil {
		return nil, err
	}
	return openItem(b)
}

// raw is get without decoding anything.
func (c *chain) raw(r uint64) ([]byte, error) { return c.kv.Get(recordKey(r)) }

// openedItem is a chainItem with its record.
type openedItem struct {
	chainItem
	rec *wire.Record
	// lean says that the encoding has nothing besides record and certificate, and is their one
	// encoding.
	lean bool
}

// openItem decodes an item, whose bytes must not change any more.
func openItem(b []byte) (*openedItem, error) {
	return wire.Once(b, func(b []byte) (*openedItem, error) {
		it := new(openedItem)
		if err := wire.UnmarshalAny(b, &it.chainItem, maxChainItem); err != nil {
			return nil, err
		}
		it.lean = len(it.Start) == 0 && bytes.Equal(b, wire.Marshal(it.chainItem))
		var err error
		it.rec, err = wire.OpenRecord(it.Record)
		return it, err
	})
}

func (it chainItem) cert() (*wire.Cert, error) {
	if len(it.Cert) == 0 {
		return nil, nil
	}
	var c wire.Cert
	if err := wire.Unmarshal(it.Cert, &c, wire.MaxMessage); err != nil {
		return nil, err
	}
	return &c, nil
}

// walk calls f for every persisted record from round lo on, ascending, until one
// is missing.
func (c *chain) walk(lo uint64, f func(it *openedItem) error) error {
	for r := lo; ; r++ {
		it, err := c.get(r)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read record %d: %w", r, err)
		}
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

func (c *chain) base() *wire.Cert {
	b, err := c.kv.Get(baseKey)
	if err != nil {
		return nil
	}
	var cert wire.Cert
	if wire.Unmarshal(b, &cert, wire.MaxMessage) != nil {
		return nil
	}
	return &cert
}

// pullRequest asks for what the sender lacks of a run.
type pullRequest struct {
	_        struct{} `cbor:",toarray"`
	Run      wire.RunID
	Next     uint64   // first record that is lacking
	Instance uint64   // next instance
	Known    [][]byte // first 8 bytes of the digests of envelopes that it has
	Composes bool     // it may compose a record: proposals and READYs are of use
}

// Answer is what a peer gives to a pull. Whoever has it must not change it.
type Answer struct {
	_         struct{} `cbor:",toarray"`
	Items     [][]byte // decided records with what proves them
	Base      []byte   // newest certificate of a base decision, if it helps
	Envelopes [][]byte // of the open round
}

// Bytes returns the encoding of a.
func (a *Answer) Bytes() []byte { return wire.Marshal(a) }

// Size is about the length of Bytes.
func (a *Answer) Size() int {
	n := len(a.Base)
	for _, list := range [][][]byte{a.Items, a.Envelopes} {
		for _, b := range list {
			n += 4 + len(b)
		}
	}
	return n
}

// OpenAnswer decodes what another peer answered. Nothing in it is checked yet.
func OpenAnswer(b []byte) (*Answer, error) {
	a := new(Answer)
	if err := wire.UnmarshalAny(b, a, maxPullAnswer); err != nil {
		return nil, fmt.Errorf("answer to a pull: %w", err)
	}
	return a, nil
}

const (
	maxPullRequest = 64 << 10
	maxKnown       = 6 << 10 // digests of a request
	// maxChainItem bounds a record with what proves it.
	maxChainItem  = 2*wire.MaxRecord + wire.MaxMessage
	maxPullAnswer = 3 * wire.MaxRecord
	pullBudget    = maxPullAnswer - 2*wire.MaxMessage
)
