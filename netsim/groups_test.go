package netsim

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/elastic/version"
	"github.com/apiary-net/hived/wire"
)

// audit exports a run from one node and recomputes it from the exported bytes
// alone: every record from its inputs, every version from the contributions.
func audit(t *testing.T, sw *Swarm, n *Node) (records []*wire.Record, versions []wire.CID) {
	t.Helper()
	files := map[string][]byte{}
	var err error
	sw.Loop.Go(func() {
		err = n.Runner().Export(n.life.ctx, func(name string, b []byte) error {
			files[name] = append([]byte{}, b...)
			return nil
		})
	})
	if e := sw.Advance(time.Minute); e != nil || err != nil {
		t.Fatal(e, err)
	}
	for r := uint64(0); files[wire.RecordFile(r)] != nil; r++ {
		p, err := wire.OpenProven(files[wire.RecordFile(r)])
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, p.Record)
	}
	for i := 1; i < len(records); i++ {
		if err := rules.Validate(&sw.Genesis, sw.Run, rules.History(records[max(0, i-9):i]), records[i]); err != nil {
			t.Fatal(err)
		}
	}
	get := func(_ context.Context, ids []wire.CID, got func(wire.CID, []byte) error) error {
		for _, id := range ids {
			b := files[wire.BlockFile(id)]
			if b == nil || !id.Names(b) {
				return fmt.Errorf("block %s is not in the export", id.Short())
			}
			if err := got(id, b); err != nil {
				return err
			}
		}
		return nil
	}
	m, err := version.NewModel(&sw.Genesis, sw.model.schema)
	if err != nil {
		t.Fatal(err)
	}
	start, err := m.StartState(sw.model.init())
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Replay(t.Context(), start, records, get, func(s *version.State, _ wire.CID) error {
		versions = append(versions, s.ID)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return records, versions
}

// A swarm of several groups agrees on one version a round while the leaders of its
// groups die, and a stranger recomputes it from the contributions.
func TestSwarmOfGroupsIsReplayed(t *testing.T) {
	sw, err := NewSwarm(SwarmConfig{Peers: 45, Group: 8, Rounds: 6, Seed: 5, Codec: "bf16", Model: ModelConfig{Kind: "quadratic", Params: 64}})
	if err != nil {
		t.Fatal(err)
	}
	died := 0
	sw.onRecord = func(r uint64) {
		if r != 1 && r != 3 {
			return
		}
		plan := rules.MakePlan(&sw.Genesis, rules.History{sw.check.head()})
		for _, members := range plan.Groups {
			n := sw.byID[rules.GroupLeaders(sw.check.head().Seed, members)[0]]
			if n.Index == 0 || !n.Up() {
				continue
			}
			n.Kill(false)
			died++
			sw.Loop.After(20*time.Second, func() {
				if err := n.Start(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	if err := sw.Start(); err != nil {
		t.Fatal(err)
	}
	ended := func() bool {
		for _, n := range sw.Nodes {
			if !sw.check.ends[n.Index] {
				return false
			}
		}
		return true
	}
	if err := sw.Until(10*time.Minute, "every peer ends the run", ended); err != nil {
		t.Fatal(err)
	}
	records, versions := audit(t, sw, sw.Nodes[0])
	sw.check.end()
	if sw.check.found != nil {
		t.Fatal(sw.check.found)
	}
	if died < 8 || len(versions) != 6 {
		t.Fatalf("%d group leaders died, %d versions were replayed", died, len(versions))
	}
	for i, v := range versions {
		if v != sw.check.books.versions[uint64(i+1)] {
			t.Fatalf("version %d replays to %s, the peers made %s", i+1, v.Short(), sw.check.books.versions[uint64(i+1)].Short())
		}
	}
	for _, r := range records[1:] {
		// Who dies when its round begins is missing; its group is not.
		if len(r.Counting) < 5 || r.CountedPeers() < 30 {
			t.Errorf("record %d counts %d groups and %d peers", r.Round, len(r.Counting), r.CountedPeers())
		}
	}
	if err := sw.Close(); err != nil {
		t.Fatal(err)
	}
}

// Each liar of a swarm of several groups is contained as in one group: the
// scenario's promises and all checkers hold.
func TestSwarmOfGroupsBearsLiars(t *testing.T) {
	for _, lie := range []string{"sign-flip", "equivocate", "withhold", "lie-samples", "spam"} {
		t.Run(lie, func(t *testing.T) {
			s := scenario(t, "byzantine-"+lie, "swarm.peers=24", "swarm.group=8", "swarm.rounds=5", "swarm.min_peers=0", "model.params=500", "expect.loss_most=1.9")
			r := simulate(t, s, Options{})
			if r.Violates != nil || r.Failure != "" || r.CIDs != 1 {
				t.Fatalf("%v %v, %d CIDs", r.Failure, r.Violates, r.CIDs)
			}
		})
	}
}
