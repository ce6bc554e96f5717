package tensorops

import "fmt"

// DType is the type of a value's elements.
type DType uint8

// The element types.
const (
	F32 DType = iota
	I32
	BF16 // of products only, see Options.Compute
)

// Shape holds up to four dimensions, the outermost first; unused ones are 0.
type Shape [4]int

// Dims makes a Shape of one to four positive dimensions and panics otherwise.
func Dims(d ...int) Shape {
	var s Shape
	if len(d) == 0 || len(d) > len(s) {
		panic(fmt.Sprintf("tensorops: shape of %d dimensions", len(d)))
	}
	for i, n := range d {
		if n <= 0 {
			panic(fmt.Sprintf("tensorops: shape %v has a dimension below 1", d))
		}
		s[i] = n
	}
	return s
}

// Rank returns the number of dimensions.
func (s Shape) Rank() int {
	r := 0
	for r < len(s) && s[r] > 0 {
		r++
	}
	return r
}

// Size returns the number of elements.
func (s Shape) Size() int {
	n := 1
	for _, d := range s[:s.Rank()] {
		n *= d
	}
	return n
}

// Last returns the innermost dimension and the product of the others.
func (s Shape) Last() (rows, last int) {
	r := s.Rank()
	last = s[r-1]
	return s.Size() / last, last
}

// withLast returns s with another innermost dimension.
func (s Shape) withLast(n int) Shape {
	s[s.Rank()-1] = n
	return s
}

func (s Shape) String() string { return fmt.Sprint(s[:s.Rank()]) }
