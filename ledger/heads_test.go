package ledger

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	fnote "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"github.com/apiary-net/hived/wire"
)

func openHeads(t testing.TB, kv KV, key wire.Key) *Heads {
	t.Helper()
	h, err := OpenHeads(Config{KV: kv, Key: key, Run: testRun, Now: func() time.Time { return time.Unix(1700000000, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestHeads follows a log, then its fork.
func TestHeads(t *testing.T) {
	peer := testKey(1).Peer()
	logKV := newMemKV()
	l := open(t, logKV, testKey(1))
	kv := newMemKV()
	hs := openHeads(t, kv, testKey(9))
	heads := grow(t, l, 100, rand.New(rand.NewPCG(4, 4)))
	fork := open(t, logKV.clone(), testKey(1)) // the same key goes on elsewhere
	offer := func(l *Log, h wire.Head) (bool, error) {
		best, _ := hs.Best(peer)
		p, err := l.ProveTree(min(best.Size, h.Size), h.Size)
		if err != nil {
			t.Fatal(err)
		}
		return hs.Offer(peer, h, p)
	}
	for i, h := range heads {
		if fresh, err := offer(l, h); err != nil || !fresh {
			t.Fatalf("head %d: %v, %v", i, fresh, err)
		}
		if fresh, err := offer(l, h); err != nil || fresh {
			t.Fatalf("head %d again: %v, %v", i, fresh, err)
		}
	}
	if fresh, err := offer(l, heads[0]); err != nil || fresh {
		t.Fatalf("an old head: %v, %v", fresh, err)
	}
	if hs = openHeads(t, kv, testKey(9)); len(hs.Peers()) != 1 {
		t.Fatal("heads are not durable")
	}
	a, err := l.Append(t.Context(), []wire.EntryBody{body(1000)})
	if err != nil {
		t.Fatal(err)
	}
	b, err := fork.Append(t.Context(), []wire.EntryBody{body(2000)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hs.Offer(peer, a, nil); !errors.Is(err, ErrInconsistent) {
		t.Fatalf("a bigger head without proof: %v", err)
	}
	if _, err := offer(l, a); err != nil {
		t.Fatal(err)
	}
	var ee *EvidenceError
	if _, err := offer(fork, b); !errors.As(err, &ee) || !errors.Is(err, ErrEquivocation) {
		t.Fatalf("a fork of one size: %v", err)
	}
	b2 := grow(t, fork, 5, rand.New(rand.NewPCG(5, 5)))
	if _, err := offer(fork, b2[len(b2)-1]); !errors.Is(err, ErrInconsistent) {
		t.Fatalf("a longer fork: %v", err)
	}
	la, lb := leaves(t, l)[100], leaves(t, fork)[100]
	for _, leaf := range [][]byte{la, la} {
		if err := hs.OfferEntry(leaf); err != nil {
			t.Fatal(err)
		}
	}
	if err := hs.OfferEntry(lb); !errors.As(err, &ee) || ee.Evidence.Kind != wire.EvidenceEntries {
		t.Fatalf("two entries of one number: %v", err)
	}
	checkEvidence(t, openHeads(t, kv, testKey(9)), peer)
	if _, _, err := CheckEvidence(wire.NewEvidence(wire.EvidenceHeads, a.Note, heads[0].Note)); err == nil {
		t.Error("two heads of one history convict")
	}
	if err := hs.OfferEntry([]byte("x")); err == nil {
		t.Error("rubbish is an entry")
	}
}

// checkEvidence wants one piece of each kind against peer, in one form only.
func checkEvidence(t *testing.T, hs *Heads, peer wire.PeerID) {
	t.Helper()
	es, err := hs.Evidence()
	if err != nil || len(es) != 2 {
		t.Fatalf("%d pieces of evidence, %v", len(es), err)
	}
	for _, e := range es {
		if p, run, err := CheckEvidence(e); err != nil || p != peer || run != testRun {
			t.Errorf("evidence convicts %s in %s: %v", p, run.Short(), err)
		}
		if _, err := ParseEvidence(wire.Marshal(e)); err != nil {
			t.Error(err)
		}
		for _, bad := range []wire.Evidence{{V: 1, Kind: e.Kind, A: e.A, B: e.A}, {V: 1, Kind: e.Kind, A: e.B, B: e.A}, {V: 1, Kind: 3 - e.Kind, A: e.A, B: e.B}, {V: 2, Kind: e.Kind, A: e.A, B: e.B}} {
			if _, _, err := CheckEvidence(bad); err == nil {
				t.Error("bad evidence convicts")
			}
		}
	}
}

// TestOwnHead: an old copy of the state meets what it signed since.
func TestOwnHead(t *testing.T) {
	kv := newMemKV()
	l := open(t, kv, testKey(1))
	grow(t, l, 5, rand.New(rand.NewPCG(1, 1)))
	old := open(t, kv.clone(), testKey(1))
	newer, err := l.Append(t.Context(), []wire.EntryBody{body(50)})
	if err != nil {
		t.Fatal(err)
	}
	hs := openHeads(t, newMemKV(), testKey(1))
	if err := hs.OfferOwn(l, newer); err != nil {
		t.Errorf("own head: %v", err)
	}
	if err := hs.OfferOwn(old, newer); !errors.Is(err, ErrBehind) {
		t.Errorf("restored from an old copy: %v", err)
	}
	if _, err := old.Append(t.Context(), []wire.EntryBody{body(51)}); err != nil {
		t.Fatal(err)
	}
	if err := hs.OfferOwn(old, newer); !errors.Is(err, ErrEquivocation) {
		t.Errorf("two histories of one key: %v", err)
	}
}

// TestCosign checks the cosignature with another implementation, and that what
// is cosigned only grows, over a crash too.
func TestCosign(t *testing.T) {
	peer, witness := testKey(1).Peer(), testKey(9).Peer()
	l := open(t, newMemKV(), testKey(1))
	kv := newMemKV()
	hs := openHeads(t, kv, testKey(9))
	h := grow(t, l, 10, rand.New(rand.NewPCG(1, 1)))[0]
	if _, err := hs.Cosign(peer, h); !errors.Is(err, ErrOld) {
		t.Fatalf("a head that nobody offered: %v", err)
	}
	if _, err := hs.Offer(peer, h, nil); err != nil {
		t.Fatal(err)
	}
	b, err := hs.Cosign(peer, h)
	if err != nil {
		t.Fatal(err)
	}
	if at, err := Cosignature(b, witness); err != nil || at.Unix() != 1700000000 {
		t.Fatalf("cosigned at %v, %v", at, err)
	}
	if _, err := Cosignature(b, peer); err == nil {
		t.Error("another witness's cosignature was found")
	}
	if got, err := ParseHead(b, testRun, peer); err != nil || got.Root != h.Root {
		t.Errorf("a cosigned note is no head: %v", err)
	}
	vkey, err := note.NewEd25519VerifierKey(WitnessName(witness), witness[:])
	if err != nil {
		t.Fatal(err)
	}
	v, err := fnote.NewVerifierForCosignatureV1(vkey)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := note.Open(b, note.VerifierList(v)); err != nil {
		t.Errorf("the formats library refuses the cosignature: %v", err)
	}
	// What was cosigned is durable before it is signed.
	kv.fail = func() string { return "before" }
	if _, err := hs.Cosign(peer, h); !errors.Is(err, errDisk) {
		t.Fatalf("cosigned without a durable state: %v", err)
	}
	kv.fail = nil
	delete(kv.m, string(peerKey(peerHeadKey, peer))) // a store that lost the head but not what was witnessed
	fork := open(t, newMemKV(), testKey(1))
	if _, err := fork.Append(t.Context(), []wire.EntryBody{body(77)}); err != nil {
		t.Fatal(err)
	}
	hs = openHeads(t, kv, testKey(9))
	if fresh, err := hs.Offer(peer, fork.Head(), nil); h.Size > 1 && (fresh || err != nil) {
		t.Fatalf("a smaller head after a bigger that was cosigned: %v, %v", fresh, err)
	}
	hs.best[peer] = fork.Head()
	if _, err := hs.Cosign(peer, fork.Head()); h.Size > 1 && !errors.Is(err, ErrInconsistent) {
		t.Errorf("cosigned a smaller head after a bigger: %v", err)
	}
}
