package wire

import (
	"bytes"
	"reflect"
	"testing"
)

// FuzzNouns decodes bytes as each noun, in any encoding. What comes of it has one
// canonical form, is no larger in memory than its bytes allow, and is refused or
// taken in that form alone.
func FuzzNouns(f *testing.F) {
	all := samples()
	for i, n := range all {
		f.Add(uint8(i), Marshal(n.value))
	}
	f.Fuzz(func(t *testing.T, i uint8, b []byte) {
		n := all[int(i)%len(all)]
		v := n.fresh()
		if UnmarshalAny(b, v, MaxMessage) != nil {
			return
		}
		if size := sizeOf(reflect.ValueOf(v)); size > 64*len(b)+4096 {
			t.Errorf("%s: %d bytes become %d in memory", n.name, len(b), size)
		}
		one, strict := Marshal(v), n.fresh()
		if again := n.fresh(); UnmarshalAny(one, again, 2*MaxMessage) != nil || !bytes.Equal(Marshal(again), one) {
			t.Errorf("%s: the canonical form %x is another value", n.name, one)
		}
		if Unmarshal(b, strict, MaxMessage) == nil && !bytes.Equal(one, b) {
			t.Errorf("%s: %x is accepted and encodes as %x", n.name, b, one)
		}
	})
}

// sizeOf is about what a noun takes in memory.
func sizeOf(v reflect.Value) int {
	n := int(v.Type().Size())
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			n += sizeOf(v.Elem())
		}
	case reflect.String:
		n += v.Len()
	case reflect.Slice:
		for i := range v.Len() {
			n += sizeOf(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n += sizeOf(v.Field(i)) - int(v.Field(i).Type().Size())
		}
	}
	return n
}

// FuzzOpen opens envelopes; only the two that were signed may open.
func FuzzOpen(f *testing.F) {
	g := sampleGenesis()
	for _, e := range []Envelope{Seal(keyN(0), KindHeader, digestN(0), 7, sampleHeader()), Seal(keyN(0), KindGenesis, RunID{}, 0, &g)} {
		f.Add(e.Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := Open(b)
		if _, _, gerr := OpenGenesis(b); gerr == nil && err != nil && len(b) <= MaxMessage {
			t.Errorf("a genesis that is no envelope: %v", err)
		}
		if err == nil && !bytes.Equal(e.Bytes(), b) {
			t.Errorf("%x opens and encodes as %x", b, e.Bytes())
		}
	})
}

// FuzzEntry opens entries of a log.
func FuzzEntry(f *testing.F) {
	f.Add(SealEntry(keyN(0), EntryBody{Kind: EntryStart, Ref: cidN(1)}))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := OpenEntry(b)
		if err == nil && e.V != 1 {
			t.Errorf("an entry of version %d", e.V)
		}
	})
}

// FuzzText parses text forms; what is accepted prints as it was, but for the
// case of hex digits and other bases of CIDs.
func FuzzText(f *testing.F) {
	f.Add(keyN(0).Peer().String())
	f.Add(RawCID(nil).String())
	f.Add(digestN(0).String())
	f.Fuzz(func(t *testing.T, s string) {
		if p, err := ParsePeer(s); err == nil && p.String() != s {
			t.Errorf("peer %q prints as %q", s, p)
		}
		if c, err := ParseCID(s); err == nil {
			if again, err := ParseCID(c.String()); err != nil || again != c {
				t.Errorf("cid %q prints as %q: %v", s, c, err)
			}
		}
		if d, err := ParseDigest(s); err == nil && len(s) != 64 {
			t.Errorf("digest %q is %s", s, d)
		}
	})
}

// FuzzSchema: a schema that is accepted is small enough to be laid out.
func FuzzSchema(f *testing.F) {
	f.Add(Marshal(Schema{{Name: "a", Shape: []uint32{3, 4}}, {Name: "b", Shape: []uint32{2}, Buffer: true}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s Schema
		if Unmarshal(b, &s, MaxMessage) != nil || s.Check() != nil {
			return
		}
		if n := s.Params() + s.Buffers(); n < len(s) || uint64(n) > maxValues {
			t.Errorf("%d values in %d tensors", n, len(s))
		}
	})
}
