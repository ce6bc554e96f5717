package tensorops

import (
	"errors"
	"fmt"
	"sort"
)

// Options of Compile.
type Options struct {
	// Inference leaves out all backward steps.
	Inference bool
	// Keep lists values that Session.Output returns after a step.
	Keep []V
	// Compute is F32, or BF16: products of linear layers and of attention then round
	// their operands to bfloat16 and sum in float32; parameters, gradients and all
	// else stay float32. BF16's bits depend on the processor.
	Compute DType
	// MaxBytes bounds Plan.Peak; 0 is no bound.
	MaxBytes int64
}

// ErrMemory is returned by Compile when the plan needs more than Options.MaxBytes.
var ErrMemory = errors.New("plan exceeds the memory allowed")

func sortBy(x []int, less func(a, b int) bool) {
	sort.SliceStable(x, func(i, j int) bool { return less(x[i], x[j]) })
}

// compiler collects steps and the life of each buffer. A buffer is an index into
// spans; refs of space inArena hold that index in off until all are placed.
type compiler struct {
	g      *Graph
	plan   *Plan
	spans  []span
	value  []int        // buffer of each value, -1
	grad   []int        // buffer of each value's gradient, -1
	keep   []int        // buffer of each node's kept floats, -1
	uses   []int        // operands that read each value
	again  []bool       // nodes that backward computes again; cleared when it has
	params []int        // place of each graph parameter in plan.Params
	added  map[int]bool // offsets of parameters whose gradient a step adds to
}

// Compile orders the parameters by name, lays out forward and, unless
// o.Inference, backward steps of everything that loss depends on, and plans the
// arena. A plan above o.MaxBytes is made once more, with what is cheap to compute
// (gelu) computed again by backward instead of kept: the same bits. It panics when
// loss is not a value of one element.
func Compile(g *Graph, loss V, o Options) (*Plan, error) {
	if loss.Shape.Size() != 1 {
		panic(fmt.Sprintf("tensorops: loss of shape %v", loss.Shape))
	}
	p := compile(g, loss, o, false)
	if o.MaxBytes > 0 && p.Peak > o.MaxBytes {
		p = compile(g, loss, o, true)
	}
	if o.MaxBytes > 0 && p.Peak > o.MaxBytes {
		return nil, fmt.Errorf("compile: %d bytes needed, %d allowed; take a smaller batch or model: %w", p.Peak, o.MaxBytes, ErrMemory)
	}
	return p, nil
}

func compile(g *Graph, loss V, o Options, frugal bool) *Plan {
	c := &compiler{g: g, plan: &Plan{Inputs: g.inputs, train: !o.Inference, bf16: o.Compute == BF16}, added: map[int]bool{}}
	c.layout()
	fill := func(n int) []int {
		s := make([]int, n)
		for i := range s {
			s[i] = -1
		}
		return s
	}
	c.value, c.grad, c.keep = fill(len(g.values)), fill(len(g.values)), fill(len(g.nodes))
	c.uses = make([]int, len(g.values))
	for i, n := range g.nodes {
		c.forward(i, false)
		_, cheap := n.op.(interface{ cheap() })
		c.again = append(c.again, (n.again || frugal && cheap) && !o.Inference)
	}
	if !o.Inference {
		c.grad[loss.id] = c.buffer(1, len(c.plan.Steps))
		for i := len(g.nodes) - 1; i >= 0; i-- {
			c.backward(i)
		}
	}
	for _, v := range o.Keep {
		c.plan.outputs = append(c.plan.outputs, c.refer(v, len(c.plan.Steps)))
	}
	c.finish()
	return c.plan
}

// markHidden finds the weights of linear layers and convolutions that are neither
// embeddings nor the last layer before a loss.
func (g *Graph) markHidden() {
	last := make(map[int]bool) // values that a loss reads
	for _, n := range g.nodes {
		if _, ok := n.op.(*crossEntropy); ok {
			last[n.in[0].id] = true
		}
	}
	hidden := make(map[int]bool)
	for pass := range 2 { // what is excluded by one node stays so
		for _, n := range g.nodes {
			weight := false
			switch n.op.(type) {
			case *linear, *conv:
				weight = !last[n.out[0].id] && g.values[n.in[1].id].kind == parameter
			}
			if weight && pass == 0 {
				hidden[n.in[1].id] = true
			}
			for j, v := range n.in {
				if pass == 1 && !(weight && j == 1) {
					delete(hidden, v.id)
				}
			}
		}
	}
	for i := range g.Params {
		p := &g.Params[i]
		p.Hidden = hidden[p.val] && !p.Buffer && p.Shape[0] > 1 && p.Shape.Size() > p.Shape[0]
	}
}

