package tensorops

// join marks steps that a device may compute together with the one that follows:
// a linear layer with the gelu of its result, and the gradient of a layer's input
// with the slope of the gelu that made that input. The products then finish their
// results while these are near. The steps stay in the plan, and mean the same.
func (c *compiler) join() {
	steps := c.plan.Steps
	for i := range len(steps) - 1 {
		a, b := &steps[i], &steps[i+1]
		l, product := a.op.(*linear)
		_, after := b.op.(*gelu)
		if !product || !after || l.relu || a.Backward != b.Backward {
			continue
		}
		if !a.Backward && b.in[0] == a.out[0] {
			s := &c.spans[b.out[0].off]
			s.first = min(s.first, i)
			a.joined = true
		}
		// The slope is applied in place, so nobody else may read or add to it.
		if a.Backward && a.din[0] == b.dout[0] && b.din[0] == b.dout[0] {
			a.joined = true
		}
	}
}
