package netsim

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apiary-net/hived/wire"
)

// A record whose write fails does not become the head: the peer stops with the cause,
// and what it starts with again has no gap.
func TestFailedWriteOfARecordStopsThePeer(t *testing.T) {
	s := scenario(t, "baseline", "swarm.peers=4", "swarm.min_peers=4", "swarm.rounds=6", "model.params=200", "swarm.seed=3")
	m, err := NewSim(s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := m.Swarm.Nodes[2]
	broken := errors.New("the write failed")
	fails := 0
	n.disk.bad = func(key []byte) error {
		if want := append([]byte("rec/"), 0, 0, 0, 0, 0, 0, 0, 1); string(key) != string(want) || fails > 0 {
			return nil
		}
		fails++
		return broken
	}
	stopped := ""
	r, err := m.Run(t.Context(), Options{Progress: func(Progress) {
		for _, e := range m.Swarm.trail.last {
			if e.Kind == "stopped" && stopped == "" {
				stopped = e.Text
				if err := chainOf(n, 0); err != nil {
					t.Error(err)
				}
				m.restart(n)
			}
		}
	}})
	if err != nil || r.Violates != nil || r.Failure != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	if fails != 1 || !strings.Contains(stopped, "persist record 1: the write failed") {
		t.Fatalf("%d writes failed, the peer stopped with %q", fails, stopped)
	}
	if err := chainOf(n, 6); err != nil {
		t.Fatal(err)
	}
}

// chainOf checks that a node's disk has the records 0 to last and no others.
func chainOf(n *Node, last uint64) error {
	have := map[uint64]bool{}
	err := n.disk.kv.Scan([]byte("rec/"), func(_, v []byte) error {
		it, err := wire.OpenChainItem(n.disk.values.value(v))
		if err == nil {
			have[it.Rec.Round] = true
		}
		return err
	})
	for r := range last + 1 {
		if !have[r] {
			return fmt.Errorf("record %d is not there: %w", r, errors.Join(err))
		}
	}
	if len(have) != int(last)+1 {
		return fmt.Errorf("%d records, want up to %d: %w", len(have), last, errors.Join(err))
	}
	return err
}

// After a failed write of its log a peer signs nothing more: its run stops with the
// cause, and goes on from what was durable when it is started again.
func TestFailedWriteOfTheLogStopsThePeer(t *testing.T) {
	s := scenario(t, "baseline", "swarm.peers=4", "swarm.min_peers=4", "swarm.rounds=6", "model.params=200", "swarm.seed=3", "expect.useful=0.9")
	m, err := NewSim(s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	n, broken, fails, stopped := m.Swarm.Nodes[1], errors.New("the write failed"), 0, ""
	n.disk.bad = func(key []byte) error {
		for _, runners := range []string{"rec/", "slot/", "base/", "state"} {
			if strings.HasPrefix(string(key), runners) {
				return nil
			}
		}
		if fails > 0 || n.round != 2 {
			return nil
		}
		fails++
		return broken
	}
	r, err := m.Run(t.Context(), Options{Progress: func(Progress) {
		for _, e := range m.Swarm.trail.last {
			if e.Kind == "stopped" && stopped == "" {
				stopped = e.Text
				m.restart(n)
			}
		}
	}})
	if err != nil || r.Violates != nil || r.Failure != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	if fails != 1 || !strings.Contains(stopped, "log version 3") || !strings.Contains(stopped, "the write failed") {
		t.Fatalf("%d writes failed, the peer stopped with %q", fails, stopped)
	}
}
