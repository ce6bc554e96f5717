package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/apiary-net/hived/wire"
)

type mapDir struct{ fstest.MapFS }

func (d mapDir) WriteFile(name string, b []byte) error {
	if d.MapFS[name] != nil {
		return fmt.Errorf("%s is written twice", name)
	}
	d.MapFS[name] = &fstest.MapFile{Data: bytes.Clone(b)}
	return nil
}

func export(t testing.TB, l *Log) fstest.MapFS {
	t.Helper()
	d := mapDir{fstest.MapFS{}}
	if _, err := l.Export(d); err != nil {
		t.Fatal(err)
	}
	return d.MapFS
}

// TestExport verifies exports of many sizes, and refuses every change of one.
func TestExport(t *testing.T) {
	peer := testKey(1).Peer()
	for _, n := range []int{0, 1, 2, 256, 257} {
		l := open(t, newMemKV(), testKey(1))
		grow(t, l, n, rand.New(rand.NewPCG(uint64(n), 1)))
		seen := 0
		h, err := VerifyLog(export(t, l), testRun, peer, func(_ []byte, e wire.EntryBody) error { seen++; return nil })
		if err != nil || h.Size != uint64(n) || h.Root != l.Head().Root || seen != n {
			t.Fatalf("size %d: %+v, %d entries, %v", n, h, seen, err)
		}
	}
	l := open(t, newMemKV(), testKey(1))
	grow(t, l, 260, rand.New(rand.NewPCG(1, 1)))
	good := export(t, l)
	want := []string{"checkpoint", "tile/0/000", "tile/0/001.p/4", "tile/1/000.p/1", "tile/entries/000", "tile/entries/001.p/4"}
	var names []string
	for n := range good {
		names = append(names, n)
	}
	slices.Sort(names)
	if !slices.Equal(names, want) {
		t.Fatalf("files %v, want %v", names, want)
	}
	rng := rand.New(rand.NewPCG(7, 7))
	for _, name := range names {
		for range 5 {
			bad := fstest.MapFS{}
			for n, f := range good {
				bad[n] = &fstest.MapFile{Data: bytes.Clone(f.Data)}
			}
			d := bad[name].Data
			what := ""
			switch i := rng.IntN(len(d)); rng.IntN(4) {
			case 0:
				what, bad[name].Data = "cut", d[:i]
			case 1:
				what, bad[name].Data = "longer", append(d, 0)
			case 2:
				what = "missing"
				delete(bad, name)
			default:
				what = fmt.Sprintf("bit of byte %d", i)
				d[i] ^= 1 << rng.IntN(8)
			}
			if _, err := VerifyLog(bad, testRun, peer, nil); err == nil {
				t.Errorf("%s: %s was not seen", name, what)
			}
		}
	}
	if _, err := VerifyLog(good, testRun, testKey(2).Peer(), nil); err == nil {
		t.Error("the log is another peer's too")
	}
	stop := errors.New("stop")
	if _, err := VerifyLog(good, testRun, peer, func([]byte, wire.EntryBody) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("error of visit: %v", err)
	}
}

// TestVerifyForgery: entries that are signed and linked wrongly by the log's own
// key, under a checkpoint that agrees with them.
func TestVerifyForgery(t *testing.T) {
	key := testKey(1)
	for name, forge := range map[string]func(i int, b *wire.EntryBody){
		"number": func(i int, b *wire.EntryBody) { b.Seq = uint64(i + 1) },
		"prev":   func(i int, b *wire.EntryBody) { b.Prev = wire.Sum([]byte("x")) },
		"run":    func(i int, b *wire.EntryBody) { b.Run = wire.Sum(nil) },
	} {
		var ls [][]byte
		prev := wire.Digest{}
		for i := range 3 {
			b := body(i)
			b.Run, b.Seq, b.Prev, b.Time = testRun, uint64(i), prev, 1
			if i == 2 {
				forge(i, &b)
			}
			ls = append(ls, wire.SealEntry(key, b))
			prev = wire.Sum(ls[i])
		}
		if _, err := VerifyLog(forged(t, key, ls[:2]), testRun, key.Peer(), nil); err != nil {
			t.Fatalf("the part that is not forged: %v", err)
		}
		if _, err := VerifyLog(forged(t, key, ls), testRun, key.Peer(), nil); err == nil || !strings.Contains(err.Error(), "entry 2") {
			t.Errorf("forged %s: %v", name, err)
		}
	}
	// A size that is only claimed costs nothing.
	h, err := signHead(logKey{wire.LogOrigin(testRun, key.Peer()), key.Peer(), key}, maxSize, wire.Digest{})
	if err != nil {
		t.Fatal(err)
	}
	d := fstest.MapFS{checkpointFile: &fstest.MapFile{Data: h.Note}}
	if _, err := VerifyLog(d, testRun, key.Peer(), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("claimed size: %v", err)
	}
}

