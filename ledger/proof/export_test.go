package proof

import (
	"bytes"
	"testing"
	"testing/fstest"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/wire"
)

// sealedTree is an export of files, with sums that key signs.
func sealedTree(key wire.Key, run wire.RunID, files map[string][]byte) fstest.MapFS {
	tree, s := fstest.MapFS{}, sums{}
	for name, b := range files {
		s[name] = wire.Sum(b)
		tree[name] = &fstest.MapFile{Data: b}
	}
	tree[SumsFile] = &fstest.MapFile{Data: s.bytes()}
	tree[SigFile] = &fstest.MapFile{Data: sealSums(key, run, s.bytes())}
	return tree
}

// FuzzExport verifies directories in which one file is of anybody's bytes, with
// sums that fit: without a chain of records that a quorum certified nothing is
// taken, and the answer is always that of a damaged ledger.
func FuzzExport(f *testing.F) {
	key := wire.NewKey()
	g := wire.Genesis{V: 1, Numerics: 1, Name: "demo", Creator: key.Peer(), Model: wire.ModelSpec{Name: "convnet", Args: []wire.Arg{}},
		Data: []wire.DataContract{{Name: "mnist", Train: 1, Test: 1}}, PartValues: 4096, Rounds: 1, MinPeers: 1, MinCounted: 1, MinVoters: 1, Group: 2,
		Deadline: wire.Deadline{MinMs: 1, MaxMs: 2, Mads: 1}, Admission: wire.Admission{Mode: "open", Allow: []wire.PeerID{}},
		Preset: wire.Preset{Inner: wire.Inner{Optimizer: "sgd", Batch: 1}, Cadence: wire.Cadence{Steps: 1}, Codec: "none", Merged: "none", Topology: "allgather",
			Aggregator: "mean", Outer: wire.Outer{Rule: "sgd"}}}
	sealed := wire.Seal(key, wire.KindGenesis, wire.RunID{}, 0, &g).Bytes()
	_, run, err := wire.OpenGenesis(sealed)
	if err != nil {
		f.Fatal(err)
	}
	start := wire.Record{V: 1, Run: run, Table: wire.Table{{Peer: key.Peer(), Power: 1}}}
	item := wire.ChainItem{Record: wire.Marshal(&start), Start: wire.Seal(key, wire.KindProposal, run, 0, &start).Bytes()}
	names := []string{"genesis", wire.RecordFile(0), wire.RecordFile(1), wire.AttestFile(0), "logs/" + key.Peer().String() + "/checkpoint", "blocks/" + wire.RawCID(nil).String(), SumsFile, SigFile}
	f.Add(uint8(0), sealed)
	f.Add(uint8(1), wire.Marshal(item))
	f.Add(uint8(2), wire.Marshal(item))
	f.Add(uint8(3), wire.Marshal(wire.AttestList{}))
	f.Add(uint8(7), []byte{})
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		name := names[int(which)%len(names)]
		files := map[string][]byte{"genesis": sealed, wire.RecordFile(0): wire.Marshal(item)}
		if name != SumsFile && name != SigFile {
			files[name] = b
		}
		tree := sealedTree(key, run, files)
		tree[name] = &fstest.MapFile{Data: b}
		res, err := Ledger(tree)
		if err == nil || res != nil || exit.CodeOf(err) != exit.Integrity {
			t.Errorf("%s: %v, exit code %d: %v", name, res, exit.CodeOf(err), err)
		}
		if again, _ := Ledger(tree); again != nil || !bytes.Equal(tree[name].Data, b) {
			t.Error("looked at twice it is another export")
		}
	})
}
