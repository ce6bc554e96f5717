package tensorops

// M rows, N columns, K depth of a matrix product.

import "github.com/apiary-net/hived/tensorops/num"

// kcMax bounds a block of K.
const kcMax = 384

// kcOf returns the length of K's blocks; it depends on K only, so that every
// instruction set and thread count adds in the same order.
func kcOf(k int) int {
	blocks := (k + kcMax - 1) / kcMax
	if blocks == 0 {
		return 32
	}
	return ((k+blocks-1)/blocks + 31) / 32 * 32
}

// reference computes in plain Go; its methods are the meaning of the kernels.
type reference struct{}

// gemm sets c[i,j], or adds to it, block by block of K ascending:
//
//	for each block { s = +0; for p in block { s = fma(a(i,p), b(j,p), s) }; c = c + s }
//
// where without add the first block is stored. Then what e says.
func (r reference) gemm(m, n, k int, a, b mat, c []float32, ldc int, add bool, e finish) {
	kc := kcOf(k)
	s := make([]float32, n)
	bt := make([]float32, min(kc, k)*n)
	for p0 := 0; p0 < k; p0 += kc {
		p1 := min(k, p0+kc)
		for p := p0; p < p1; p++ {
			for j := range n {
				bt[(p-p0)*n+j] = b.p[j*b.ls+p*b.ds]
			}
		}
		for i := range m {
			clear(s)
			for p := p0; p < p1; p++ {
				x := a.p[i*a.ls+p*a.ds]
				for j, y := range bt[(p-p0)*n:][:n] {
					s[j] = num.Fma32(x, y, s[j])
				}
			}
			row := c[i*ldc:][:n]
			for j, f := range s {
				if add || p0 > 0 {
					f = row[j] + f
				}
				row[j] = f
			}
		}
	}
	if e.bias != nil {
		addBias(m, n, c, ldc, e.bias, e.relu)
	}
	for i := range m {
		row := c[i*ldc:][:n]
		if e.gelu != nil {
			r.geluForward(row, e.gelu[i*ldc:][:n])
		}
		if e.slope != nil {
			r.geluBackward(e.slope[i*ldc:][:n], row, row)
		}
	}
}

// gemmBF16 is gemm with operands rounded to bfloat16. The order of the sums is not
// part of its meaning: kernels agree with it to rounding only.
func (r reference) gemmBF16(m, n, k int, a, b mat, c []float32, ldc int, add bool, e finish) {
	r.gemm(m, n, k, round16(m, k, a), round16(n, k, b), c, ldc, add, e)
}

func round16(lanes, depth int, x mat) mat {
	p := make([]float32, lanes*depth)
	for i := range lanes {
		for d := range depth {
			p[i*depth+d] = num.FromBF16(num.ToBF16(x.p[i*x.ls+d*x.ds]))
		}
	}
	return mat{p, depth, 1}
}

func addBias(m, n int, c []float32, ldc int, bias []float32, relu bool) {
	for i := range m {
		row := c[i*ldc:][:n]
		for j := range row {
			row[j] += bias[j]
			if relu && !(row[j] > 0) {
				row[j] = 0
			}
		}
	}
}

// columns adds to y the column sums of x [n,c]: chunks of 64 rows, each summed
// from +0, are added ascending.
func (reference) columns(n, c int, x, y []float32) {
	for j := range c {
		for r0 := 0; r0 < n; r0 += chunk {
			s := float32(0)
			for r := r0; r < min(n, r0+chunk); r++ {
				s += x[r*c+j]
			}
			y[j] += s
		}
	}
}
