package wire

import (
	"encoding/binary"
	"errors"
	"slices"
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
	r := newMemory[Digest, int](most)
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

// The same slice is opened once; an equal one elsewhere, or a part of it, is another.
func TestOnceKnowsASliceByItsPlace(t *testing.T) {
	opened := 0
	open := func(b []byte) (*int, error) {
		opened++
		n := len(b)
		return &n, nil
	}
	b := []byte{1, 2, 3}
	for _, c := range []struct {
		b    []byte
		want int // openings so far
	}{{b, 1}, {b, 1}, {slices.Clone(b), 2}, {b[:2], 3}, {b[:2], 3}, {nil, 4}, {nil, 5}} {
		if n, err := Once(c.b, open); err != nil || *n != len(c.b) || opened != c.want {
			t.Errorf("%v: %d bytes after %d openings, want %d, error %v", c.b, *n, opened, c.want, err)
		}
	}
	fails := func([]byte) (*int, error) { opened++; return nil, errors.New("no") }
	for range 2 {
		if _, err := Once(b[1:], fails); err == nil {
			t.Error("an error was taken for a value")
		}
	}
	if opened != 7 {
		t.Errorf("%d openings, want 7: an error is not remembered", opened)
	}
}
