package num

// BiasCorrection returns 1/(1-beta^t) rounded once to float32; the power is taken
// by squaring in float64, so it has the same bits everywhere. t counts from 1;
// without decay (beta 0) it is 1 for any t.
func BiasCorrection(beta float32, t uint64) float32 {
	if beta == 0 {
		return 1
	}
	p, b := 1.0, float64(beta)
	for ; t > 0; t >>= 1 {
		if t&1 == 1 {
			p = float64(p * b)
		}
		b = float64(b * b)
	}
	return float32(1 / (1 - p))
}
