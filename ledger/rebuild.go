package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/apiary-net/hived/wire"
)

// memNodes is a Merkle tree in memory: stored hashes by index.
type memNodes []tlog.Hash

func (m memNodes) ReadHashes(ix []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(ix))
	for i, x := range ix {
		if x < 0 || x >= int64(len(m)) {
			return nil, errors.New("hash is behind the end of the tree")
		}
		out[i] = m[x]
	}
	return out, nil
}

// ExportEntries writes another peer's log, of which all entries up to head were
// fetched, in the layout of Export. It checks the head's signature and that the
// entries have its root, so that no export begins with a log that cannot verify.
func ExportEntries(run wire.RunID, peer wire.PeerID, head wire.Head, entries [][]byte, to Dir) error {
	if err := CheckHead(head, run, peer); err != nil {
		return fmt.Errorf("export log of %s: %w", peer.Short(), err)
	}
	if uint64(len(entries)) != head.Size {
		return fmt.Errorf("export log of %s: %d of %d entries", peer.Short(), len(entries), head.Size)
	}
	var tree memNodes
	for i, raw := range entries {
		if len(raw) > wire.MaxEntry {
			return fmt.Errorf("export log of %s: entry %d has %d bytes", peer.Short(), i, len(raw))
		}
		hs, err := tlog.StoredHashes(int64(i), raw, tree)
		if err != nil {
			return err
		}
		tree = append(tree, hs...)
	}
	root, err := tlog.TreeHash(int64(head.Size), tree)
	if err != nil {
		return err
	}
	if wire.Digest(root) != head.Root {
		return fmt.Errorf("export log of %s: its entries do not have the root of its head", peer.Short())
	}
	for t := range bundles(head.Size) {
		var b []byte
		for _, raw := range entries[t.N*tileWidth : t.N*tileWidth+int64(t.W)] {
			b = append(binary.BigEndian.AppendUint16(b, uint16(len(raw))), raw...)
		}
		if err := to.WriteFile(tilePath(t), b); err != nil {
			return err
		}
	}
	for _, t := range tiles(head.Size) {
		b, err := tlog.ReadTileData(t, tree)
		if err == nil {
			err = to.WriteFile(tilePath(t), b)
		}
		if err != nil {
			return err
		}
	}
	return to.WriteFile(checkpointFile, head.Note)
}
