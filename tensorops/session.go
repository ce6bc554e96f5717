package tensorops

import (
	"context"
	"fmt"
	"math"
	"unsafe"
)

// hostSession runs a plan in this process's memory with one set of kernels.
type hostSession struct {
	plan           *Plan
	k              kernels
	vec            [5][]float32
	arena          []float32
	float          [][]float32 // by input number, nil for the other type
	ints           [][]int32
	steps          []*bound
	outputs        [][]float32
	loss           float64
	samples        int
	zeroed         bool      // gradients count as zero, whatever lies in their vector
	part           []float64 // partial sums of squares
	extra          []float32 // scratch of optimizers, see Plan.OptimizerBytes
	floats, intsIn []int     // input numbers by type
}

// bound is a step with its operands resolved to memory.
type bound struct {
	op    op
	back  bool
	first uint // see Step
	call  call
}

// aligned returns n floats that start on a cache line.
func aligned(n int) []float32 {
	s := make([]float32, n+arenaAlign)
	skip := 0
	if n > 0 {
		skip = int(-(uintptr(unsafe.Pointer(&s[0])) / 4)) & (arenaAlign - 1)
	}
	return s[skip : skip+n : skip+n]
}

func openHost(p *Plan, k kernels) *hostSession {
	s := &hostSession{plan: p, k: k, arena: aligned(p.Arena)}
	s.vec[Params], s.vec[Buffers] = aligned(p.ParamLen), aligned(p.BufferLen)
	if p.train {
		s.vec[Grads], s.vec[M1], s.vec[M2] = aligned(p.ParamLen), aligned(p.ParamLen), aligned(p.ParamLen)
		s.part = make([]float64, p.ParamLen/4096+1)
	}
	s.float, s.ints = make([][]float32, len(p.Inputs)), make([][]int32, len(p.Inputs))
	for i, v := range p.Inputs {
		if v.Type == I32 {
			s.ints[i] = make([]int32, v.Shape.Size())
			s.intsIn = append(s.intsIn, i)
		} else {
			s.float[i] = aligned(v.Shape.Size())
			s.floats = append(s.floats, i)
		}
	}
	for i := 0; i < len(p.Steps); i++ {
		b := s.bind(p.Steps[i])
		if p.Steps[i].joined {
			i++
			b.call.next = &s.bind(p.Steps[i]).call
		}
		s.steps = append(s.steps, b)
	}
	for _, r := range p.outputs {
		s.outputs = append(s.outputs, s.memory(r))
	}
	return s
}

func (s *hostSession) bind(st Step) *bound {
	b := &bound{op: st.op, back: st.Backward, first: st.first}
	all := func(rs []ref) [][]float32 {
		m := make([][]float32, len(rs))
		for i, r := range rs {
			m[i] = s.memory(r)
		}
		return m
	}
	c := &b.call
	c.in, c.out, c.din, c.dout = all(st.in), all(st.out), all(st.din), all(st.dout)
	c.keep, c.work = s.memory(st.keep), s.memory(st.work)
	c.ints = make([][]int32, len(st.in))
	for i, r := range st.in {
		if r.space == inInput {
			c.ints[i] = s.ints[r.off]
		}
	}
	c.rows = make([]float64, st.rows)
	c.loss, c.samples, c.train, c.bf16, c.again = &s.loss, &s.samples, st.train, s.plan.bf16, st.again
	return b
}

func (s *hostSession) memory(r ref) []float32 {
	switch r.space {
	case inArena:
		return s.arena[r.off : r.off+r.n : r.off+r.n]
	case inParams:
		return s.vec[Params][r.off : r.off+r.n : r.off+r.n]
	case inGrads:
		return s.vec[Grads][r.off : r.off+r.n : r.off+r.n]
	case inBuffers:
		return s.vec[Buffers][r.off : r.off+r.n : r.off+r.n]
	case inInput:
		return s.float[r.off]
	}
	return nil
}

func (s *hostSession) Step(ctx context.Context, in Batch) (float64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := s.take(in); err != nil {
		return 0, err
	}
	for i := range s.steps {
		b := s.steps[i]
		switch {
		case b.op == nil:
			s.k.add(b.call.din[0], b.call.dout[0], b.call.din[0])
		case b.back:
			s.open(b)
			b.op.backward(s.k, &b.call)
		default:
			b.op.forward(s.k, &b.call)
		}
	}
	if s.zeroed && s.plan.train {
		s.zeroed = false
		for _, r := range s.plan.unused {
			clear(s.memory(r))
		}
	}
	return s.loss, nil
}

// open makes ready the gradients of parameters that b is the first to add to: it
// clears what the op cannot write, just before that comes near.
func (s *hostSession) open(b *bound) {
	b.call.fresh = 0
	if !s.zeroed {
		return
	}
	b.call.fresh = b.first & b.op.writes()
	for j, d := range b.call.din {
		if b.first&^b.call.fresh>>j&1 == 1 {
			clear(d)
		}
	}
}

// take copies the batch into the session's inputs.
func (s *hostSession) take(in Batch) error {
	if len(in.Float) != len(s.floats) || len(in.Int) != len(s.intsIn) {
		return fmt.Errorf("step with %d float and %d integer inputs, want %d and %d: %w", len(in.Float), len(in.Int), len(s.floats), len(s.intsIn), ErrBatch)
	}
	if in.Samples < 0 {
		return fmt.Errorf("step with %d samples: %w", in.Samples, ErrBatch)
	}
	if s.samples = in.Samples; s.samples == 0 {
		s.samples = math.MaxInt
	}
	for i, x := range in.Float {
		if d := s.float[s.floats[i]]; copy(d, x) != len(d) || len(x) != len(d) {
			return fmt.Errorf("step: float input %d has %d elements, want %d: %w", i, len(x), len(d), ErrBatch)
		}
	}
	for i, x := range in.Int {
		if d := s.ints[s.intsIn[i]]; copy(d, x) != len(d) || len(x) != len(d) {
			return fmt.Errorf("step: integer input %d has %d elements, want %d: %w", i, len(x), len(d), ErrBatch)
		}
	}
	return nil
}

func (s *hostSession) Output(i int, dst []float32) error {
	if i < 0 || i >= len(s.outputs) || len(dst) != len(s.outputs[i]) {
		return fmt.Errorf("read output %d into %d elements: plan keeps %d outputs", i, len(dst), len(s.outputs))
	}
	copy(dst, s.outputs[i])
	return nil
}

// ZeroGrads leaves the work to the next step.
func (s *hostSession) ZeroGrads() { s.zeroed = true }

// settle clears the gradients where no step has.
func (s *hostSession) settle() {
	if s.zeroed {
		clear(s.vec[Grads])
		s.zeroed = false
	}
}

func (s *hostSession) Read(v Vector, dst []float32) error {
	if int(v) >= len(s.vec) || len(dst) != len(s.vec[v]) {
		return fmt.Errorf("read vector %d: length %d does not fit", v, len(dst))
	}
	if v == Grads {
		s.settle()
	}
	copy(dst, s.vec[v])
	return nil
}

func (s *hostSession) Write(v Vector, src []float32) error {
	if int(v) >= len(s.vec) || len(src) != len(s.vec[v]) {
		return fmt.Errorf("write vector %d: length %d does not fit", v, len(src))
	}
	if v == Grads {
		s.zeroed = false
	}
	copy(s.vec[v], src)
	return nil
}

func (s *hostSession) Close() error { return nil }
