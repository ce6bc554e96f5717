package tensorops

// Row reductions: 32 lanes, lane j takes the elements i = j mod 32 ascending, rows
// are filled up with zeros (maxima: with their first element), then the lanes are
// halved 16, 8, 4, 2, 1. That is two AVX-512, four AVX2 or eight NEON registers.

import "github.com/apiary-net/hived/tensorops/num"

const lanes = 32

func halve(l *[lanes]float32) float32 {
	for h := lanes / 2; h > 0; h /= 2 {
		for j := range h {
			l[j] += l[j+h]
		}
	}
	return l[0]
}

// sumRow returns the sum of x.
func sumRow(x []float32) float32 {
	var l [lanes]float32
	for i := range (len(x) + lanes - 1) / lanes * lanes {
		f := float32(0)
		if i < len(x) {
			f = x[i]
		}
		l[i%lanes] += f
	}
	return halve(&l)
}

// dotRow returns the sum of x*y; each lane is a fused chain.
func dotRow(x, y []float32) float32 {
	var l [lanes]float32
	for i := range (len(x) + lanes - 1) / lanes * lanes {
		f, g := float32(0), float32(0)
		if i < len(x) {
			f, g = x[i], y[i]
		}
		l[i%lanes] = num.Fma32(f, g, l[i%lanes])
	}
	return halve(&l)
}

// maxRow returns the largest element.
func maxRow(x []float32) float32 {
	m := x[0]
	for _, f := range x {
		if f > m {
			m = f
		}
	}
	return m
}

// chunk is the number of rows of a chunk of a column reduction.
const chunk = 64

func chunks(n int) int { return (n + chunk - 1) / chunk }