// layout gives parameters and buffers their places, in byte-wise name order.
func (c *compiler) layout() {
	c.g.markHidden()
	order := make([]int, len(c.g.Params))
	for i := range order {
		order[i] = i
	}
	sortBy(order, func(a, b int) bool { return c.g.Params[a].Name < c.g.Params[b].Name })
	c.params = make([]int, len(order))
	for at, i := range order {
		p := c.g.Params[i]
		n := &c.plan.ParamLen
		if p.Buffer {
			n = &c.plan.BufferLen
		}
		p.Off = *n
		*n += p.Shape.Size()
		c.g.Params[i].Off = p.Off
		c.plan.Params = append(c.plan.Params, p)
		c.params[i] = at
	}
}

func (c *compiler) buffer(size, step int) int {
	c.spans = append(c.spans, span{size: size, first: step, last: step})
	return len(c.spans) - 1
}

// use returns the arena ref of buffer b, alive at step.
func (c *compiler) use(b, step int) ref {
	s := &c.spans[b]
	s.last = max(s.last, step)
	return ref{inArena, b, s.size}
}

// refer returns where v lies, alive at step.
func (c *compiler) refer(v V, step int) ref {
	val := c.g.values[v.id]
	switch val.kind {
	case input:
		return ref{inInput, val.index, val.size}
	case parameter:
		p := c.plan.Params[c.params[val.index]]
		if p.Buffer {
			return ref{inBuffers, p.Off, val.size}
		}
		return ref{inParams, p.Off, val.size}
	}
	return c.use(c.value[v.id], step)
}

// forward appends the forward step of node i; again is the second time.
func (c *compiler) forward(i int, again bool) {
	n, at := &c.g.nodes[i], len(c.plan.Steps)
	s := Step{Op: n.op.name(), op: n.op, train: c.plan.train, again: again}
	for _, v := range n.in {
		if !again {
			c.uses[v.id]++
		}
		s.in = append(s.in, c.refer(v, at))
	}
	for _, v := range n.out {
		c.value[v.id] = c.buffer(v.Shape.Size(), at)
		s.out = append(s.out, c.refer(v, at))
	}
	if k, _ := n.op.aux(); k > 0 {
		c.keep[i] = c.buffer(k, at)
		s.keep = c.use(c.keep[i], at)
	}
	s.rows = rowsOf(n.op)
	c.plan.Steps = append(c.plan.Steps, s)
}

// lossOp is an op that writes the plan's loss, a sum over rows.
type lossOp interface{ lossRows() int }

// restore appends the steps that compute again what node i made and everything
// that it needs for that.
func (c *compiler) restore(i int) {
	if !c.again[i] {
		return
	}
	c.again[i] = false
	for _, v := range c.g.nodes[i].in {
		c.restoreValue(v)
	}
	c.forward(i, true)
}

func (c *compiler) restoreValue(v V) {
	if val := c.g.values[v.id]; val.kind == activation {
		c.restore(val.index)
	}
}

func rowsOf(o op) int {
	if l, ok := o.(lossOp); ok {
		return l.lossRows()
	}
	return 0
}

// backward appends the backward step of node i where a gradient reaches it, and
// additions for values that already have a gradient.
func (c *compiler) backward(i int) {
	n := &c.g.nodes[i]
	reached := false
	for _, v := range n.out {
		reached = reached || c.grad[v.id] >= 0
	}
	if !reached || !c.g.values[n.out[0].id].grad {
		return
	}
	inMask, outMask := n.op.reads()
	for j, v := range n.in {
		if inMask>>j&1 == 1 {
			c.restoreValue(v)
		}
	}
	if outMask != 0 || c.keep[i] >= 0 {
		c.restore(i)
	}
	at := len(c.plan.Steps)
	s := Step{Op: n.op.name(), Backward: true, op: n.op, train: true, rows: rowsOf(n.op)}
	for _, v := range n.out {
		r := ref{}
		if b := c.grad[v.id]; b >= 0 {
			r = c.use(b, at)
		}
		s.dout = append(s.dout, r)
	}
	s.in, s.out = c.masked(n.in, inMask, at), c.masked(n.out, outMask, at)
	var extra []Step
	shared := c.sharing(n)
	for j, v := range n.in {
		r, add := c.gradient(v, at, shared[j])
		s.din = append(s.din, r)
		if r.space == inGrads && !c.added[r.off] {
			c.added[r.off] = true
			s.first |= 1 << j
		}
		if add != nil {
			extra = append(extra, *add)
		}
	}
	if c.keep[i] >= 0 {
		s.keep = c.use(c.keep[i], at)
	}
	if _, w := n.op.aux(); w > 0 {
		s.work = c.use(c.buffer(w, at), at)
	}
	c.plan.Steps = append(c.plan.Steps, s)
	for _, e := range extra {
		step := len(c.plan.Steps)
		c.use(e.din[0].off, step)
		c.use(e.dout[0].off, step)
		c.plan.Steps = append(c.plan.Steps, e)
	}
}

