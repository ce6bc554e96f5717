package num

// CosPi returns cos(pi*x) for x in [0, 1] in float64, within 1e-15, from its
// Taylor series on [0, 1/4] and the symmetries of the circle. Arguments
// outside are clamped.
func CosPi(x float64) float64 {
	if !(x > 0) {
		return 1
	}
	if x >= 1 {
		return -1
	}
	if x > 0.5 {
		return -CosPi(1 - x)
	}
	if x > 0.25 {
		return sinPi(0.5 - x)
	}
	t := float64(x * pi)
	z := float64(t * t)
	y := 0.0
	for k := 18; k >= 2; k -= 2 {
		y = float64((1 - y) * z / float64(k*(k-1)))
	}
	return 1 - y
}

const pi = 3.141592653589793

// sinPi returns sin(pi*x) for x in [0, 1/4].
func sinPi(x float64) float64 {
	t := float64(x * pi)
	z := float64(t * t)
	y := 0.0
	for k := 19; k >= 3; k -= 2 {
		y = float64((1 - y) * z / float64(k*(k-1)))
	}
	return float64(t * (1 - y))
}

// Cosine returns the cosine schedule's factor after step of total steps:
// floor + (1-floor)*(1+cos(pi*step/total))/2, rounded once to float32. A total
// of 0 gives 1.
func Cosine(step, total uint64, floor float64) float32 {
	if total == 0 {
		return 1
	}
	if step > total {
		step = total
	}
	c := float64(0.5 * (1 + CosPi(float64(step)/float64(total))))
	return float32(floor + float64((1-floor)*c))
}
