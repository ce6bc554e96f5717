package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

// TestRoundTrip decodes each noun's bytes and gets the value and the bytes back.
func TestRoundTrip(t *testing.T) {
	for _, n := range samples() {
		b := Marshal(n.value)
		got := n.fresh()
		if err := Unmarshal(b, got, MaxBlock); err != nil {
			t.Errorf("%s: %v", n.name, err)
			continue
		}
		if again := Marshal(got); !bytes.Equal(again, b) {
			t.Errorf("%s: encoded again it is %x, was %x", n.name, again, b)
		}
		if !equalButNil(reflect.ValueOf(got), reflect.ValueOf(n.value)) {
			t.Errorf("%s: decoded to %+v, want %+v", n.name, got, n.value)
		}
	}
}

// equalButNil is deep equality under which an empty slice is a nil one.
func equalButNil(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Pointer:
		return equalButNil(a.Elem(), b.Elem())
	case reflect.Struct:
		if a.Type() == reflect.TypeFor[CID]() {
			return a.Interface() == b.Interface()
		}
		for i := range a.NumField() {
			if a.Type().Field(i).IsExported() && !equalButNil(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !equalButNil(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	}
	return a.Interface() == b.Interface()
}

// TestOneEncoding damages the bytes of each noun in every way that keeps their
// meaning, or nearly: none is accepted.
func TestOneEncoding(t *testing.T) {
	for _, n := range samples() {
		b := Marshal(n.value)
		if b[0]>>5 != 4 {
			t.Fatalf("%s is no array", n.name)
		}
		count := int(b[0] & 0x1f)
		head := 1
		if count == 24 {
			count, head = int(b[1]), 2
		}
		rest := b[head:]
		for what, bad := range map[string][]byte{
			"trailing byte":          append(bytes.Clone(b), 0),
			"last byte missing":      b[:len(b)-1],
			"nothing":                {},
			"count in two bytes":     append([]byte{0x99, 0, byte(count)}, rest...),
			"count in eight bytes":   append([]byte{0x9b, 0, 0, 0, 0, 0, 0, 0, byte(count)}, rest...),
			"indefinite length":      append(append([]byte{0x9f}, rest...), 0xff),
			"tag before":             append([]byte{0xc1}, b...),
			"self-described":         append([]byte{0xd9, 0xd9, 0xf7}, b...),
			"one element too few":    append([]byte{0x80 | byte(count-1)}, rest...),
			"one element too many":   append([]byte{0x98, byte(count + 1)}, append(bytes.Clone(rest), 0)...),
			"a map with the content": append([]byte{0xb8, byte(count)}, rest...),
			"twice":                  append(bytes.Clone(b), b...),
		} {
			if count > 23 && what == "one element too few" {
				continue // that head would say something else
			}
			if err := Unmarshal(bad, n.fresh(), MaxBlock); err == nil {
				t.Errorf("%s: %s is accepted", n.name, what)
			}
		}
		if err := Unmarshal(b, n.fresh(), len(b)-1); err == nil {
			t.Errorf("%s: the limit on bytes is not kept", n.name)
		}
	}
}

// TestCanonicalForms decodes hand-written bytes of small values.
func TestCanonicalForms(t *testing.T) {
	dec := func(h string, v any) error {
		b, err := hex.DecodeString(strings.ReplaceAll(h, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		return Unmarshal(b, v, MaxBlock)
	}
	for _, c := range []struct {
		what, hex string
		v         any
		ok        bool
	}{
		{"span", "82 01 02", &Span{}, true},
		{"number in two bytes", "82 18 01 02", &Span{}, false},
		{"negative number", "82 20 02", &Span{}, false},
		{"float for a number", "82 f93c00 02", &Span{}, false},
		{"null for a number", "82 f6 02", &Span{}, false},
		{"undefined", "82 f7 02", &Span{}, false},
		{"bignum", "82 c24101 02", &Span{}, false},
		{"text", "81 61 61", &Leave{}, true},
		{"text in two pieces", "81 7f 6161 6162 ff", &Leave{}, false},
		{"text that is no UTF-8", "81 61 ff", &Leave{}, false},
		{"bytes for text", "81 41 61", &Leave{}, false},
		{"text that says 2^63 bytes", "81 7b 8000000000000000", &Leave{}, false},
		{"array that says 2^32 elements", "9a ffffffff 61", &Leave{}, false},
		{"deadline", "83 01 02 03", &Deadline{}, true},
		{"number above 32 bits", "83 01 02 1b 0000000100000000", &Deadline{}, false},
		{"cadence", "82 f5 01", &Cadence{}, true},
		{"number for a bool", "82 01 01", &Cadence{}, false},
	} {
		if err := dec(c.hex, c.v); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	// The shortest float that holds the value is its only form.
	type one struct {
		_ struct{} `cbor:",toarray"`
		F float32
	}
	for h, want := range map[string]bool{"81 f93c00": true, "81 fa3f800000": false, "81 fb3ff0000000000000": false, "81 fa3f8ccccd": true, "81 f97e00": true, "81 f97e01": false} {
		if err := dec(h, &one{}); (err == nil) != want {
			t.Errorf("float %s: %v", h, err)
		}
	}
	err := dec("82 18 01 02", &Span{})
	if !errors.Is(err, ErrNotCanonical) {
		t.Errorf("a long form gives %v, want ErrNotCanonical", err)
	}
	if b := Marshal([]Span(nil)); !bytes.Equal(b, []byte{0x80}) {
		t.Errorf("no spans encode as %x", b)
	}
	if b := Marshal(struct {
		_ struct{} `cbor:",toarray"`
		F float32
	}{F: float32(math.Copysign(0, -1))}); !bytes.Equal(b, []byte{0x81, 0xf9, 0x80, 0}) {
		t.Errorf("-0 encodes as %x", b)
	}
}

// TestNesting refuses arrays in arrays in arrays.
func TestNesting(t *testing.T) {
	deep := append(bytes.Repeat([]byte{0x81}, 5000), 0x80)
	for _, n := range samples() {
		if Unmarshal(deep, n.fresh(), MaxBlock) == nil {
			t.Errorf("%s: 5,000 arrays in one another are accepted", n.name)
		}
	}
}
