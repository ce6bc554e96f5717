package elastic

import (
	"bytes"
	"errors"
	"io/fs"

	"github.com/apiary-net/hived/elastic/decide"
	"github.com/apiary-net/hived/elastic/version"
	"github.com/apiary-net/hived/wire"
	"github.com/apiary-net/hived/wire/invariants"
)

// The functions here panic if an invariant is broken, and are called only where
// invariants are on.

// checkNext holds a record that is to be written against the one before it, and its
// bytes against what they will be read as.
func (c *chain) checkNext(p decide.PersistRecord, raw []byte) {
	rec := p.Record
	it, err := wire.OpenChainItem(raw)
	invariants.Check(err == nil, "elastic: record %d is written as what cannot be read: %v", rec.Round, err)
	invariants.Check(it.Rec.Digest() == rec.Digest(), "elastic: record %d is written as %s, it is %s", rec.Round, it.Rec.Digest().Short(), rec.Digest().Short())
	cert, err := it.OpenCert()
	invariants.Check(err == nil && (cert == nil) == (rec.Round == 0), "elastic: record %d is written with certificate %v (%v)", rec.Round, cert, err)
	if cert == nil {
		return
	}
	invariants.Check(cert.Value == rec.Digest(), "elastic: record %s of round %d is written with a certificate of %s", rec.Digest().Short(), rec.Round, cert.Value.Short())
	switch before, err := c.record(rec.Round - 1); {
	case errors.Is(err, fs.ErrNotExist):
		invariants.Check(false, "elastic: record %d is written, the one before it is not there", rec.Round)
	case err == nil:
		invariants.Check(before.Digest() == rec.Prev, "elastic: record %d follows %s, the one before it is %s", rec.Round, rec.Prev.Short(), before.Digest().Short())
	}
}

// checkWritten reads a record back that was written.
func (c *chain) checkWritten(r uint64, raw []byte) {
	if b, err := c.raw(r); err == nil || errors.Is(err, fs.ErrNotExist) {
		invariants.Check(bytes.Equal(b, raw), "elastic: record %d was written in %d bytes and reads back in %d others", r, len(raw), len(b))
	}
}

// checkState computes the version of a state again, which is never changed after it
// was made.
func (w *worker) checkState(s *version.State) {
	again, err := w.r.model.NewState(s.Round, s.Params, s.Buffers, s.Outer)
	invariants.Check(err == nil && again.ID == s.ID, "elastic: the state of version %d is called %s, its vectors give %s (%v)", s.Round, s.ID.Short(), again.ID.Short(), err)
}

// check counts the cache's bytes again.
func (c *cache) check() {
	size := 0
	for id, it := range c.items {
		size += len(it.b)
		invariants.Check(id.Names(it.b), "elastic: the cache holds %d bytes of round %d under %s, which does not name them", len(it.b), it.round, id.Short())
	}
	invariants.Check(size == c.size && size <= maxCache, "elastic: the cache holds %d bytes and counts %d, limit %d", size, c.size, maxCache)
}
