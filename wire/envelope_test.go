package wire

import (
	"bytes"
	"errors"
	"testing"
)

func TestSealOpen(t *testing.T) {
	k := keyN(0)
	e := Seal(k, KindHeader, digestN(0), 7, sampleHeader())
	got, err := Open(e.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if got.Kind != KindHeader || got.Run != digestN(0) || got.Round != 7 || got.Sender != k.Peer() || got.Digest() != Sum(e.Bytes()) {
		t.Errorf("opened %+v", got)
	}
	var h Header
	if err := got.Decode(&h); err != nil || h.Steps != 80 {
		t.Errorf("body: %+v, %v", h, err)
	}
	if n := len(e.Bytes()); n > MaxHeader {
		t.Errorf("a header of %d bytes, limit %d", n, MaxHeader)
	}
	if raw := Seal(k, KindVote, digestN(0), 1, []byte{0x80}); !bytes.Equal(raw.Body, []byte{0x80}) {
		t.Errorf("encoded bytes were encoded again: %x", raw.Body)
	}
}

// TestSignatureBinds moves a signed statement to another run, round, kind,
// sender, version or body.
func TestSignatureBinds(t *testing.T) {
	for what, f := range map[string]func(*Envelope){
		"version":   func(e *Envelope) { e.V = 2 },
		"kind":      func(e *Envelope) { e.Kind = KindAttest },
		"run":       func(e *Envelope) { e.Run = digestN(1) },
		"round":     func(e *Envelope) { e.Round++ },
		"sender":    func(e *Envelope) { e.Sender = keyN(1).Peer() },
		"body":      func(e *Envelope) { e.Body = append(bytes.Clone(e.Body), 0) },
		"signature": func(e *Envelope) { e.Sig = bytes.Repeat([]byte{1}, 64) },
		"no sig":    func(e *Envelope) { e.Sig = nil },
		"long sig":  func(e *Envelope) { e.Sig = append(bytes.Clone(e.Sig), 0) },
		"no sender": func(e *Envelope) { e.Sender = PeerID{} },
	} {
		e := Seal(keyN(0), KindHeader, digestN(0), 7, sampleHeader())
		f(&e)
		if _, err := Open(Marshal(e)); err == nil {
			t.Errorf("an envelope of another %s opens", what)
		} else if what != "version" && !errors.Is(err, ErrSignature) {
			t.Errorf("another %s: %v, want ErrSignature", what, err)
		}
	}
}

// TestEveryBitCounts flips each bit of an envelope.
func TestEveryBitCounts(t *testing.T) {
	b := Seal(keyN(0), KindLeave, digestN(0), 3, Leave{Reason: "bye"}).Bytes()
	for i := range len(b) * 8 {
		bad := bytes.Clone(b)
		bad[i/8] ^= 1 << (i % 8)
		if _, err := Open(bad); err == nil {
			t.Errorf("bit %d of %d does not count", i, 8*len(b))
		}
	}
}

// TestDomains: a signature made for one purpose is none for another.
func TestDomains(t *testing.T) {
	k := keyN(0)
	msg := []byte("the same bytes")
	domains := []string{envelopeDomain, entryDomain}
	for _, a := range domains {
		for _, b := range domains {
			if got := Verify(k.Peer(), b, msg, k.Sign(a, msg)); got != (a == b) {
				t.Errorf("signed for %q, verified for %q: %v", a, b, got)
			}
		}
	}
}

func TestEnvelopeLimits(t *testing.T) {
	big := Seal(keyN(0), KindProposal, digestN(0), 1, make([]byte, MaxMessage))
	if _, err := Open(big.Bytes()); err == nil {
		t.Error("an envelope above the limit of a topic opens")
	}
	if _, err := OpenBlock(big.Bytes()); err != nil {
		t.Errorf("as a block: %v", err)
	}
	if _, err := OpenBlock(Seal(keyN(0), KindProposal, digestN(0), 1, make([]byte, MaxRecord+MaxMessage)).Bytes()); err == nil {
		t.Error("an envelope above the limit of a block opens")
	}
}

func TestOpenGenesis(t *testing.T) {
	g := sampleGenesis()
	good := Seal(keyN(0), KindGenesis, RunID{}, 0, &g)
	got, id, err := OpenGenesis(good.Bytes())
	if err != nil || id != good.Digest() || got.Name != "demo" {
		t.Fatalf("%v, %v", id, err)
	}
	for what, e := range map[string]Envelope{
		"of another signer": Seal(keyN(1), KindGenesis, RunID{}, 0, &g),
		"of another kind":   Seal(keyN(0), KindReady, RunID{}, 0, &g),
		"inside a run":      Seal(keyN(0), KindGenesis, digestN(0), 0, &g),
		"of a round":        Seal(keyN(0), KindGenesis, RunID{}, 1, &g),
		"of no content":     Seal(keyN(0), KindGenesis, RunID{}, 0, []byte{}),
	} {
		if _, _, err := OpenGenesis(e.Bytes()); err == nil {
			t.Errorf("a genesis %s opens", what)
		}
	}
	a := Admission{Mode: "allow-list", Allow: peersN(2)}
	if !a.Admits(keyN(1).Peer()) || a.Admits(keyN(5).Peer()) || !(Admission{Mode: "open"}).Admits(keyN(5).Peer()) {
		t.Error("admission")
	}
}

// What RunOf reads without checking is what Open and decoding find.
func TestRunOf(t *testing.T) {
	run := Sum([]byte("run"))
	for _, kind := range []Kind{KindReady, KindVote, KindCosign, 200} {
		e := Seal(keyN(1), kind, run, 7, &Ready{Version: ManifestCID(nil)})
		if got, ok := RunOf(e.Bytes()); !ok || got != run {
			t.Errorf("kind %d: run %s, %v", kind, got.Short(), ok)
		}
	}
	if got, ok := RunOf(Marshal(Slice{Run: run, Round: 3, Data: []byte{1}})); !ok || got != run {
		t.Errorf("slice: run %s, %v", got.Short(), ok)
	}
	b := Marshal(Slice{Run: run})
	for n := range 36 {
		if _, ok := RunOf(b[:n]); ok && n < 35 {
			t.Errorf("%d bytes name a run", n)
		}
	}
}
