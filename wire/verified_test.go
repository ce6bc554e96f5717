package wire

import (
	"encoding/binary"
	"testing"
)

// A signature that was found good is good again, and nothing else becomes good by it.
func TestRememberedSignatures(t *testing.T) {
	k, err := KeyFromSeed(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	msg := []byte("statement")
	sig := k.Sign("domain\n", msg)
	for range 2 {
		if !Verify(k.Peer(), "domain\n", msg, sig) {
			t.Fatal("a good signature is refused")
		}
	}
	for i := range sig {
		bad := append([]byte{}, sig...)
		bad[i] ^= 1
		if Verify(k.Peer(), "domain\n", msg, bad) {
			t.Fatalf("byte %d of the signature does not matter", i)
		}
	}
	other := k.Peer()
	other[3] ^= 1
	if Verify(other, "domain\n", msg, sig) || Verify(k.Peer(), "domain", msg, sig) || Verify(k.Peer(), "domain\n", []byte("statemenT"), sig) {
		t.Fatal("another key, domain or message is taken")
	}
}

// The memory is bounded, and what is asked for stays in it.
func TestRememberedIsBounded(t *testing.T) {
	const most = 1000
	r := newMemory[int](most)
	nth := func(i int) (d Digest) {
		binary.BigEndian.PutUint64(d[:], uint64(i))
		return d
	}
	for i := range 4 * most {
		r.add(nth(i), i, 1)
		if v, ok := r.get(nth(0)); !ok || v != 0 {
			t.Fatalf("forgotten after %d others, although it was asked for each time", i)
		}
	}
	if _, ok := r.get(nth(1)); ok || len(r.fresh)+len(r.old) > 2*most {
		t.Fatalf("%d and %d are remembered", len(r.fresh), len(r.old))
	}
}
