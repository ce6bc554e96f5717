package gossip

import (
	"slices"
	"testing"

	"github.com/apiary-net/hived/wire"
)

// Keep dials who is not connected, protects those connections until the next
// call, and names who cannot be reached.
func TestKeep(t *testing.T) {
	b := startNode(t)
	a := startNode(t, bootstrap(b))
	c := startNode(t, bootstrap(b))
	waitPeers(t, 2, b)
	// a knows of c when it has asked b; until then it may not know the address.
	eventually(t, "a reaches c", func() bool { return len(a.Keep(t.Context(), []wire.PeerID{c.ID()})) == 0 })
	stranger := wire.NewKey().Peer()
	lost := a.Keep(t.Context(), []wire.PeerID{a.ID(), b.ID(), stranger})
	if !slices.Equal(lost, []wire.PeerID{stranger}) || !a.Connected(b.ID()) {
		t.Fatalf("unreachable %v, connected %v", lost, a.Connected(b.ID()))
	}
	cm := a.host.ConnManager()
	if !cm.IsProtected(toLibp2p(b.ID()), keepTag) {
		t.Error("the connection may be closed")
	}
	a.Keep(t.Context(), []wire.PeerID{c.ID()})
	if cm.IsProtected(toLibp2p(b.ID()), keepTag) || !cm.IsProtected(toLibp2p(c.ID()), keepTag) {
		t.Error("what the call before kept is still kept, or the new one is not")
	}
}
