package daemon

import (
	"bytes"
	"context"
	"testing"

	"github.com/apiary-net/hived/ledger"
	"github.com/apiary-net/hived/shards"
	"github.com/apiary-net/hived/wire"
)

// askable is a daemon with one run, of which there are a log of five entries and a
// snapshot, but no runner.
func askable(tb testing.TB) (*Daemon, *run) {
	tb.Helper()
	key, kv := wire.NewKey(), shards.NewMemKV()
	r := &run{id: wire.Sum([]byte("run")), genesis: wire.Genesis{Name: "demo"}, sealed: []byte("the sealed genesis"), snaps: &snapshots{kv: runKV{kv: kv}}}
	var err error
	if r.log, err = ledger.Open(ledger.Config{KV: kv, Key: key, Run: r.id}); err != nil {
		tb.Fatal(err)
	}
	for i := range 5 {
		if _, err := r.log.Append(context.Background(), []wire.EntryBody{{Kind: wire.EntryRecord, Ref: wire.RawCID([]byte{byte(i)}), Round: uint64(i)}}); err != nil {
			tb.Fatal(err)
		}
	}
	snap, _, err := shards.NewSnapshot(3, wire.ManifestCID([]byte("v")), [][]byte{{1}}, []wire.PeerID{key.Peer()})
	if err != nil {
		tb.Fatal(err)
	}
	if err := kv.Apply([][2][]byte{{placementKey, wire.Marshal(snap)}}, nil, false); err != nil {
		tb.Fatal(err)
	}
	return &Daemon{key: key, runs: map[wire.RunID]*run{r.id: r}}, r
}

// FuzzAnswer asks a daemon by any bytes. What it answers another peer can open, and
// it is of the run that there is.
func FuzzAnswer(f *testing.F) {
	d, r := askable(f)
	ask := func(kind uint64, body []byte) { f.Add(wire.Marshal(wire.Pull{Kind: kind, Body: body})) }
	ask(wire.PullGenesis, wire.Marshal(wire.GenesisQuery{Name: "demo"}))
	ask(wire.PullGenesis, wire.Marshal(wire.GenesisQuery{Run: r.id}))
	ask(wire.PullLog, wire.Marshal(wire.LogQuery{Run: r.id, Lo: 2}))
	ask(wire.PullLog, wire.Marshal(wire.LogQuery{Run: r.id, Lo: 1 << 63}))
	ask(wire.PullSnapshot, r.id[:])
	ask(wire.PullProof, wire.Marshal(wire.ProofQuery{Run: r.id, Old: 2, New: 5}))
	ask(wire.PullProof, wire.Marshal(wire.ProofQuery{Run: r.id, Old: 5, New: 2}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var p wire.Pull
		if wire.Unmarshal(b, &p, wire.MaxPull) == nil && p.Kind == wire.PullRun {
			return // a runner's own
		}
		out, err := d.answer(wire.PeerID{}, b)
		if err != nil {
			return
		}
		switch p.Kind {
		case wire.PullGenesis:
			if !bytes.Equal(out, r.sealed) {
				t.Errorf("genesis %q", out)
			}
		case wire.PullLog:
			checkLogAnswer(t, d, r, p.Body, out)
		case wire.PullSnapshot:
			if _, err := wire.OpenSnapshot(out); err != nil {
				t.Error(err)
			}
		case wire.PullProof:
			checkProofAnswer(t, r, p.Body, out)
		default:
			t.Errorf("a pull of kind %d is answered", p.Kind)
		}
	})
}

func checkLogAnswer(t *testing.T, d *Daemon, r *run, body, out []byte) {
	t.Helper()
	q, err := wire.OpenQuery[wire.LogQuery](body)
	if err != nil {
		t.Fatal(err)
	}
	var a wire.LogAnswer
	if err := wire.Unmarshal(out, &a, wire.MaxLogAnswer); err != nil {
		t.Fatal(err)
	}
	if err := ledger.CheckHead(a.Head, r.id, d.key.Peer()); err != nil {
		t.Error(err)
	}
	if want := max(5, q.Lo) - q.Lo; uint64(len(a.Entries)) != want {
		t.Errorf("%d entries from %d on, want %d", len(a.Entries), q.Lo, want)
	}
	for i, raw := range a.Entries {
		if e, err := wire.OpenEntry(raw); err != nil || e.Seq != q.Lo+uint64(i) {
			t.Errorf("entry %d from %d on has number %d: %v", i, q.Lo, e.Seq, err)
		}
	}
}

func checkProofAnswer(t *testing.T, r *run, body, out []byte) {
	t.Helper()
	q, err := wire.OpenQuery[wire.ProofQuery](body)
	if err != nil {
		t.Fatal(err)
	}
	proof, err := ledger.ParseProof(out)
	if err != nil {
		t.Fatal(err)
	}
	old, err := r.log.RootAt(q.Old)
	if err != nil {
		t.Fatal(err)
	}
	if q.New == r.log.Head().Size && q.Old > 0 {
		if err := ledger.CheckTree(r.log.Head(), q.Old, old, proof); err != nil {
			t.Error(err)
		}
	}
}
