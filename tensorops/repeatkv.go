package tensorops

// N rows (B*T), H query heads, K key and value heads, D head width.

import "fmt"

type repeatKV struct {
	leaf
	n, h, k, d int
}

// RepeatKV spreads the shared heads of grouped-query attention (Ainslie et al.
// 2023): [B,T,(H+2K)*D] to [B,T,3*H*D], query head i beside key and value head
// i*K/H, as Attention reads them.
func (g *Graph) RepeatKV(qkv V, heads, kv int) V {
	s := qkv.Shape
	if s.Rank() != 3 || kv < 1 || heads%kv != 0 || s[2]%(heads+2*kv) != 0 {
		panic(fmt.Sprintf("tensorops: repeat %d of %d heads in %v", kv, heads, s))
	}
	d := s[2] / (heads + 2*kv)
	if heads == kv {
		return qkv
	}
	return g.apply(&repeatKV{n: s[0] * s[1], h: heads, k: kv, d: d}, []V{qkv}, s.withLast(3*heads*d))[0]
}

func (o *repeatKV) name() string        { return "repeatkv" }
func (o *repeatKV) reads() (uint, uint) { return 0, 0 }

// each calls f with the offsets of each head in the wide and the narrow row.
func (o *repeatKV) each(f func(wide, narrow int, first bool)) {
	group := o.h / o.k
	for r := range o.n {
		w, n := r*3*o.h*o.d, r*(o.h+2*o.k)*o.d
		for i := range 3 * o.h {
			at, first := i, true
			if part, j := i/o.h, i%o.h; part > 0 {
				at, first = o.h+(part-1)*o.k+j/group, j%group == 0
			}
			f(w+i*o.d, n+at*o.d, first)
		}
	}
}

func (o *repeatKV) forward(_ kernels, c *call) {
	o.each(func(w, n int, _ bool) { copy(c.out[0][w:][:o.d], c.in[0][n:]) })
}

func (o *repeatKV) backward(_ kernels, c *call) {
	o.each(func(w, n int, first bool) {
		dx := c.din[0][n:][:o.d]
		if first {
			clear(dx)
		}
		for j, f := range c.dout[0][w:][:o.d] {
			dx[j] += f
		}
	})
}
