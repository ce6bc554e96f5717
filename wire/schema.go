package wire

import (
	"errors"
	"fmt"
)

// Limits of a model.
const (
	maxTensors    = 1 << 14
	maxTensorName = 200
	maxDims       = 8
	maxValues     = 1 << 36
)

// Tensor names one tensor of the model's state: row-major float32.
type Tensor struct {
	_      struct{} `cbor:",toarray"`
	Name   string
	Shape  []uint32
	Buffer bool // state that is neither parameter nor gradient, such as running statistics
}

// Len returns the number of values.
func (t Tensor) Len() int {
	n := 1
	for _, d := range t.Shape {
		n *= int(d)
	}
	return n
}

// Schema lists a model's tensors in the byte order of their names. The flat
// vector of parameters is all tensors that are no buffers, one behind the other
// in this order; the flat vector of buffers is the others.
type Schema []Tensor

// Check reports the first way in which s is not a schema.
func (s Schema) Check() error {
	if len(s) == 0 || len(s) > maxTensors {
		return fmt.Errorf("schema of %d tensors, want 1 to %d", len(s), maxTensors)
	}
	total := uint64(0)
	for i, t := range s {
		if t.Name == "" || len(t.Name) > maxTensorName {
			return fmt.Errorf("tensor %d: name of %d bytes, want 1 to %d", i, len(t.Name), maxTensorName)
		}
		if i > 0 && s[i-1].Name >= t.Name {
			return fmt.Errorf("tensor %q: out of name order or given twice", t.Name)
		}
		if len(t.Shape) > maxDims {
			return fmt.Errorf("tensor %q: %d dimensions, limit %d", t.Name, len(t.Shape), maxDims)
		}
		n := uint64(1)
		for _, d := range t.Shape {
			if d == 0 {
				return fmt.Errorf("tensor %q: a dimension is zero", t.Name)
			}
			if n > maxValues/uint64(d) { // before the product, which could wrap
				return fmt.Errorf("tensor %q: more than %d values", t.Name, uint64(maxValues))
			}
			n *= uint64(d)
		}
		if total += n; total > maxValues {
			return errors.New("schema holds too many values")
		}
	}
	return nil
}

// Params returns the length of the flat parameter vector.
func (s Schema) Params() int { return s.count(false) }

// Buffers returns the length of the flat buffer vector.
func (s Schema) Buffers() int { return s.count(true) }

func (s Schema) count(buffer bool) int {
	n := 0
	for _, t := range s {
		if t.Buffer == buffer {
			n += t.Len()
		}
	}
	return n
}

// Digest names the schema.
func (s Schema) Digest() Digest { return Sum(Marshal(s)) }

// FirstDifference says in words where two schemas part, or "" if they do not.
func (s Schema) FirstDifference(o Schema) string {
	for i := range max(len(s), len(o)) {
		switch {
		case i >= len(s):
			return fmt.Sprintf("tensor %q exists only there", o[i].Name)
		case i >= len(o):
			return fmt.Sprintf("tensor %q exists only here", s[i].Name)
		case s[i].Name != o[i].Name:
			return fmt.Sprintf("tensor %d is %q here and %q there", i, s[i].Name, o[i].Name)
		case fmt.Sprint(s[i].Shape) != fmt.Sprint(o[i].Shape):
			return fmt.Sprintf("tensor %q is %v here and %v there", s[i].Name, s[i].Shape, o[i].Shape)
		case s[i].Buffer != o[i].Buffer:
			return fmt.Sprintf("tensor %q is a buffer on one side only", s[i].Name)
		}
	}
	return ""
}

// Part is a run of values of one tensor in the flat parameter vector: the unit
// of norms, clips, transfers and merges, the same under every topology.
type Part struct {
	Tensor int // index into the schema
	Lo, Hi int // half-open, in values of the flat parameter vector
}

// Parts cuts the parameter vector: each tensor into runs of at most partValues
// values. partValues is a multiple of the codec's chunk, so a part is made of
// whole chunks except at its tensor's end.
func (s Schema) Parts(partValues int) []Part {
	var parts []Part
	off := 0
	for i, t := range s {
		if t.Buffer {
			continue
		}
		n := t.Len()
		for lo := 0; lo < n; lo += partValues {
			parts = append(parts, Part{i, off + lo, off + min(lo+partValues, n)})
		}
		off += n
	}
	return parts
}
