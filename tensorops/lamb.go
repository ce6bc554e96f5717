package tensorops

import "math"

// lamb makes a step of You et al. 2020, "Large Batch Optimization for Deep
// Learning", algorithm 2, on one tensor: r = AdamW's direction + weight decay * p;
// p -= rate * |p|/|r| * r, the ratio being 1 where a norm is 0.
func (s *hostSession) lamb(p, m, v, g []float32, c coef) {
	r, decay, rate := s.extra[:len(p)], c[5], c[1]
	clear(r)
	c[1], c[5] = -1, 0 // from zero, a step of rate -1 is the direction
	s.k.adamw(r, m, v, g, &c)
	s.k.combine(decay, p, 1, r, r)
	a, b := math.Sqrt(s.k.sumSquares(p, s.part)), math.Sqrt(s.k.sumSquares(r, s.part))
	if a > 0 && b > 0 {
		rate = float32(float64(rate) * (a / b))
	}
	s.k.combine(-rate, r, 1, p, p)
}
