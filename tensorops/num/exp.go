package num

import "math"

// Limits and coefficients of Exp32; the kernels of tensorops/cpu hold the same.
const (
	expHigh  = float32(88)
	expLow   = float32(-87)
	log2e    = float32(1.44269504)
	roundBig = float32(12582912) // 1.5 * 2^23: adding it rounds to an integer
	ln2High  = float32(0.693359375)
	ln2Low   = float32(-2.12194440e-4)
)

// Exp32 returns e^x within 2 units in the last place, with x clamped to
// [-87, 88]: the result is always a finite normal number. The polynomial is
// that of the Cephes library (S. Moshier, expf), evaluated by fused operations.
func Exp32(x float32) float32 {
	if !(x < expHigh) {
		x = expHigh
	}
	if !(x > expLow) {
		x = expLow
	}
	t := Fma32(x, log2e, roundBig)
	n := int32(math.Float32bits(t)) - 0x4B400000
	t -= roundBig
	r := Fma32(t, -ln2High, x)
	r = Fma32(t, -ln2Low, r)
	y := float32(1.9875691500e-4)
	y = Fma32(y, r, 1.3981999507e-3)
	y = Fma32(y, r, 8.3334519073e-3)
	y = Fma32(y, r, 4.1665795894e-2)
	y = Fma32(y, r, 1.6666665459e-1)
	y = Fma32(y, r, 5.0000001201e-1)
	y = Fma32(y, float32(r*r), r) + 1
	return math.Float32frombits(uint32(int32(math.Float32bits(y)) + n<<23))
}
