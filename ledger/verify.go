package ledger

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/apiary-net/hived/wire"
)

// VerifyLog reads an exported log, believes nothing in it and checks all of it
// as peer's log in run: the checkpoint's form and signature; every entry's form,
// signature, run, peer, number and link to the one before; the root; every tile.
// It calls visit, which may be nil, for each entry that is good so far; raw is
// valid during the call. Memory is about 64 bytes an entry. An error names the
// first file or entry that is wrong.
func VerifyLog(dir fs.FS, run wire.RunID, peer wire.PeerID, visit func(raw []byte, e wire.EntryBody) error) (wire.Head, error) {
	t, err := ReadLog(dir, run, peer, visit)
	if err != nil {
		return wire.Head{}, err
	}
	return t.Head, nil
}

// Tree is a log that was read and verified.
type Tree struct {
	Head wire.Head
	v    *verifier
}

// CheckCosigned verifies that a note is a head of this log, signed by its owner and
// cosigned by witness, of entries that the log begins with.
func (t *Tree) CheckCosigned(cosigned []byte, witness wire.PeerID) (wire.Head, error) {
	h, err := ParseHead(cosigned, t.v.run, t.v.peer)
	if err != nil {
		return h, err
	}
	if _, err := Cosignature(cosigned, witness); err != nil {
		return h, err
	}
	if h.Size > t.Head.Size {
		return h, fmt.Errorf("%s saw %d entries, the log has %d", witness, h.Size, t.Head.Size)
	}
	if same, _ := t.Holds(h.Size, h.Root); !same {
		return h, fmt.Errorf("%s saw other entries than the first %d of the log", witness, h.Size)
	}
	return h, nil
}

// Holds reports whether the log begins with size entries of a root; known is false
// for a log that is shorter.
func (t *Tree) Holds(size uint64, root wire.Digest) (same, known bool) {
	if size > t.Head.Size {
		return false, false
	}
	have, err := t.v.rootAt(size)
	return err == nil && have == root, true
}

// ReadLog is VerifyLog that returns what was read.
func ReadLog(dir fs.FS, run wire.RunID, peer wire.PeerID, visit func(raw []byte, e wire.EntryBody) error) (*Tree, error) {
	note, err := readBounded(dir, checkpointFile, wire.MaxNote)
	if err != nil {
		return nil, fmt.Errorf("verify log of %s: %w", peer, err)
	}
	head, err := ParseHead(note, run, peer)
	if err != nil {
		return nil, fmt.Errorf("verify log: %w", err)
	}
	v := &verifier{dir: dir, run: run, peer: peer, visit: visit}
	for t := range bundles(head.Size) {
		if err := v.bundle(t); err != nil {
			return nil, fmt.Errorf("verify log of %s: %w", peer, err)
		}
	}
	root, err := tlog.TreeHash(int64(head.Size), v)
	if err != nil {
		return nil, fmt.Errorf("verify log of %s: %w", peer, err)
	}
	if wire.Digest(root) != head.Root {
		return nil, fmt.Errorf("verify log of %s: root of the entries is not that of the checkpoint", peer)
	}
	for _, t := range tiles(head.Size) {
		if err := v.tile(t); err != nil {
			return nil, fmt.Errorf("verify log of %s: %w", peer, err)
		}
	}
	return &Tree{head, v}, nil
}

// verifier rebuilds a log from its entries.
type verifier struct {
	dir   fs.FS
	run   wire.RunID
	peer  wire.PeerID
	visit func([]byte, wire.EntryBody) error
	size  uint64
	prev  wire.Digest
	tree  []tlog.Hash // stored hashes, by index
}

// ReadHashes implements tlog.HashReader.
func (v *verifier) ReadHashes(ix []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(ix))
	for i, x := range ix {
		if x < 0 || x >= int64(len(v.tree)) {
			return nil, fmt.Errorf("tree node %d of %d", x, len(v.tree))
		}
		out[i] = v.tree[x]
	}
	return out, nil
}

// rootAt returns the root that the log had at a size up to the one that was read.
func (v *verifier) rootAt(size uint64) (wire.Digest, error) {
	h, err := tlog.TreeHash(int64(size), v)
	return wire.Digest(h), err
}

func (v *verifier) bundle(t tlog.Tile) error {
	name := tilePath(t)
	b, err := readBounded(v.dir, name, t.W*(2+wire.MaxEntry))
	if err != nil {
		return err
	}
	for range t.W {
		if len(b) < 2 || len(b)-2 < int(binary.BigEndian.Uint16(b)) {
			return fmt.Errorf("%s: entry %d is cut off", name, v.size)
		}
		n := int(binary.BigEndian.Uint16(b))
		if err := v.entry(b[2 : 2+n]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		b = b[2+n:]
	}
	if len(b) != 0 {
		return fmt.Errorf("%s: %d bytes too many", name, len(b))
	}
	return nil
}

func (v *verifier) entry(leaf []byte) error {
	e, err := wire.OpenEntry(leaf)
	switch {
	case err != nil:
		return fmt.Errorf("entry %d: %w", v.size, err)
	case e.Peer != v.peer || e.Run != v.run:
		return fmt.Errorf("entry %d is of %s in run %s", v.size, e.Peer, e.Run.Short())
	case e.Seq != v.size:
		return fmt.Errorf("entry %d says that it is number %d", v.size, e.Seq)
	case e.Prev != v.prev:
		return fmt.Errorf("entry %d does not follow the one before", v.size)
	}
	hs, err := tlog.StoredHashes(int64(v.size), leaf, v)
	if err != nil {
		return fmt.Errorf("entry %d: %w", v.size, err)
	}
	v.tree = append(v.tree, hs...)
	v.prev, v.size = wire.Sum(leaf), v.size+1
	if v.visit != nil {
		return v.visit(leaf, e)
	}
	return nil
}

func (v *verifier) tile(t tlog.Tile) error {
	name := tilePath(t)
	b, err := readBounded(v.dir, name, tileWidth*tlog.HashSize)
	if err != nil {
		return err
	}
	want, err := tlog.ReadTileData(t, v)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if !bytes.Equal(b, want) {
		return fmt.Errorf("%s: hashes are not those of the entries", name)
	}
	return nil
}

// readBounded reads a file of at most limit bytes.
func readBounded(dir fs.FS, name string, limit int) ([]byte, error) {
	f, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(b) > limit {
		return nil, fmt.Errorf("read %s: more than %d bytes", name, limit)
	}
	return b, nil
}
