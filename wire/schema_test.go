package wire

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestSchemaChecks(t *testing.T) {
	good := Schema{{Name: "a", Shape: []uint32{3, 4}}, {Name: "b", Shape: []uint32{}}, {Name: "c", Shape: []uint32{5}, Buffer: true}}
	if err := good.Check(); err != nil || good.Params() != 13 || good.Buffers() != 5 {
		t.Fatalf("%v, %d parameters, %d buffers", err, good.Params(), good.Buffers())
	}
	many := make(Schema, maxTensors+1)
	for i := range many {
		many[i] = Tensor{Name: fmt.Sprintf("%06d", i), Shape: []uint32{1}}
	}
	for what, s := range map[string]Schema{
		"nothing":             {},
		"too many tensors":    many,
		"no name":             {{Name: "", Shape: []uint32{1}}},
		"a long name":         {{Name: strings.Repeat("n", maxTensorName+1), Shape: []uint32{1}}},
		"a name twice":        {{Name: "a", Shape: []uint32{1}}, {Name: "a", Shape: []uint32{1}}},
		"names out of order":  {{Name: "b", Shape: []uint32{1}}, {Name: "a", Shape: []uint32{1}}},
		"nine dimensions":     {{Name: "a", Shape: []uint32{1, 1, 1, 1, 1, 1, 1, 1, 1}}},
		"an empty dimension":  {{Name: "a", Shape: []uint32{4, 0}}},
		"2^37 values":         {{Name: "a", Shape: []uint32{1 << 31, 1 << 6}}},
		"values that wrap":    {{Name: "a", Shape: []uint32{1 << 31, 4, 1 << 31}}},
		"wrap to a small one": {{Name: "a", Shape: []uint32{1 << 31, 2, math.MaxUint32, 2}}},
		"too many in all":     {{Name: "a", Shape: []uint32{1 << 30, 1 << 6}}, {Name: "b", Shape: []uint32{1}}},
	} {
		if err := s.Check(); err == nil {
			t.Errorf("a schema of %s is accepted", what)
		}
	}
}

// TestParts cuts random schemas and compares with one value at a time.
func TestParts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var s Schema
		for i := range 1 + rng.IntN(6) {
			s = append(s, Tensor{Name: string(rune('a' + i)), Shape: []uint32{1 + rng.Uint32N(50)}, Buffer: rng.IntN(4) == 0})
		}
		size := 1 + rng.IntN(20)
		type place struct{ tensor, part int }
		var want []place // of each value of the flat vector
		part := -1
		for i, tensor := range s {
			for j := range tensor.Len() {
				if tensor.Buffer {
					continue
				}
				if j%size == 0 {
					part++
				}
				want = append(want, place{i, part})
			}
		}
		var got []place
		for i, p := range s.Parts(size) {
			if p.Lo != len(got) || p.Hi <= p.Lo || p.Hi-p.Lo > size {
				t.Fatalf("part %d is %d to %d, expected to start at %d", i, p.Lo, p.Hi, len(got))
			}
			for range p.Hi - p.Lo {
				got = append(got, place{p.Tensor, i})
			}
		}
		if len(got) != len(want) || len(got) != s.Params() {
			t.Fatalf("%d values in parts, want %d", len(got), len(want))
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("value %d is in %v, want %v", i, got[i], want[i])
			}
		}
	}
}

func TestFirstDifference(t *testing.T) {
	base := Schema{{Name: "a", Shape: []uint32{2, 3}}, {Name: "b", Shape: []uint32{4}}}
	for want, other := range map[string]Schema{
		"":                                   {{Name: "a", Shape: []uint32{2, 3}}, {Name: "b", Shape: []uint32{4}}},
		`tensor "b" exists only here`:        {{Name: "a", Shape: []uint32{2, 3}}},
		`tensor "c" exists only there`:       append(Schema{base[0], base[1]}, Tensor{Name: "c"}),
		`tensor 1 is "b" here and "x" there`: {{Name: "a", Shape: []uint32{2, 3}}, {Name: "x", Shape: []uint32{4}}},
		`tensor "a" is [2 3] here and [3 2] there`: {{Name: "a", Shape: []uint32{3, 2}}, {Name: "b", Shape: []uint32{4}}},
		`tensor "b" is a buffer on one side only`:  {{Name: "a", Shape: []uint32{2, 3}}, {Name: "b", Shape: []uint32{4}, Buffer: true}},
	} {
		if got := base.FirstDifference(other); got != want {
			t.Errorf("difference %q, want %q", got, want)
		}
		if (base.Digest() == other.Digest()) != (want == "") {
			t.Errorf("digests and %q do not agree", want)
		}
	}
}

func TestSpans(t *testing.T) {
	if n := SpanLen([]Span{{Lo: 1, Hi: 3}, {Lo: 10, Hi: 20}}); n != 12 {
		t.Errorf("length %d, want 12", n)
	}
}
