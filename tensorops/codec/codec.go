package codec

import (
	"errors"
	"fmt"
	"math"
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
	Name  string // none, bf16, int8
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

// New returns the codec of that name: none, bf16 or int8.
func New(name string) (Codec, error) {
	switch name {
	case "none":
		return none{}, nil
	case "bf16":
		return bf16{}, nil
	case "int8":
		return int8Codec{}, nil
	}
	return nil, fmt.Errorf("find codec %q: have none, bf16, int8", name)
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