// forged exports leaves as they are, at most one bundle.
func forged(t *testing.T, key wire.Key, ls [][]byte) fstest.MapFS {
	t.Helper()
	v := &verifier{}
	var bundle []byte
	for i, leaf := range ls {
		hs, err := tlog.StoredHashes(int64(i), leaf, v)
		if err != nil {
			t.Fatal(err)
		}
		v.tree = append(v.tree, hs...)
		bundle = append(binary.BigEndian.AppendUint16(bundle, uint16(len(leaf))), leaf...)
	}
	h, err := signHead(logKey{wire.LogOrigin(testRun, key.Peer()), key.Peer(), key}, uint64(len(ls)), slowRoot(ls))
	if err != nil {
		t.Fatal(err)
	}
	d := mapDir{fstest.MapFS{}}
	put := func(name string, b []byte) {
		if err := d.WriteFile(name, b); err != nil {
			t.Fatal(err)
		}
	}
	put(checkpointFile, h.Note)
	for tl := range bundles(h.Size) {
		put(tilePath(tl), bundle)
	}
	for _, tl := range tiles(h.Size) {
		b, err := tlog.ReadTileData(tl, v)
		if err != nil {
			t.Fatal(err)
		}
		put(tilePath(tl), b)
	}
	return d.MapFS
}

// TestCheckCosigned compares what witnesses saw with an export: entries that it begins
// with, other entries, more of them, and another's signature.
func TestCheckCosigned(t *testing.T) {
	kv, owner, witness := newMemKV(), testKey(1), testKey(9)
	l := open(t, kv, owner)
	grow(t, l, 5, rand.New(rand.NewPCG(1, 1)))
	other := open(t, kv.clone(), owner)
	cosigned := func(h wire.Head) []byte {
		t.Helper()
		hs := openHeads(t, newMemKV(), witness)
		if _, err := hs.Offer(owner.Peer(), h, nil); err != nil {
			t.Fatal(err)
		}
		b, err := hs.Cosign(owner.Peer(), h)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	early := cosigned(l.Head())
	grow(t, l, 3, rand.New(rand.NewPCG(2, 2)))
	if _, err := other.Append(t.Context(), []wire.EntryBody{body(99)}); err != nil {
		t.Fatal(err)
	}
	tree, err := ReadLog(export(t, l), testRun, owner.Peer(), nil)
	if err != nil {
		t.Fatal(err)
	}
	late := cosigned(l.Head())
	for _, b := range [][]byte{early, late} {
		if h, err := tree.CheckCosigned(b, witness.Peer()); err != nil || h.Size == 0 {
			t.Errorf("a head of %d entries, %v", h.Size, err)
		}
	}
	if same, known := tree.Holds(6, other.Head().Root); same || !known {
		t.Errorf("another history is held: %v, %v", same, known)
	}
	if _, known := tree.Holds(9, l.Head().Root); known {
		t.Error("a longer log is known")
	}
	short, err := ReadLog(export(t, other), testRun, owner.Peer(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for want, err := range map[string]error{
		"saw other entries":   refusal(tree, cosigned(other.Head()), witness.Peer()),
		"saw 8 entries":       refusal(short, late, witness.Peer()),
		"read cosignature of": refusal(tree, early, owner.Peer()),
		"read cosignature of " + witness.Peer().String(): refusal(tree, l.Head().Note, witness.Peer()),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// refusal returns why a cosigned head is refused.
func refusal(tree *Tree, cosigned []byte, witness wire.PeerID) error {
	_, err := tree.CheckCosigned(cosigned, witness)
	return err
}
