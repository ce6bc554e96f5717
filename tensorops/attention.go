package tensorops

// B batch, T time, H heads, D head width.

import (
	"fmt"

	"github.com/apiary-net/hived/tensorops/num"
)

// tile is the number of queries and of keys of an attention tile. Online softmax
// depends on tile borders, so they are fixed.
const tile = 64

// attnShape are the sizes, whether every position sees all (or those up to itself),
// and whether products round their operands to bfloat16.
type attnShape struct {
	b, t, h, d int
	full, bf16 bool
}

type attention struct {
	leaf
	s attnShape
}

// Attention returns multi-head attention softmax(q k'/sqrt(D)) v (Vaswani et al. 2017,
// section 3.2): qkv [B,T,3*H*D] (q, then k, then v, heads inside) to [B,T,H*D]. A
// causal one sees no position after its own. Tiles of 64 with online softmax (Dao et
// al., "FlashAttention", 2022, algorithm 1).
func (g *Graph) Attention(qkv V, heads int, causal bool) V {
	b, t, c3 := qkv.Shape[0], qkv.Shape[1], qkv.Shape[2]
	if qkv.Shape.Rank() != 3 || heads < 1 || c3%(3*heads) != 0 {
		panic(fmt.Sprintf("tensorops: attention of %v with %d heads", qkv.Shape, heads))
	}
	o := &attention{s: attnShape{b: b, t: t, h: heads, d: c3 / 3 / heads, full: !causal}}
	return g.apply(o, []V{qkv}, Dims(b, t, c3/3))[0]
}

func (o *attention) name() string        { return "attention" }
func (o *attention) aux() (int, int)     { return o.s.b * o.s.h * o.s.t * 2, 0 }
func (o *attention) reads() (uint, uint) { return 1, 1 }
func (o *attention) forward(k kernels, c *call) {
	k.attentionForward(o.s.in(c), c.in[0], c.out[0], c.keep)
}
func (o *attention) backward(k kernels, c *call) {
	k.attentionBackward(o.s.in(c), c.in[0], c.out[0], c.keep, c.dout[0], c.din[0])
}

// in returns s as c computes.
func (s attnShape) in(c *call) attnShape {
	s.bf16 = c.bf16
	return s
}

// limit returns how many of the keys from c0 on query row i sees.
func (s attnShape) limit(i, c0, keys int) int {
	if s.full {
		return keys
	}
	return max(0, min(keys, i+1-c0))
}

// gemm returns the product of tiles.
func (s attnShape) gemm(r reference) func(m, n, k int, a, b mat, c []float32, ldc int, add bool, e finish) {
	if s.bf16 {
		return r.gemmBF16
	}
	return r.gemm
}

func attnScale(d int) float32 { return 1 / sqrt32(float32(d)) }

// each calls f for the batch entries and heads with the offsets of q, y and stats.
func (s attnShape) each(f func(q, y, st int)) {
	c := s.h * s.d
	for b := range s.b {
		for h := range s.h {
			f(b*s.t*3*c+h*s.d, b*s.t*c+h*s.d, (b*s.h+h)*s.t*2)
		}
	}
}

// attentionForward: per query row a running maximum m, sum l and output o; for
// each tile of keys: s = q k' * scale, p = exp(s-m), o = o*exp(m_old-m) + p v.
func (r reference) attentionForward(s attnShape, qkv, y, stats []float32) {
	c, d, scale, gemm := s.h*s.d, s.d, attnScale(s.d), s.gemm(r)
	p := make([]float32, tile*tile)
	s.each(func(q0, y0, st int) {
		for r0 := 0; r0 < s.t; r0 += tile {
			rows := min(tile, s.t-r0)
			m, l, o := make([]float32, rows), make([]float32, rows), make([]float32, rows*d)
			for i := range m {
				m[i] = -1e30
			}
			for c0 := 0; c0 < s.t && s.limit(r0+rows-1, c0, tile) > 0; c0 += tile {
				keys := min(tile, s.t-c0)
				gemm(rows, keys, d, mat{qkv[q0+r0*3*c:], 3 * c, 1}, mat{qkv[q0+c+c0*3*c:], 3 * c, 1}, p, tile, false, finish{})
				for i := range rows {
					alpha := softmaxRow(p[i*tile:][:tile], s.limit(r0+i, c0, keys), scale, &m[i], &l[i])
					for e := range d {
						o[i*d+e] = float32(o[i*d+e] * alpha)
					}
				}
				gemm(rows, d, keys, mat{p, tile, 1}, mat{qkv[q0+2*c+c0*3*c:], 1, 3 * c}, o, d, true, finish{})
			}
			for i := range rows {
				inv := 1 / l[i]
				stats[st+2*(r0+i)], stats[st+2*(r0+i)+1] = m[i], inv
				for e := range d {
					y[y0+(r0+i)*c+e] = float32(o[i*d+e] * inv)
				}
			}
		}
	})
}

