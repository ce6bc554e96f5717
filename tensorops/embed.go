package tensorops

// B batch, T time, C channels, V vocabulary.

import "fmt"

type embed struct {
	leaf
	n, t, c, v int
}

// Embed returns table[ids] + pos: ids I32 [B,T], table [V,C], pos [T,C] to
// [B,T,C]. Gradients are added by ascending position.
func (g *Graph) Embed(ids, table, pos V) V {
	b, t := ids.Shape[0], ids.Shape[1]
	v, c := table.Shape[0], table.Shape[1]
	want("embed", "ids", ids, I32, b, t)
	want("embed", "positions", pos, F32, t, c)
	return g.apply(&embed{n: b * t, t: t, c: c, v: v}, []V{ids, table, pos}, Dims(b, t, c))[0]
}

func (e *embed) name() string        { return "embed" }
func (e *embed) reads() (uint, uint) { return 1, 0 }
func (e *embed) forward(k kernels, c *call) {
	for i, id := range c.ints[0] {
		if id < 0 || int(id) >= e.v {
			panic(fmt.Sprintf("tensorops: embed: id %d at %d, vocabulary %d", id, i, e.v))
		}
	}
	k.embedForward(e.n, e.t, e.c, c.ints[0], c.in[1], c.in[2], c.out[0])
}
func (e *embed) backward(k kernels, c *call) {
	k.embedBackward(e.n, e.t, e.c, c.ints[0], c.dout[0], c.din[1], c.din[2])
}

func (reference) embedForward(n, t, c int, id []int32, table, pos, y []float32) {
	for r := range n {
		for j := range c {
			y[r*c+j] = table[int(id[r])*c+j] + pos[r%t*c+j]
		}
	}
}

func (reference) embedBackward(n, t, c int, id []int32, dy, dtable, dpos []float32) {
	for r := range n {
		for j := range c {
			dtable[int(id[r])*c+j] += dy[r*c+j]
			dpos[r%t*c+j] += dy[r*c+j]
		}
	}
}
