package tensorops

// B batch, T time, H heads, D head width.

import (
	"fmt"

	"github.com/apiary-net/hived/tensorops/num"
)

// tile is the number of queries and of keys of an attention tile. Online softmax
// depends on tile borders, so they are fixed.
const tile = 64

type attnShape struct{ b, t, h, d int }

type attention struct {
	leaf
	s attnShape
}

// Attention returns causal multi-head attention softmax(q k'/sqrt(D)) v: qkv
// [B,T,3*H*D] (q, then k, then v, heads inside) to [B,T,H*D]. Tiles of 64 with
// online softmax (Dao et al., "FlashAttention", 2022, algorithm 1).
func (g *Graph) Attention(qkv V, heads int) V {
	b, t, c3 := qkv.Shape[0], qkv.Shape[1], qkv.Shape[2]
	if qkv.Shape.Rank() != 3 || heads < 1 || c3%(3*heads) != 0 {
		panic(fmt.Sprintf("tensorops: attention of %v with %d heads", qkv.Shape, heads))
	}
	o := &attention{s: attnShape{b, t, heads, c3 / 3 / heads}}
	return g.apply(o, []V{qkv}, Dims(b, t, c3/3))[0]
}

func (o *attention) name() string               { return "attention" }
func (o *attention) aux() (int, int)            { return o.s.b * o.s.h * o.s.t * 2, 0 }
func (o *attention) reads() (uint, uint)        { return 1, 1 }
func (o *attention) forward(k kernels, c *call) { k.attentionForward(o.s, c.in[0], c.out[0], c.keep) }
func (o *attention) backward(k kernels, c *call) {
	k.attentionBackward(o.s, c.in[0], c.out[0], c.keep, c.dout[0], c.din[0])
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
	c, d, scale := s.h*s.d, s.d, attnScale(s.d)
	p := make([]float32, tile*tile)
	s.each(func(q0, y0, st int) {
		for r0 := 0; r0 < s.t; r0 += tile {
			rows := min(tile, s.t-r0)
			m, l, o := make([]float32, rows), make([]float32, rows), make([]float32, rows*d)
			for i := range m {
				m[i] = -1e30
			}
			for c0 := 0; c0 <= r0; c0 += tile {
				keys := min(tile, s.t-c0)
				r.gemm(rows, keys, d, mat{qkv[q0+r0*3*c:], 3 * c, 1}, mat{qkv[q0+c+c0*3*c:], 3 * c, 1}, p, tile, false, finish{})
				for i := range rows {
					limit := keys
					if c0 == r0 {
						limit = i + 1
					}
					alpha := softmaxRow(p[i*tile:][:tile], limit, scale, &m[i], &l[i])
					for e := range d {
						o[i*d+e] = float32(o[i*d+e] * alpha)
					}
				}
				r.gemm(rows, d, keys, mat{p, tile, 1}, mat{qkv[q0+2*c+c0*3*c:], 1, 3 * c}, o, d, true, finish{})
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
// queries from there on: p again from the row statistics, dv += p' dy, g = p*(dy v'
// - delta)*scale, dk += g' q, dq += g k.
func (r reference) attentionBackward(s attnShape, qkv, y, stats, dy, dqkv []float32) {
	c, d, scale := s.h*s.d, s.d, attnScale(s.d)
	p, g, delta := make([]float32, tile*tile), make([]float32, tile*tile), make([]float32, s.t)
	clear(dqkv)
	s.each(func(q0, y0, st int) {
		for i := range delta {
			delta[i] = dotRow(dy[y0+i*c:][:d], y[y0+i*c:][:d])
		}
		for c0 := 0; c0 < s.t; c0 += tile {
			keys := min(tile, s.t-c0)
			k0, v0 := q0+c+c0*3*c, q0+2*c+c0*3*c
			for r0 := c0; r0 < s.t; r0 += tile {
				rows := min(tile, s.t-r0)
				qr, yr := q0+r0*3*c, y0+r0*c
				r.gemm(rows, keys, d, mat{qkv[qr:], 3 * c, 1}, mat{qkv[k0:], 3 * c, 1}, p, tile, false, finish{})
				r.gemm(rows, keys, d, mat{dy[yr:], c, 1}, mat{qkv[v0:], 3 * c, 1}, g, tile, false, finish{})
				for i := range rows {
					limit := keys
					if c0 == r0 {
						limit = i + 1
					}
					at := st + 2*(r0+i)
					gradRow(p[i*tile:][:tile], g[i*tile:][:tile], limit, scale, stats[at], stats[at+1], delta[r0+i])
				}
				r.gemm(keys, d, rows, mat{p, 1, tile}, mat{dy[yr:], 1, c}, dqkv[v0:], 3*c, true, finish{})
				r.gemm(keys, d, rows, mat{g, 1, tile}, mat{qkv[qr:], 1, 3 * c}, dqkv[k0:], 3*c, true, finish{})
				r.gemm(rows, d, keys, mat{g, tile, 1}, mat{qkv[k0:], 1, 3 * c}, dqkv[qr:], 3*c, true, finish{})
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
