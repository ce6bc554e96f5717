package codec

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/apiary-net/hived/tensorops/num"
)

// int8Codec sends for each chunk of 4,096 values (the last may be shorter) a
// float32 scale, +0 or positive, then a signed byte in [-127, 127] a value; a value
// is float32(q*scale). With scale +0 every byte is 0.
type int8Codec struct{ single }

// maxInt8 bounds what is encoded, so that 127*scale cannot overflow.
const maxInt8 = float32(0x1p127)

const roundBig = float32(12582912) // 1.5 * 2^23: adding it rounds to an integer

func (int8Codec) Spec() Spec        { return Spec{"int8", Chunk} }
func (int8Codec) MaxSize(n int) int { return n + (n+Chunk-1)/Chunk*4 }

func (c int8Codec) Encode(st *State, phase int, dst []byte, x []float32) ([]byte, error) {
	if err := check(st, phase, x); err != nil {
		return dst, err
	}
	res := residual(st)
	dst = slices.Grow(dst, c.MaxSize(len(x)))
	var e [Chunk]float32
	for lo := 0; lo < len(x); lo += Chunk {
		n := min(Chunk, len(x)-lo)
		top := float32(0)
		for i := range n {
			e[i] = target(x, res, lo+i, maxInt8)
			top = max(top, e[i], -e[i])
		}
		scale := top / 127
		inv := 1 / scale
		if !num.Finite(inv) { // the chunk is zero or all but zero
			scale, inv = 0, 0
		}
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(scale))
		for i, f := range e[:n] {
			t := float32(f*inv) + roundBig
			q := min(max(int32(math.Float32bits(t))-0x4B400000, -127), 127)
			if res != nil {
				res[lo+i] = f - float32(float32(q)*scale)
			}
			dst = append(dst, byte(int8(q)))
		}
	}
	return dst, nil
}

func (c int8Codec) Decode(phase int, y []float32, b []byte) error {
	if err := open(c, phase, y, b); err != nil {
		return err
	}
	for lo := 0; lo < len(y); lo += Chunk {
		n := min(Chunk, len(y)-lo)
		bits := binary.LittleEndian.Uint32(b)
		scale := math.Float32frombits(bits)
		if !num.Finite(scale) || !num.Finite(float32(127*scale)) {
			return fmt.Errorf("decode scale of chunk %d: %w", lo/Chunk, ErrNotFinite)
		}
		if bits>>31 != 0 {
			return fmt.Errorf("decode scale of chunk %d, %v: %w", lo/Chunk, scale, ErrCanonical)
		}
		for i, q := range b[4 : 4+n] {
			if q == 0x80 || bits == 0 && q != 0 {
				return fmt.Errorf("decode value %d, %d at scale %v: %w", lo+i, int8(q), scale, ErrCanonical)
			}
			y[lo+i] = float32(float32(int8(q)) * scale)
		}
		b = b[4+n:]
	}
	return nil
}
