package tensorops

// N tokens, C channels, V vocabulary.

import "fmt"

type lookup struct {
	leaf
	n, c, v int
}

// Lookup returns table[ids]: ids I32 [B,T], table [V,C] to [B,T,C]. Gradients are
// added by ascending position.
func (g *Graph) Lookup(ids, table V) V {
	b, t := ids.Shape[0], ids.Shape[1]
	v, c := table.Shape[0], table.Shape[1]
	want("lookup", "ids", ids, I32, b, t)
	return g.apply(&lookup{n: b * t, c: c, v: v}, []V{ids, table}, Dims(b, t, c))[0]
}

func (o *lookup) name() string        { return "lookup" }
func (o *lookup) reads() (uint, uint) { return 1, 0 }
func (o *lookup) forward(_ kernels, c *call) {
	for i, id := range c.ints[0] {
		if id < 0 || int(id) >= o.v {
			panic(fmt.Sprintf("tensorops: lookup: id %d at %d, vocabulary %d", id, i, o.v))
		}
		copy(c.out[0][i*o.c:][:o.c], c.in[1][int(id)*o.c:])
	}
}

func (o *lookup) backward(_ kernels, c *call) {
	for i, id := range c.ints[0] {
		d := c.din[1][int(id)*o.c:][:o.c]
		for j, f := range c.dout[0][i*o.c:][:o.c] {
			d[j] += f
		}
	}
}
