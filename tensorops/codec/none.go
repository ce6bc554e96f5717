package codec

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/apiary-net/hived/tensorops/num"
)

// none sends float32 as they are, little-endian.
type none struct{ single }

func (none) Spec() Spec        { return Spec{"none", Chunk} }
func (none) MaxSize(n int) int { return 4 * n }

func (none) Encode(st *State, phase int, dst []byte, x []float32) ([]byte, error) {
	if err := check(st, phase, x); err != nil {
		return dst, err
	}
	res := residual(st)
	dst = slices.Grow(dst, 4*len(x))
	for i := range x {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(target(x, res, i, maxFloat)))
	}
	clear(res)
	return dst, nil
}

func (c none) Decode(phase int, y []float32, b []byte) error {
	if err := open(c, phase, y, b); err != nil {
		return err
	}
	for i := range y {
		f := math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		if !num.Finite(f) {
			return fmt.Errorf("decode value %d: %w", i, ErrNotFinite)
		}
		y[i] = f
	}
	return nil
}
