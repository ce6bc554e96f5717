package codec

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Chunk is how many values share one scale, and the unit in which vectors are cut.
const Chunk = 4096

// Errors that Decode and Encode wrap.
var (
	ErrLength    = errors.New("length does not fit")
	ErrNotFinite = errors.New("value is not finite")
	ErrCanonical = errors.New("not the canonical encoding")
	ErrPhase     = errors.New("no such phase")
)

// Spec describes a codec.
type Spec struct {
	Name  string // as a genesis gives it
	Chunk int    // values that are coded together; vectors are cut at multiples
}

// State is the error feedback of one peer. A nil Residual is none; otherwise it
// has the length of the vector.
type State struct{ Residual []float32 }

// Codec encodes and decodes vectors in Phases() exchanges, numbered from 0.
type Codec interface {
	Spec() Spec
	Phases() int
	// Encode appends the encoding of x, plus the residual where st has one, to
	// dst; the residual becomes what was lost. st may be nil. x is not changed.
	// After an error the residual is as before.
	Encode(st *State, phase int, dst []byte, x []float32) ([]byte, error)
	// Decode fills y from exactly the bytes of len(y) values; after an error y is
	// undefined.
	Decode(phase int, y []float32, b []byte) error
	// MaxSize returns the greatest number of bytes that n values take.
	MaxSize(n int) int
}

// codecs are all there are. A new one is a file and a place here; nothing else
// lists them.
var codecs = []Codec{none{}, bf16{}, int8Codec{}}

// Names returns the names of all codecs.
func Names() []string {
	var out []string
	for _, c := range codecs {
		out = append(out, c.Spec().Name)
	}
	return out
}

// New returns the codec of that name.
func New(name string) (Codec, error) {
	for _, c := range codecs {
		if c.Spec().Name == name {
			return c, nil
		}
	}
	return nil, fmt.Errorf("codec %q is not one of %s", name, strings.Join(Names(), ", "))
}

// single answers for codecs of one phase.
type single struct{}

func (single) Phases() int { return 1 }

// check refuses what no codec can encode.
func check(st *State, phase int, x []float32) error {
	if phase != 0 {
		return fmt.Errorf("encode in phase %d: %w", phase, ErrPhase)
	}
	if st != nil && st.Residual != nil && len(st.Residual) != len(x) {
		return fmt.Errorf("encode %d values with a residual of %d: %w", len(x), len(st.Residual), ErrLength)
	}
	for i, f := range x {
		if f != f {
			return fmt.Errorf("encode value %d: %w", i, ErrNotFinite)
		}
	}
	return nil
}

// open refuses bytes of the wrong length.
func open(c Codec, phase int, y []float32, b []byte) error {
	if phase != 0 {
		return fmt.Errorf("decode in phase %d: %w", phase, ErrPhase)
	}
	if want := c.MaxSize(len(y)); len(b) != want {
		return fmt.Errorf("decode %d values from %d bytes, want %d: %w", len(y), len(b), want, ErrLength)
	}
	return nil
}

// residual returns the residual slice of st, nil for none.
func residual(st *State) []float32 {
	if st == nil {
		return nil
	}
	return st.Residual
}

// target returns x[i] plus its residual, bounded by limit. A residual that is not
// finite counts as 0.
func target(x, res []float32, i int, limit float32) float32 {
	f := x[i]
	if res != nil {
		if r := res[i]; r-r == 0 {
			f += r
		}
	}
	return min(max(f, -limit), limit)
}

const maxFloat = float32(math.MaxFloat32)
