package gossip

import (
	"errors"
	"testing"
	"time"

	"github.com/apiary-net/hived/wire"
)

// What a receiver would punish is not sent: who needs it pulls it.
func TestTellTooBig(t *testing.T) {
	n := NewMembers(nil, "")
	if err := n.Tell(t.Context(), []wire.PeerID{wire.NewKey().Peer()}, make([]byte, wire.MaxSaid+1)); !errors.Is(err, ErrTooBig) {
		t.Fatalf("gives %v", err)
	}
}

// An announcement goes to each member directly, and to the topic where one of them is
// not connected.
func TestMembersAreTold(t *testing.T) {
	const proto = "/hived/test-told/1"
	a := startNode(t)
	b := startNode(t, bootstrap(a))
	waitPeers(t, 1, a, b)
	ta, tb := join(t, a, acceptAll), join(t, b, acceptAll)
	eventually(t, "both subscribed", func() bool { return ta.Peers() == 1 && tb.Peers() == 1 })
	direct := make(chan string, 4)
	b.Handle(proto, 1<<10, func(_ wire.PeerID, m []byte) { direct <- string(m) })
	m := NewMembers(a.Node, proto)
	m.Subscribe(ta)
	if !m.Set([]wire.PeerID{a.ID(), b.ID()}) || m.Set([]wire.PeerID{a.ID(), b.ID()}) {
		t.Error("members change without a change")
	}
	if err := m.Publish(t.Context(), []byte("all here")); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-direct:
		if got != "all here" {
			t.Errorf("told %q", got)
		}
	case got := <-tb.Inbox():
		t.Errorf("the topic carries %q", got.Data)
	case <-time.After(10 * time.Second):
		t.Fatal("nothing in time")
	}
	m.Set([]wire.PeerID{a.ID(), b.ID(), wire.NewKey().Peer()})
	if err := m.Publish(t.Context(), []byte("one away")); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, tb); string(got.Data) != "one away" {
		t.Errorf("the topic carries %q", got.Data)
	}
}
