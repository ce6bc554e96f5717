package ledger

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"testing/fstest"

	"github.com/apiary-net/hived/wire"
)

func fuzzLog(f *testing.F) *Log {
	l := open(f, newMemKV(), testKey(1))
	for i := range 5 {
		if _, err := l.Append(f.Context(), []wire.EntryBody{body(i)}); err != nil {
			f.Fatal(err)
		}
	}
	return l
}

func must(d wire.Digest, err error) wire.Digest {
	if err != nil {
		panic(err)
	}
	return d
}

func FuzzHead(f *testing.F) {
	l := fuzzLog(f)
	f.Add(l.Head().Note)
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := ParseHead(b, testRun, testKey(1).Peer())
		if err == nil && (!bytes.HasPrefix(h.Note, []byte(h.Origin+"\n")) || !bytes.Equal(h.Note, b) || CheckHead(h, testRun, testKey(1).Peer()) != nil) {
			t.Fatalf("head %+v", h)
		}
	})
}

func FuzzEvidence(f *testing.F) {
	l := fuzzLog(f)
	a, err := signHead(l.key, 3, wire.Sum([]byte("a")))
	if err != nil {
		f.Fatal(err)
	}
	b, err := signHead(l.key, 3, wire.Sum([]byte("b")))
	if err != nil {
		f.Fatal(err)
	}
	ls := leaves(f, l)
	f.Add(wire.Marshal(wire.NewEvidence(wire.EvidenceHeads, a.Note, b.Note)))
	f.Add(wire.Marshal(wire.NewEvidence(wire.EvidenceEntries, ls[0], ls[0])))
	// Of an honest log and its own earlier head: it must convict nobody.
	honest, err := signHead(l.key, 3, must(l.RootAt(3)))
	if err != nil {
		f.Fatal(err)
	}
	proof, err := l.ProveTree(3, 5)
	if err != nil {
		f.Fatal(err)
	}
	fork := wire.Fork{Note: l.Head().Note, Old: honest.Root, Proof: proof}
	f.Add(wire.Marshal(wire.NewEvidence(wire.EvidenceFork, honest.Note, wire.Marshal(fork))))
	convicts := wire.NewEvidence(wire.EvidenceHeads, a.Note, b.Note)
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := ParseEvidence(b)
		if err == nil && !bytes.Equal(wire.Marshal(e), b) {
			t.Fatal("two encodings of one evidence")
		}
		if err == nil && e.Kind == wire.EvidenceFork && string(e.A) != string(convicts.A) && string(e.A) != string(convicts.B) {
			t.Fatal("an honest log is convicted")
		}
	})
}

// FuzzProof: any bytes are a proof of nothing but what is true.
func FuzzProof(f *testing.F) {
	l := fuzzLog(f)
	h, ls := l.Head(), leaves(f, l)
	p, err := l.ProveRecord(2, h.Size)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint64(2), wire.Marshal(p))
	p, err = l.ProveTree(3, h.Size)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint64(3), wire.Marshal(p))
	f.Fuzz(func(t *testing.T, i uint64, b []byte) {
		p, err := ParseProof(b)
		if err != nil {
			return
		}
		if CheckRecord(h, i, []byte("not there"), p) == nil {
			t.Fatal("what is not there was proved")
		}
		if i > 0 && CheckTree(h, i, wire.Sum([]byte("another")), p) == nil {
			t.Fatal("another history was proved")
		}
		if CheckRecord(h, i, ls[min(i, 4)], p) == nil && i >= h.Size {
			t.Fatal("an entry behind the end was proved")
		}
	})
}

// FuzzEntry: the bundle reader takes only whole, signed, linked entries.
func FuzzEntry(f *testing.F) {
	l := open(f, newMemKV(), testKey(1))
	grow(f, l, 5, rand.New(rand.NewPCG(1, 1)))
	good := export(f, l)
	f.Add(good["tile/entries/000.p/5"].Data)
	f.Fuzz(func(t *testing.T, b []byte) {
		d := fstest.MapFS{}
		for n, file := range good {
			d[n] = file
		}
		d["tile/entries/000.p/5"] = &fstest.MapFile{Data: b}
		if _, err := VerifyLog(d, testRun, testKey(1).Peer(), nil); err == nil && !bytes.Equal(b, good["tile/entries/000.p/5"].Data) {
			t.Fatal("two bundles of one log")
		}
	})
}
