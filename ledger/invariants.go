package ledger

import (
	"golang.org/x/mod/sumdb/tlog"

	"github.com/apiary-net/hived/wire"
	"github.com/apiary-net/hived/wire/invariants"
)

// checked is up to which size a log is read again after every append.
const checked = 128

// checkHead panics unless the head after an append is that of the entries that the
// store has, whose tree it makes anew. It is called only where invariants are on.
func (l *Log) checkHead(st state) {
	if st.Head.Size > checked {
		return
	}
	tree := nodes{pending: map[int64]tlog.Hash{}}
	prev := wire.Digest{}
	for i := range st.Head.Size {
		raw, err := l.cfg.KV.Get(numbered(entryKey, i))
		if err != nil {
			return // what a disk does not give back is an error of whoever reads it
		}
		e, err := wire.OpenEntry(raw)
		invariants.Check(err == nil && e.Seq == i && e.Prev == prev, "ledger: entry %d of %d follows %s, after %s (%v)", e.Seq, i, e.Prev.Short(), prev.Short(), err)
		prev = wire.Sum(raw)
		hs, err := tlog.StoredHashes(int64(i), raw, tree)
		invariants.Check(err == nil, "ledger: entry %d has no place in the tree: %v", i, err)
		for k, h := range hs {
			tree.pending[tlog.StoredHashIndex(0, int64(i))+int64(k)] = h
		}
	}
	root, err := tlog.TreeHash(int64(st.Head.Size), tree)
	invariants.Check(err == nil && wire.Digest(root) == st.Head.Root && prev == st.Prev, "ledger: the head of %d entries has root %s after %s, the entries give %s after %s (%v)",
		st.Head.Size, st.Head.Root.Short(), st.Prev.Short(), wire.Digest(root).Short(), prev.Short(), err)
}
