package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/elastic"
	"github.com/apiary-net/hived/shards"
	"github.com/apiary-net/hived/wire"
)

// snapshots keeps erasure-coded versions of a run: every peer that has a version
// computes the same placement and keeps its own blocks, so nothing is sent.
type snapshots struct {
	r     *run
	kv    runKV
	store Blocks // one epoch a version
}

var placementKey = []byte("snapshot")

// keptSnapshots is how many snapshots stay on disk.
const keptSnapshots = 2

// Keep implements elastic.Snapshots.
func (s *snapshots) Keep(_ context.Context, version uint64, state wire.CID, blocks [][]byte, holders []wire.PeerID) (wire.CID, error) {
	snap, parity, err := shards.NewSnapshot(version, state, blocks, holders)
	if err != nil {
		return wire.CID{}, err
	}
	mine := map[wire.CID]bool{}
	for _, id := range snap.Held(s.r.d.ID()) {
		mine[id] = true
	}
	for _, b := range append(append([][]byte{}, blocks...), parity...) {
		if !mine[wire.RawCID(b)] {
			continue
		}
		if _, err := s.store.Put(version, b); err != nil {
			return wire.CID{}, fmt.Errorf("keep block of snapshot %d: %w", version, err)
		}
	}
	if err := s.store.Sync(); err != nil { // before the placement says that they are here
		return wire.CID{}, fmt.Errorf("keep blocks of snapshot %d: %w", version, err)
	}
	raw := wire.Marshal(snap)
	if err := s.kv.Apply([][2][]byte{{placementKey, raw}}, nil, true); err != nil {
		return wire.CID{}, err
	}
	every := uint64(s.r.genesis.Snapshot)
	if old := keptSnapshots * every; version > old {
		if err := s.store.DropBefore(version - old + 1); err != nil {
			return wire.CID{}, err
		}
	}
	return wire.RawCID(raw), nil
}

// newest returns the newest placement known here.
func (s *snapshots) newest() (wire.Snapshot, error) {
	b, err := s.kv.Get(placementKey)
	if err != nil {
		return wire.Snapshot{}, err
	}
	return wire.OpenSnapshot(b)
}

// Restore implements elastic.Snapshots: of the placements that this peer and connected
// members know it takes the newest that is certified and whose blocks can be had, from
// any k of a stripe.
func (s *snapshots) Restore(ctx context.Context, certified func(uint64) (wire.CID, bool)) (uint64, wire.CID, error) {
	var c candidates
	if own, err := s.newest(); err == nil {
		c.add(own, certified)
	}
	for _, p := range s.r.net.List() {
		if p == s.r.d.ID() || !s.r.d.node.Connected(p) {
			continue
		}
		b, err := s.r.d.node.Pull(ctx, p, wire.Marshal(wire.Pull{Kind: wire.PullSnapshot, Body: s.r.id[:]}))
		if err != nil {
			continue
		}
		snap, err := wire.OpenSnapshot(b)
		if err != nil {
			s.r.d.log.Warn("placement refused", "peer", p.Short(), "err", err)
			continue
		}
		c.add(snap, certified)
	}
	err := errors.New("no member knows a snapshot that is certified and newer than what is here")
	for _, snap := range c.ranked() {
		if err = s.restore(ctx, snap); err == nil {
			return snap.Version, snap.State, nil
		}
	}
	return 0, wire.CID{}, err
}

func (s *snapshots) restore(ctx context.Context, snap wire.Snapshot) error {
	for i, st := range snap.Stripes {
		if err := s.restoreStripe(ctx, snap.Version, st); err != nil {
			return fmt.Errorf("snapshot %d, stripe %d: %w", snap.Version, i, err)
		}
	}
	return nil
}

// candidate is a placement and how many gave it.
type candidate struct {
	snap  wire.Snapshot
	name  wire.Digest
	count int
}

// candidates are different placements.
type candidates []candidate

// add takes a placement of a state that is certified.
func (c *candidates) add(snap wire.Snapshot, certified func(uint64) (wire.CID, bool)) {
	if want, ok := certified(snap.Version); !ok || want != snap.State {
		return
	}
	name := wire.Sum(wire.Marshal(snap))
	for i := range *c {
		if (*c)[i].name == name {
			(*c)[i].count++
			return
		}
	}
	*c = append(*c, candidate{snap, name, 1})
}

