package ledger

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/apiary-net/hived/wire"
)

// TestStrangersTakeNoRoom shows heads of one who has no seat, and lets those who had one
// fill the table: a member is followed all the same, and what was cosigned of somebody
// who was forgotten holds.
func TestStrangersTakeNoRoom(t *testing.T) {
	net := map[wire.PeerID]*party{}
	a, other := forked(t, net, 4, 3)
	b := newParty(t, net, 2, newMemKV())
	delete(net, a.key.Peer())
	if err := b.show(t, a.key, a.log.Head()); err != nil || len(b.Peers()) != 0 || len(b.said) != 0 {
		t.Fatalf("a stranger's head: %d are followed, %d statements, %v", len(b.Peers()), len(b.said), err)
	}
	net[a.key.Peer()] = a
	if err := b.show(t, a.key, a.log.Head()); err != nil || len(b.Peers()) != 1 {
		t.Fatalf("a member's head: %v", err)
	}
	delete(net, a.key.Peer())
	d := newParty(t, net, 3, newMemKV())
	for i := range maxHeads - 1 {
		b.best[wire.PeerID{1, byte(i), byte(i >> 8)}] = a.log.Head()
		net[wire.PeerID{1, byte(i), byte(i >> 8)}] = &party{deaf: true}
	}
	if err := b.show(t, d.key, d.log.Head()); err != nil {
		t.Fatal(err)
	}
	_, old := b.Best(a.key.Peer())
	_, fresh := b.Best(d.key.Peer())
	if old || !fresh || len(b.Peers()) != maxHeads {
		t.Errorf("who left is followed: %v, the member: %v, of %d", old, fresh, len(b.Peers()))
	}
	if got := openHeads(t, b.kv, b.key).Peers(); len(got) != 1 || got[0] != d.key.Peer() {
		t.Errorf("after a start %v are followed", got)
	}
	delete(b.best, d.key.Peer())
	if _, err := b.Offer(a.key.Peer(), other.Head(), nil); !errors.Is(err, ErrInconsistent) {
		t.Errorf("back with another history: %v", err)
	}
}

// TestSilenceBlindsNoWitness has a member announce heads without an end and answer
// nothing: it is asked ever less, one head of it waits, and others are heard.
func TestSilenceBlindsNoWitness(t *testing.T) {
	net := map[wire.PeerID]*party{}
	a, other := forked(t, net, 3, 0)
	d := newParty(t, net, 3, newMemKV())
	d.append(t, 0)
	first := d.log.Head()
	b := newParty(t, net, 2, newMemKV())
	if err := b.show(t, d.key, first); err != nil {
		t.Fatal(err)
	}
	d.deaf = true
	for i := range 2 * maxQueue {
		d.append(t, 1+i)
	}
	if len(b.heads) != 1 || len(b.order) != 1 || len(b.in) != 0 {
		t.Fatalf("%d heads of one peer wait, %d other statements", len(b.heads), len(b.in))
	}
	said := func(wait time.Duration, asked int) {
		t.Helper()
		b.now = b.now.Add(wait)
		for range 3 {
			h := d.log.Head()
			b.Take(wire.Seal(d.key, wire.KindHead, testRun, h.Size, &h))
			_ = b.pump(t)
		}
		if d.asked != asked {
			t.Errorf("after %v more it is asked %d times in all, want %d", wait, d.asked, asked)
		}
	}
	said(0, 1)
	said(minRest, 2)
	said(minRest, 2)
	said(minRest, 3)
	d.deaf = false
	said(maxRest, 4)
	if h, _ := b.Best(d.key.Peer()); h.Size != d.log.Head().Size || len(b.silent) != 0 {
		t.Errorf("it answers and %d of %d entries are believed", h.Size, d.log.Head().Size)
	}
	d.hang = make(chan struct{})
	d.append(t, 7)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); b.Run(ctx) }()
	<-d.hang
	ev := wire.NewEvidence(wire.EvidenceHeads, a.log.Head().Note, other.Head().Note)
	b.Take(wire.Seal(testKey(8), wire.KindEvidence, testRun, 0, &ev))
	for b.kinds(t)[wire.EntryEvidence] == 0 {
		select {
		case <-d.hang:
			t.Fatal("evidence waits for a proof")
		default:
			runtime.Gosched()
		}
	}
	cancel()
	<-d.hang
	<-done
}
