package tensorops

// R rows, C columns of a hidden matrix, S the smaller of the two.

import "math"

// Newton-Schulz coefficients and steps of Jordan et al. 2024, "Muon: An optimizer
// for hidden layers in neural networks".
const (
	muonA, muonB, muonC = float32(3.4445), float32(-4.7750), float32(2.0315)
	muonSteps           = 5
)

// matrix returns the rows and columns of a hidden parameter: outputs by the rest.
func (p *Param) matrix() (rows, cols int) {
	return p.Shape[0], p.Shape.Size() / p.Shape[0]
}

// muonFloats is the scratch of one step: two matrices and three squares.
func muonFloats(p Param) int {
	r, c := p.matrix()
	return 2*r*c + 3*min(r, c)*min(r, c)
}

// muon makes a step on one matrix: m = mu*m + (1-mu)*g; u = mu*m + (1-mu)*g; O =
// u made orthogonal by five Newton-Schulz steps; p = p*(1 - decay*rate) -
// boost*rate*0.2*sqrt(max(R, C))*O. The factor 0.2 gives steps the size of AdamW's
// (Liu et al. 2025, "Muon is scalable for LLM training", section 2.2).
func (s *hostSession) muon(o Optimizer, q *Param, p, m, g []float32, c *coef) {
	rows, cols := q.matrix()
	n, small := rows*cols, min(rows, cols)
	x, y := s.extra[:n], s.extra[n:2*n]
	share := float32((1 - o.Momentum) * c[0])
	s.k.combine(o.Momentum, m, share, g, m)
	s.k.combine(o.Momentum, m, share, g, y)
	inv := float32(1 / (math.Sqrt(s.k.sumSquares(y, s.part)) + 1e-7))
	s.k.combine(inv, y, 0, nil, x)
	for range muonSteps {
		s.newtonSchulz(rows, cols, small, x, y)
		x, y = y, x
	}
	rate := float64(o.Boost) * float64(c[1]) * 0.2 * math.Sqrt(float64(max(rows, cols)))
	s.k.combine(-float32(rate), x, 1-float32(c[5]*c[1]), p, p)
}

// newtonSchulz writes y = a*x + (b*A + c*A*A) x with A = x x', or the same of the
// transposes where x is tall.
func (s *hostSession) newtonSchulz(rows, cols, n int, x, y []float32) {
	sq := s.extra[2*rows*cols:]
	a, ca, b := sq[:n*n], sq[n*n:2*n*n], sq[2*n*n:3*n*n]
	square := mat{a, n, 1}
	if rows <= cols {
		s.k.gemm(n, n, cols, mat{x, cols, 1}, mat{x, cols, 1}, a, n, false, finish{})
	} else {
		s.k.gemm(n, n, rows, mat{x, 1, cols}, mat{x, 1, cols}, a, n, false, finish{})
	}
	s.k.combine(muonC, a, 0, nil, ca)
	s.k.combine(muonB, a, 0, nil, b)
	s.k.gemm(n, n, n, mat{ca, n, 1}, square, b, n, true, finish{})
	s.k.combine(muonA, x, 0, nil, y)
	if rows <= cols {
		s.k.gemm(n, cols, n, mat{b, n, 1}, mat{x, 1, cols}, y, cols, true, finish{})
	} else {
		s.k.gemm(rows, n, n, mat{x, cols, 1}, mat{b, 1, n}, y, cols, true, finish{})
	}
}
