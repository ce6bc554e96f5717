package num

import "slices"

// LowerMedian returns the element of rank (n-1)/2 of x, n = len(x), and 0 for
// an empty x. x is not changed and must hold no NaN.
func LowerMedian(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	s := slices.Clone(x)
	slices.Sort(s)
	return s[(len(s)-1)/2]
}
