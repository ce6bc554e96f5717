package codec

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/apiary-net/hived/tensorops/num"
)

// bf16 sends bfloat16, rounded to nearest even by integers, little-endian.
type bf16 struct{ single }

func (bf16) Spec() Spec        { return Spec{"bf16", Chunk} }
func (bf16) MaxSize(n int) int { return 2 * n }

func (bf16) Encode(st *State, phase int, dst []byte, x []float32) ([]byte, error) {
	if err := check(st, phase, x); err != nil {
		return dst, err
	}
	res := residual(st)
	dst = slices.Grow(dst, 2*len(x))
	for i := range x {
		e := target(x, res, i, maxFloat)
		h := num.ToBF16(e)
		if res != nil {
			res[i] = e - num.FromBF16(h)
		}
		dst = binary.LittleEndian.AppendUint16(dst, h)
	}
	return dst, nil
}

func (c bf16) Decode(phase int, y []float32, b []byte) error {
	if err := open(c, phase, y, b); err != nil {
		return err
	}
	for i := range y {
		f := num.FromBF16(binary.LittleEndian.Uint16(b[2*i:]))
		if !num.Finite(f) {
			return fmt.Errorf("decode value %d: %w", i, ErrNotFinite)
		}
		y[i] = f
	}
	return nil
}