func (c *compiler) masked(vs []V, mask uint, at int) []ref {
	r := make([]ref, len(vs))
	for j, v := range vs {
		if mask>>j&1 == 1 {
			r[j] = c.refer(v, at)
		}
	}
	return r
}

// gradient returns where the gradient of operand v is written, with the addition
// that must follow when v already has one. share is a buffer to take over, or -1.
func (c *compiler) gradient(v V, at, share int) (ref, *Step) {
	val := c.g.values[v.id]
	switch {
	case !val.grad:
		return ref{}, nil
	case val.kind == parameter:
		p := c.plan.Params[c.params[val.index]]
		if p.Buffer {
			return ref{}, nil
		}
		return ref{inGrads, p.Off, val.size}, nil
	case c.grad[v.id] < 0:
		c.grad[v.id] = share
		if share < 0 {
			c.grad[v.id] = c.buffer(val.size, at)
		}
		return c.use(c.grad[v.id], at), nil
	}
	t := c.use(c.buffer(val.size, at), at)
	return t, &Step{Op: "sum", Backward: true, din: []ref{c.use(c.grad[v.id], at)}, dout: []ref{t}}
}

// sharing returns for each operand the gradient buffer of an output that it may
// take over, or -1. One operand alone may always do so. Of several, those qualify
// that nobody else reads and whose makers do not write their output's gradient;
// the operand made first is worked on last in the backward order, so it alone may
// be changed further.
func (c *compiler) sharing(n *node) []int {
	r := make([]int, len(n.in))
	o, mask := n.op.shares()
	first, able := -1, 0
	for j, v := range n.in {
		r[j] = -1
		val := c.g.values[v.id]
		if val.kind != activation {
			continue
		}
		if first < 0 || val.index < c.g.values[n.in[first].id].index {
			first = j
		}
		if val.grad && mask>>j&1 == 1 {
			able++
		}
	}
	if o < 0 || c.grad[n.out[o].id] < 0 {
		return r
	}
	for j, v := range n.in {
		val := c.g.values[v.id]
		if val.kind != activation || !val.grad || mask>>j&1 == 0 {
			continue
		}
		by := c.g.nodes[val.index].op
		if out, _ := by.shares(); able > 1 && (c.uses[v.id] != 1 || by.edits() || out >= 0 && j != first) {
			continue
		}
		r[j] = c.grad[n.out[o].id]
	}
	return r
}

// finish places the buffers and puts their offsets into the refs.
func (c *compiler) finish() {
	p := c.plan
	c.join()
	p.Arena = place(c.spans)
	fix := func(rs []ref) {
		for i := range rs {
			if rs[i].space == inArena {
				rs[i].off = c.spans[rs[i].off].off
			}
		}
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		one := []ref{s.keep, s.work}
		fix(one)
		s.keep, s.work = one[0], one[1]
		fix(s.in)
		fix(s.out)
		fix(s.din)
		fix(s.dout)
	}
	fix(p.outputs)
	for _, q := range p.Params {
		if !q.Buffer && !c.added[q.Off] {
			p.unused = append(p.unused, ref{inGrads, q.Off, q.Shape.Size()})
		}
	}
	words := int64(p.Arena + p.BufferLen + p.ParamLen)
	if p.train {
		words += 3 * int64(p.ParamLen)
	}
	for _, v := range p.Inputs {
		words += int64(v.Shape.Size())
	}
	p.Peak = 4 * words
}
