package tensorops

// Frozen declares a weight that is part of the state but is not trained: a buffer.
// Linear, Lookup and Embed read it; no gradient reaches it.
func (g *Graph) Frozen(name string, init Init, dims ...int) V {
	v := g.Param(name, init, false, dims...)
	g.values[v.id].grad = false
	g.Params[g.values[v.id].index].Buffer = true
	return v
}
