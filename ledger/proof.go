package ledger

import (
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/apiary-net/hived/wire"
)

// maxProof bounds the hashes of one proof: a tree of 2^40 entries needs 41.
const maxProof = 64

// ProveRecord proves that entry i is in the log when it had size entries.
func (l *Log) ProveRecord(i, size uint64) ([]wire.Digest, error) {
	if have := l.Head().Size; i >= size || size > have {
		return nil, fmt.Errorf("prove entry %d in size %d: log has %d", i, size, have)
	}
	p, err := tlog.ProveRecord(int64(size), int64(i), nodes{kv: l.cfg.KV})
	if err != nil {
		return nil, fmt.Errorf("prove entry %d in size %d: %w", i, size, err)
	}
	return digests(p), nil
}

// ProveTree proves that the log of newSize entries begins with that of oldSize.
// Nothing has to be proved from size 0.
func (l *Log) ProveTree(oldSize, newSize uint64) ([]wire.Digest, error) {
	if have := l.Head().Size; oldSize > newSize || newSize > have {
		return nil, fmt.Errorf("prove size %d in size %d: log has %d", oldSize, newSize, have)
	}
	if oldSize == 0 {
		return nil, nil
	}
	p, err := tlog.ProveTree(int64(newSize), int64(oldSize), nodes{kv: l.cfg.KV})
	if err != nil {
		return nil, fmt.Errorf("prove size %d in size %d: %w", oldSize, newSize, err)
	}
	return digests(p), nil
}

// RootAt returns the root that the log had at a size.
func (l *Log) RootAt(size uint64) (wire.Digest, error) {
	if have := l.Head().Size; size > have {
		return wire.Digest{}, fmt.Errorf("root at size %d: log has %d", size, have)
	}
	h, err := tlog.TreeHash(int64(size), nodes{kv: l.cfg.KV})
	if err != nil {
		return wire.Digest{}, fmt.Errorf("root at size %d: %w", size, err)
	}
	return wire.Digest(h), nil
}

// CheckRecord verifies that leaf is entry i of the log with head h.
func CheckRecord(h wire.Head, i uint64, leaf []byte, proof []wire.Digest) error {
	if i >= h.Size || h.Size > maxSize || len(proof) > maxProof {
		return fmt.Errorf("check entry %d of %d: out of range", i, h.Size)
	}
	if err := tlog.CheckRecord(hashes(proof), int64(h.Size), tlog.Hash(h.Root), int64(i), tlog.RecordHash(leaf)); err != nil {
		return fmt.Errorf("check entry %d of %d: %w", i, h.Size, err)
	}
	return nil
}

// CheckTree verifies that the log with head h begins with the oldSize entries of
// root oldRoot.
func CheckTree(h wire.Head, oldSize uint64, oldRoot wire.Digest, proof []wire.Digest) error {
	if oldSize > h.Size || h.Size > maxSize || len(proof) > maxProof {
		return fmt.Errorf("check size %d in %d: out of range", oldSize, h.Size)
	}
	if oldSize == 0 {
		return nil
	}
	if err := tlog.CheckTree(hashes(proof), int64(h.Size), tlog.Hash(h.Root), int64(oldSize), tlog.Hash(oldRoot)); err != nil {
		return fmt.Errorf("check size %d in %d: %w", oldSize, h.Size, err)
	}
	return nil
}

// ParseProof reads the canonical encoding (wire.Marshal) of a proof.
func ParseProof(b []byte) ([]wire.Digest, error) {
	var p []wire.Digest
	if err := wire.Unmarshal(b, &p, maxProof*40); err != nil {
		return nil, err
	}
	if len(p) > maxProof {
		return nil, fmt.Errorf("proof of %d hashes, limit %d", len(p), maxProof)
	}
	return p, nil
}

func digests(hs []tlog.Hash) []wire.Digest {
	out := make([]wire.Digest, len(hs))
	for i, h := range hs {
		out[i] = wire.Digest(h)
	}
	return out
}

func hashes(ds []wire.Digest) []tlog.Hash {
	out := make([]tlog.Hash, len(ds))
	for i, d := range ds {
		out[i] = tlog.Hash(d)
	}
	return out
}
