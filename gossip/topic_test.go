package gossip

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/apiary-net/hived/wire"
)

const testTopic = "/hived/test/1"

func acceptAll(wire.PeerID, []byte) (any, Verdict) { return nil, Accept }

func join(t *testing.T, n *running, check Check) *Topic {
	t.Helper()
	tp, err := n.Join(testTopic, check)
	if err != nil {
		t.Fatal(err)
	}
	return tp
}

func receive(t *testing.T, tp *Topic) Message {
	t.Helper()
	select {
	case m := <-tp.Inbox():
		return m
	case <-time.After(10 * time.Second):
		t.Fatal("no message in time")
		return Message{}
	}
}

func TestTopic(t *testing.T) {
	a := startNode(t)
	b, c := startNode(t, bootstrap(a)), startNode(t, bootstrap(a))
	waitPeers(t, 2, a, b, c)
	ta, tb, tc := join(t, a, acceptAll), join(t, b, acceptAll), join(t, c, acceptAll)
	for _, tp := range []*Topic{ta, tb, tc} {
		eventually(t, "all subscribed", func() bool { return tp.Peers() == 2 })
	}
	if _, err := a.Join(testTopic, acceptAll); err == nil {
		t.Error("one topic was joined twice")
	}
	if _, err := a.Join("other/1", acceptAll); err == nil {
		t.Error("a topic without the prefix was joined")
	}
	big := bytes.Repeat([]byte{7}, wire.MaxMessage)
	for i, msg := range [][]byte{[]byte("x"), big} {
		if err := ta.Publish(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
		for _, tp := range []*Topic{tb, tc} {
			if m := receive(t, tp); m.From != a.ID() || !bytes.Equal(m.Data, msg) {
				t.Fatalf("message %d: %d bytes of %s", i, len(m.Data), m.From)
			}
		}
	}
	if err := ta.Publish(t.Context(), append(big, 0)); !errors.Is(err, ErrTooBig) {
		t.Errorf("publish too much: %v", err)
	}
	if len(ta.Inbox()) != 0 {
		t.Error("a message came back to its publisher")
	}
	if err := tb.Leave(); err != nil {
		t.Fatal(err)
	}
	if _, open := <-tb.Inbox(); open {
		t.Error("inbox is open after Leave")
	}
	if err := tb.Leave(); err != nil {
		t.Error(err)
	}
	tb = join(t, b, acceptAll)
	eventually(t, "joined again", func() bool { return ta.Peers() == 2 })
	if err := ta.Publish(t.Context(), []byte("again")); err != nil {
		t.Fatal(err)
	}
	if m := receive(t, tb); string(m.Data) != "again" {
		t.Fatalf("got %q", m.Data)
	}
}

// TestInboxDropsOldest publishes more than a receiver that does not read holds.
func TestInboxDropsOldest(t *testing.T) {
	a := startNode(t)
	b := startNode(t, bootstrap(a))
	waitPeers(t, 1, a, b)
	seen := make(chan struct{}, 2*inboxLen)
	ta, tb := join(t, a, acceptAll), join(t, b, func(wire.PeerID, []byte) (any, Verdict) { seen <- struct{}{}; return nil, Accept })
	eventually(t, "subscribed", func() bool { return ta.Peers() == 1 })
	const n = inboxLen + 100
	for i := range n {
		if err := ta.Publish(t.Context(), fmt.Appendf(nil, "%05d", i)); err != nil {
			t.Fatal(err)
		}
		<-seen // one at a time, so that nothing is lost on the way
	}
	eventually(t, "the oldest are dropped", func() bool { return tb.Dropped() == 100 })
	if m := receive(t, tb); len(tb.Inbox()) != inboxLen-1 || string(m.Data) < "00050" {
		t.Errorf("oldest left is %s of %d", m.Data, len(tb.Inbox())+1)
	}
}

// TestFlood: of a flood of rejected messages few are looked at; the flooder is
// disconnected and kept out, others are heard. Ignored messages harm nobody.
func TestFlood(t *testing.T) {
	var rejected atomic.Int64
	check := func(_ wire.PeerID, b []byte) (any, Verdict) {
		switch b[0] {
		case 'r':
			rejected.Add(1)
			return nil, Reject
		case 'i':
			return nil, Ignore
		case 'p':
			panic("a check that fails")
		}
		return nil, Accept
	}
	a := startNode(t)
	good := startNode(t, bootstrap(a))
	flooder := startNode(t, bootstrap(a), func(c *Config) { c.Degree = 1 })
	waitPeers(t, 1, good, flooder)
	ta, tg, tf := join(t, a, check), join(t, good, check), join(t, flooder, acceptAll)
	eventually(t, "subscribed", func() bool { return ta.Peers() == 2 && tf.Peers() >= 1 && tg.Peers() >= 1 })
	for i := range 100 {
		if err := tg.Publish(t.Context(), fmt.Appendf(nil, "i%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tg.Publish(t.Context(), []byte("p")); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if err := tf.Publish(t.Context(), append(fmt.Appendf(nil, "r%d", i), make([]byte, 10<<10)...)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the flooder is disconnected", func() bool { return !a.Connected(flooder.ID()) })
	if n := rejected.Load(); n == 0 || n > 200 {
		t.Errorf("%d of 1000 rejected messages were looked at", n)
	}
	if !a.Connected(good.ID()) {
		t.Error("a peer whose messages are ignored was disconnected")
	}
	if err := flooder.connect(t.Context(), a.ID()); err == nil && a.Connected(flooder.ID()) {
		t.Error("the flooder came back at once")
	}
	if err := tg.Publish(t.Context(), []byte("ok")); err != nil {
		t.Fatal(err)
	}
	if m := receive(t, ta); string(m.Data) != "ok" || m.From != good.ID() {
		t.Errorf("got %q", m.Data)
	}
	t.Logf("%d of 1000 rejected messages were looked at", rejected.Load())
}

// TestOversizeOnTheWire publishes past our own limit from a host that has none.
func TestOversizeOnTheWire(t *testing.T) {
	a := startNode(t)
	ta := join(t, a, acceptAll)
	h := strangerHost(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ps, err := pubsub.NewGossipSub(ctx, h, pubsub.WithMaxMessageSize(8<<20), pubsub.WithGossipSubProtocols([]protocol.ID{ProtoMesh}, func(pubsub.GossipSubFeature, protocol.ID) bool { return true }))
	if err != nil {
		t.Fatal(err)
	}
	tp, err := ps.Join(testTopic)
	if err != nil {
		t.Fatal(err)
	}
	if err := dialFrom(t, h, a); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stranger sees the topic", func() bool { return len(tp.ListPeers()) == 1 })
	for _, size := range []int{wire.MaxMessage + 1, wire.MaxMessage + rpcOverhead + 1, 4 << 20} {
		if err := tp.Publish(ctx, bytes.Repeat([]byte{1}, size)); err != nil {
			t.Fatal(err)
		}
	}
	b := startNode(t, bootstrap(a))
	tb := join(t, b, acceptAll)
	eventually(t, "subscribed", func() bool { return tb.Peers() >= 1 && ta.Peers() >= 1 })
	eventually(t, "a message arrives", func() bool {
		if err := tb.Publish(ctx, []byte("fine")); err != nil {
			t.Fatal(err)
		}
		return len(ta.Inbox()) > 0
	})
	for len(ta.Inbox()) > 0 {
		if m := <-ta.Inbox(); string(m.Data) != "fine" {
			t.Fatalf("message of %d bytes was delivered", len(m.Data))
		}
	}
}
