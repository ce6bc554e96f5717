package num

import "math"

// maxBF16 is the largest finite bfloat16.
const maxBF16 = 0x7F7F

// ToBF16 rounds a finite f to bfloat16, nearest, ties to even, by integer
// arithmetic; denormals are kept; what would become infinite saturates.
func ToBF16(f float32) uint16 {
	u := math.Float32bits(f)
	h := (u + 0x7FFF + u>>16&1) >> 16
	if h&0x7FFF > maxBF16 {
		h = h&0x8000 | maxBF16
	}
	return uint16(h)
}

// FromBF16 returns the float32 that h stands for; exact.
func FromBF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// Finite reports whether f is neither infinite nor NaN.
func Finite(f float32) bool { return math.Float32bits(f)&0x7F800000 != 0x7F800000 }