// ranked returns the newest first; of one version what most gave, for all who have it
// compute the same.
func (c candidates) ranked() []wire.Snapshot {
	slices.SortStableFunc(c, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.snap.Version, a.snap.Version), cmp.Compare(b.count, a.count))
	})
	out := make([]wire.Snapshot, len(c))
	for i := range c {
		out[i] = c[i].snap
	}
	return out
}

// restoreStripe gathers k blocks of a stripe and stores its data blocks.
func (s *snapshots) restoreStripe(ctx context.Context, version uint64, st wire.Stripe) error {
	have := make([][]byte, len(st.Data)+len(st.Parity))
	n := 0
	for i := range have {
		if n == len(st.Data) {
			break
		}
		id := st.Block(i)
		b, err := s.r.runner.Local(id)
		if err != nil {
			err = s.r.d.node.Fetch(ctx, []wire.CID{id}, []wire.PeerID{st.Holders[i]}, func(_ wire.CID, got []byte) error {
				b = append([]byte{}, got...)
				return nil
			})
		}
		if err == nil {
			have[i] = b
			n++
		}
	}
	data, err := shards.Restore(st, have)
	if err != nil {
		return err
	}
	for _, b := range data[:len(st.Data)] {
		if _, err := s.r.states.Put(version/elastic.StateEpoch, b); err != nil {
			return err
		}
	}
	return nil
}

// answerSnapshot gives the newest placement of a run.
func (d *Daemon) answerSnapshot(body []byte) ([]byte, error) {
	var id wire.RunID
	if len(body) != len(id) {
		return nil, errors.New("pull of a snapshot names no run")
	}
	copy(id[:], body)
	r, err := d.runOf(id)
	if err != nil {
		return nil, err
	}
	return r.snaps.kv.Get(placementKey)
}

// ShardMap says which peer holds which block of the newest snapshot.
type ShardMap struct {
	Schema  string        `json:"schema"` // hived.shards/v1
	Run     string        `json:"run"`
	Version uint64        `json:"version"`
	State   string        `json:"state"`
	Stripes []ShardStripe `json:"stripes"`
}

// ShardStripe is one stripe of a ShardMap.
type ShardStripe struct {
	Data   int          `json:"data"`
	Parity int          `json:"parity"`
	Blocks []ShardBlock `json:"blocks"`
}

// ShardBlock is one block and who holds it.
type ShardBlock struct {
	CID    string `json:"cid"`
	Holder string `json:"holder"`
	State  string `json:"state"` // listed; after a check: ok, missing or corrupt
}

// shardMap lists the newest placement; with check set, every block is read here
// or fetched from its holder.
func (r *run) shardMap(ctx context.Context, check bool) (*ShardMap, error) {
	snap, err := r.snaps.newest()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exit.Fail(exit.Degraded, nil, "run %s has no snapshot yet: one is made every %d versions", r.genesis.Name, r.genesis.Snapshot)
	}
	if err != nil {
		return nil, exit.Fail(exit.Integrity, err, "read the placement")
	}
	m := &ShardMap{Schema: "hived.shards/v1", Run: r.id.String(), Version: snap.Version, State: snap.State.String(), Stripes: []ShardStripe{}}
	for _, st := range snap.Stripes {
		out := ShardStripe{Data: len(st.Data), Parity: len(st.Parity)}
		for i, h := range st.Holders {
			b := ShardBlock{CID: st.Block(i).String(), Holder: h.String(), State: "listed"}
			if check {
				b.State = r.checkShard(ctx, st.Block(i), h)
			}
			out.Blocks = append(out.Blocks, b)
		}
		m.Stripes = append(m.Stripes, out)
	}
	return m, nil
}

func (r *run) checkShard(ctx context.Context, id wire.CID, holder wire.PeerID) string {
	if holder == r.d.ID() {
		switch _, err := r.snaps.store.Get(id); {
		case err == nil:
			return "ok"
		case errors.Is(err, shards.ErrCorrupt):
			return "corrupt"
		}
		return "missing"
	}
	err := r.d.node.Fetch(ctx, []wire.CID{id}, []wire.PeerID{holder}, func(wire.CID, []byte) error { return nil })
	if err != nil {
		return "missing"
	}
	return "ok"
}
