package num

import "math"

// Fma32 returns a*b + c rounded once to float32, as the hardware instruction
// does, for finite arguments. It is the meaning of every fma in a kernel
// comment. The product of two float32 is exact in float64; the sum is rounded
// to odd there, so that the second rounding, to float32, cannot go wrong
// (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
func Fma32(a, b, c float32) float32 {
	p := float64(float64(a) * float64(b)) // never fused with what follows
	z := float64(c)
	s := p + z
	t := s - p
	e := (p - (s - t)) + (z - t)
	if e == 0 {
		return float32(s)
	}
	return roundOdd(s, e)
}

// roundOdd rounds s+e, where s = RNE(s+e) and e is the exact error, first to
// odd in float64 and then to float32.
func roundOdd(s, e float64) float32 {
	u := math.Float64bits(s)
	if u&1 == 0 && (e > 0 || e < 0) {
		if (e > 0) == (s > 0) {
			u++
		} else {
			u--
		}
	}
	return float32(math.Float64frombits(u))
}
