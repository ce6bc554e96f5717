package proof

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/apiary-net/hived/ledger"
	"github.com/apiary-net/hived/shards"
	"github.com/apiary-net/hived/wire"
)

var testRun = wire.Sum([]byte("run"))

// logOf makes a log of entries.
func logOf(t *testing.T, k wire.Key, entries ...wire.EntryBody) *ledger.Log {
	t.Helper()
	l, err := ledger.Open(ledger.Config{KV: shards.NewMemKV(), Key: k, Run: testRun})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
	return l
}

// put writes into a file system in memory.
func put(to fstest.MapFS) wire.Put {
	return func(name string, b []byte) error {
		to[name] = &fstest.MapFile{Data: b}
		return nil
	}
}

// TestWitnessesAreCompared lets a witness say what is so, what is not, what is behind
// the end of a log, and nonsense.
func TestWitnessesAreCompared(t *testing.T) {
	owner, witness := wire.NewKey(), wire.NewKey()
	l := logOf(t, owner, wire.EntryBody{Kind: wire.EntryRecord}, wire.EntryBody{Kind: wire.EntryRecord, Round: 1})
	dir := fstest.MapFS{}
	if _, err := l.Export(put(dir)); err != nil {
		t.Fatal(err)
	}
	tree, err := ledger.ReadLog(dir, testRun, owner.Peer(), nil)
	if err != nil {
		t.Fatal(err)
	}
	first, err := l.RootAt(1)
	if err != nil {
		t.Fatal(err)
	}
	said := func(size uint64, root wire.Digest) wire.EntryBody {
		return wire.EntryBody{Kind: wire.EntryWitness, Extra: wire.Marshal(wire.SeenList{Seen: []wire.Seen{{Peer: owner.Peer(), Size: size, Root: root}}})}
	}
	e := &exported{}
	e.compare(map[wire.PeerID]*ledger.Tree{owner.Peer(): tree}, map[wire.PeerID][]wire.Seen{witness.Peer(): sightings([]wire.EntryBody{
		said(1, first), said(2, l.Head().Root), said(2, first), said(3, first), {Kind: wire.EntryWitness, Extra: []byte("x")}, {Kind: wire.EntryRecord},
	})})
	if e.total.Seen != 2 || len(e.total.Disputed) != 1 || !strings.Contains(e.total.Disputed[0], owner.Peer().String()+", of 2 entries") {
		t.Errorf("%+v", e.total)
	}
}

// TestEvidenceIsChecked puts evidence, and what is none, into an export.
func TestEvidenceIsChecked(t *testing.T) {
	k := wire.NewKey()
	a, b := logOf(t, k, wire.EntryBody{Kind: wire.EntryRecord}), logOf(t, k, wire.EntryBody{Kind: wire.EntryVersion})
	raw := wire.Marshal(wire.NewEvidence(wire.EvidenceHeads, a.Head().Note, b.Head().Note))
	name := wire.EvidenceFile(wire.Sum(raw))
	e := &exported{dir: fstest.MapFS{name: {Data: raw}}, run: testRun}
	if err := e.evidence(); err != nil || len(e.total.Convicted) != 1 || e.total.Convicted[0] != k.Peer().String() || e.total.Evidence != 1 {
		t.Errorf("%+v, %v", e.total, err)
	}
	for what, e := range map[string]*exported{
		"of another run": {dir: fstest.MapFS{name: {Data: raw}}, run: wire.Digest{1}},
		"another name":   {dir: fstest.MapFS{wire.EvidenceFile(wire.Digest{}): {Data: raw}}, run: testRun},
		"cut":            {dir: fstest.MapFS{name: {Data: raw[:9]}}, run: testRun},
		"one statement":  {dir: fstest.MapFS{name: {Data: wire.Marshal(wire.NewEvidence(wire.EvidenceHeads, a.Head().Note, a.Head().Note))}}, run: testRun},
	} {
		if err := e.evidence(); err == nil || !strings.Contains(err.Error(), "evidence/") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := (&exported{dir: fstest.MapFS{}}).evidence(); err != nil {
		t.Errorf("an export without any: %v", err)
	}
}
