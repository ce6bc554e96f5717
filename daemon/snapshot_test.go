package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/apiary-net/hived/shards"
	"github.com/apiary-net/hived/wire"
)

// TestSnapshotOutlivesAHolder makes a snapshot of version 2 with four peers,
// stops one of them, and restores it at a fresh peer from what the holders keep.
func TestSnapshotOutlivesAHolder(t *testing.T) {
	if testing.Short() {
		t.Skip("short: no training")
	}
	mnist(t)
	ctx := limited(t)
	a, ca := started(t)
	peers, clients := []*Daemon{a}, []*Client{ca}
	for range 3 {
		d, c := started(t, a.node.Addrs()[0])
		peers, clients = append(peers, d), append(clients, c)
	}
	spec := RunSpec{Name: "snap", Task: "mnist", Rounds: 3, Steps: 1, Batch: 16, MinPeers: 4, Seed: 5, Snapshot: 2}
	if err := ca.Post(ctx, "/api/v1/runs", spec, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range clients[1:] {
		if err := c.Post(ctx, "/api/v1/runs/snap/start", map[string]any{"seconds": 20}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range clients {
		for s := (RunStatus{}); s.State != "finished"; pauseIn(t, ctx.Done()) {
			if err := c.Get(ctx, "/api/v1/runs/snap", &s); err != nil {
				t.Fatal(err)
			}
		}
	}
	m := checkedMap(t, ctx, ca)
	// The holder of the first data block goes: parity has to stand in for it.
	var kept *Daemon
	for _, d := range peers {
		if d.ID().String() != m.Stripes[0].Blocks[0].Holder {
			kept = d
			continue
		}
		d.Stop()
		if err := d.node.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for len(kept.node.Peers()) > 2 {
		pauseIn(t, ctx.Done())
	}
	restoresAt(t, ctx, kept, m)
}

// orderedBlocks notes in order what is done to a store of blocks.
type orderedBlocks struct {
	Blocks
	done *[]string
	fail error // of Sync
}

func (o orderedBlocks) Put(uint64, []byte) (wire.CID, error) {
	*o.done = append(*o.done, "put")
	return wire.CID{}, nil
}

func (o orderedBlocks) Sync() error {
	*o.done = append(*o.done, "sync")
	return o.fail
}

// orderedKV notes what is written into it.
type orderedKV struct {
	KV
	done *[]string
}

func (o orderedKV) Apply([][2][]byte, [][]byte, bool) error {
	*o.done = append(*o.done, "placement")
	return nil
}

// TestPlacementComesLast keeps a snapshot: the blocks are durable before the placement
// is, which the log names.
func TestPlacementComesLast(t *testing.T) {
	key := wire.NewKey()
	for _, fail := range []error{nil, errors.New("the disk is gone")} {
		var done []string
		s := &snapshots{r: &run{d: &Daemon{key: key}, genesis: wire.Genesis{Snapshot: 2}}, kv: runKV{kv: orderedKV{done: &done}}, store: orderedBlocks{done: &done, fail: fail}}
		_, err := s.Keep(t.Context(), 2, wire.ManifestCID([]byte("v")), [][]byte{{1}}, []wire.PeerID{key.Peer()})
		want := []string{"put", "sync", "placement"}
		if fail != nil {
			want = want[:2]
		}
		if !errors.Is(err, fail) || !slices.Equal(done, want) {
			t.Errorf("%v, want %v: %v", done, want, err)
		}
	}
}

// TestPlacementsAreCertified gives placements of versions that the chain does not certify,
// and one of whose blocks one peer says what nobody else does.
func TestPlacementsAreCertified(t *testing.T) {
	state := func(v uint64) wire.CID { return wire.ManifestCID([]byte{byte(v)}) }
	certified := func(v uint64) (wire.CID, bool) { return state(v), v <= 8 }
	of := func(v uint64, id wire.CID, block byte) wire.Snapshot {
		s, _, err := shards.NewSnapshot(v, id, [][]byte{{block}}, []wire.PeerID{{1}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var c candidates
	for _, s := range []wire.Snapshot{of(4, state(4), 1), of(1<<60, state(1), 1), of(6, state(5), 1), of(8, state(8), 9), of(8, state(8), 1), of(8, state(8), 1)} {
		c.add(s, certified)
	}
	var got []string
	for _, s := range c.ranked() {
		got = append(got, fmt.Sprint(s.Version, s.Blocks[0] == wire.RawCID([]byte{1})))
	}
	if want := []string{"8 true", "8 false", "4 true"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// checkedMap returns the placement after every block was looked for.
func checkedMap(t *testing.T, ctx context.Context, c *Client) ShardMap {
	t.Helper()
	var m ShardMap
	if err := c.Get(ctx, "/api/v1/runs/snap/shards?check=1", &m); err != nil {
		t.Fatal(err)
	}
	holders := map[string]bool{}
	for _, s := range m.Stripes {
		seen := map[string]bool{}
		for _, b := range s.Blocks {
			if b.State != "ok" || seen[b.Holder] {
				t.Fatalf("block %s at %s is %s, or its holder holds two of a stripe", b.CID, b.Holder, b.State)
			}
			seen[b.Holder], holders[b.Holder] = true, true
		}
	}
	if m.Version != 2 || len(holders) != 4 || m.Stripes[0].Data != 2 || m.Stripes[0].Parity != 2 {
		t.Fatalf("snapshot of version %d on %d holders: %+v", m.Version, len(holders), m.Stripes[0])
	}
	return m
}

// restoresAt restores the snapshot at a fresh peer that joins by kept.
func restoresAt(t *testing.T, ctx context.Context, kept *Daemon, m ShardMap) {
	t.Helper()
	fresh, cf := started(t, kept.node.Addrs()[0])
	if err := cf.Post(ctx, "/api/v1/runs/snap/start", map[string]any{"seconds": 20}, nil); err != nil {
		t.Fatal(err)
	}
	for len(fresh.node.Peers()) < 3 {
		pauseIn(t, ctx.Done())
	}
	r, err := fresh.find("snap")
	if err != nil {
		t.Fatal(err)
	}
	for len(r.net.List()) < 4 {
		pauseIn(t, ctx.Done())
	}
	if _, _, err := r.snaps.Restore(ctx, func(uint64) (wire.CID, bool) { return wire.ManifestCID([]byte("another")), true }); err == nil {
		t.Error("a state that is not certified is restored")
	}
	version, state, err := r.snaps.Restore(ctx, func(v uint64) (id wire.CID, ok bool) {
		id, err := wire.ParseCID(m.State)
		return id, err == nil && v == m.Version
	})
	if err != nil || version != 2 || state.String() != m.State {
		t.Fatalf("restored version %d, state %s, want 2 and %s: %v", version, state, m.State, err)
	}
	lost, err := wire.ParseCID(m.Stripes[0].Blocks[0].CID)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := r.states.Get(lost); err != nil || !lost.Names(b) {
		t.Fatalf("the block of the stopped holder is not here: %v", err)
	}
}

// pauseIn waits a moment between two looks at a condition, or fails at the end.
func pauseIn(t *testing.T, end <-chan struct{}) {
	t.Helper()
	select {
	case <-end:
		t.Fatal("not in time")
	case <-time.After(30 * time.Millisecond):
	}
}
