package num

import "math"

// Log returns the natural logarithm of a positive, finite, normal x in float64
// within 2 units in the last place: x = m*2^e with m in [sqrt(1/2), sqrt(2)),
// log m = 2 atanh((m-1)/(m+1)) by its series. Other arguments give NaN.
func Log(x float64) float64 {
	u := math.Float64bits(x)
	if !(x >= 0x1p-1022) || u >= 0x7FF0000000000000 {
		return math.NaN()
	}
	e := int(u>>52) - 1023
	m := math.Float64frombits(u&0x000FFFFFFFFFFFFF | 0x3FF0000000000000)
	if m > 1.4142135623730951 {
		m *= 0.5
		e++
	}
	s := (m - 1) / (m + 1)
	z := float64(s * s)
	p := 0.0
	for k := 23; k >= 3; k -= 2 {
		p = float64((p + 1/float64(k)) * z)
	}
	d := float64(e)
	return float64(d*0.6931471803691238) + (float64(d*1.9082149292705877e-10) + float64(2*s*(1+p)))
}