// softmaxRow turns scores into exp(s*scale - max), zero from limit on, and returns
// exp(old max - new max), by which older sums must be multiplied.
func softmaxRow(s []float32, limit int, scale float32, m, l *float32) float32 {
	old := *m
	for j := range limit {
		s[j] = float32(s[j] * scale)
		if s[j] > *m {
			*m = s[j]
		}
	}
	for j := range s {
		if j < limit {
			s[j] = num.Exp32(s[j] - *m)
		} else {
			s[j] = 0
		}
	}
	alpha := num.Exp32(old - *m)
	*l = float32(*l*alpha) + sumRow(s)
	return alpha
}

// attentionBackward: delta = sum dy*y; for each tile of keys, for each tile of
// queries that see them: p again from the row statistics, dv += p' dy, g = p*(dy v'
// - delta)*scale, dk += g' q, dq += g k.
func (r reference) attentionBackward(s attnShape, qkv, y, stats, dy, dqkv []float32) {
	c, d, scale, gemm := s.h*s.d, s.d, attnScale(s.d), s.gemm(r)
	p, g, delta := make([]float32, tile*tile), make([]float32, tile*tile), make([]float32, s.t)
	clear(dqkv)
	s.each(func(q0, y0, st int) {
		for i := range delta {
			delta[i] = dotRow(dy[y0+i*c:][:d], y[y0+i*c:][:d])
		}
		for c0 := 0; c0 < s.t; c0 += tile {
			keys := min(tile, s.t-c0)
			k0, v0 := q0+c+c0*3*c, q0+2*c+c0*3*c
			for r0 := 0; r0 < s.t; r0 += tile {
				rows := min(tile, s.t-r0)
				if s.limit(r0+rows-1, c0, keys) == 0 {
					continue
				}
				qr, yr := q0+r0*3*c, y0+r0*c
				gemm(rows, keys, d, mat{qkv[qr:], 3 * c, 1}, mat{qkv[k0:], 3 * c, 1}, p, tile, false, finish{})
				gemm(rows, keys, d, mat{dy[yr:], c, 1}, mat{qkv[v0:], 3 * c, 1}, g, tile, false, finish{})
				for i := range rows {
					at := st + 2*(r0+i)
					gradRow(p[i*tile:][:tile], g[i*tile:][:tile], s.limit(r0+i, c0, keys), scale, stats[at], stats[at+1], delta[r0+i])
				}
				gemm(keys, d, rows, mat{p, 1, tile}, mat{dy[yr:], 1, c}, dqkv[v0:], 3*c, true, finish{})
				gemm(keys, d, rows, mat{g, 1, tile}, mat{qkv[qr:], 1, 3 * c}, dqkv[k0:], 3*c, true, finish{})
				gemm(rows, d, keys, mat{g, tile, 1}, mat{qkv[k0:], 1, 3 * c}, dqkv[qr:], 3*c, true, finish{})
			}
		}
	})
}

// gradRow turns scores into probabilities and their gradients g into those of the
// scores.
func gradRow(p, g []float32, limit int, scale, m, inv, delta float32) {
	for j := range p {
		if j >= limit {
			p[j], g[j] = 0, 0
			continue
		}
		p[j] = float32(num.Exp32(float32(p[j]*scale)-m) * inv)
		g[j] = float32(float32(p[j]*(g[j]-delta)) * scale)
	}
}
