//go:build long

package netsim

import (
	"context"
	"testing"
	"time"

	"github.com/apiary-net/hived/wire"
)

// The largest swarm's records are larger than a message may be.
func TestLargestSwarm(t *testing.T) {
	inBubble(t, MemConfig{Peers: wire.MaxMembers, Topology: "butterfly", Rounds: 1, Steps: 1, Seed: 26}, func(t *testing.T, ctx context.Context, m *Mem, ns []*MemNode) {
		until(t, 5*time.Minute, "all finish", finished(ctx, ns...))
		recs := sameEnd(t, ctx, ns...)
		if n := len(wire.Marshal(recs[1])); n <= wire.MaxMessage {
			t.Fatalf("record 1 has %d bytes: the test shows nothing", n)
		}
	})
}
