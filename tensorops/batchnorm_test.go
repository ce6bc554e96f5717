package tensorops

import (
	"context"
	"math"
	"math/rand"
	"testing"
)

// TestPaddedBatch compares a batch that is filled up with a whole batch of the
// same samples: what is beyond Batch.Samples changes neither the loss nor any
// gradient, running statistic or output bit.
func TestPaddedBatch(t *testing.T) {
	const h, w, c, o, few, many = 5, 7, 2, 5, 3, 5
	type result struct {
		loss           float64
		grads, buffers []float32
	}
	step := func(d Device, batch, samples int) (r result) {
		g := &Graph{}
		p, err := Compile(g, resNet(batch, h, w, c, o).build(g), Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := started(t, d, p, 7, 1, 0.4)
		rnd := rand.New(rand.NewSource(9))
		b := Batch{Float: [][]float32{floats(rnd, few*h*w*c)}, Int: [][]int32{{1, 4, 2}}, Samples: samples}
		for range batch - few { // far away, so that statistics would notice
			for range h * w * c {
				b.Float[0] = append(b.Float[0], 100)
			}
			b.Int[0] = append(b.Int[0], -1)
		}
		if r.loss, err = s.Step(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		r.grads, r.buffers = make([]float32, p.ParamLen), make([]float32, p.BufferLen)
		if err := s.Read(Grads, r.grads); err != nil {
			t.Fatal(err)
		}
		if err := s.Read(Buffers, r.buffers); err != nil {
			t.Fatal(err)
		}
		return r
	}
	differ := func(a, b []float32) (n int) {
		for i := range a {
			if a[i] != b[i] {
				n++
			}
		}
		return n
	}
	for _, d := range []Device{Reference(), CPU()} {
		want, got, all := step(d, few, 0), step(d, many, few), step(d, many, 0)
		if got.loss != want.loss || differ(got.grads, want.grads)+differ(got.buffers, want.buffers) > 0 {
			t.Errorf("%s: loss %v, want %v; %d gradients and %d statistics differ", d.Info().Name, got.loss, want.loss, differ(got.grads, want.grads), differ(got.buffers, want.buffers))
		}
		if differ(all.buffers, want.buffers) == 0 {
			t.Errorf("%s: padding taken for samples changes nothing", d.Info().Name)
		}
	}
}

// TestNotFinite gives an update a gradient that is not finite: with a clip and with
// bfloat16 it is refused and the parameters stay as they were.
func TestNotFinite(t *testing.T) {
	n := linearNet(4, 8, 8, 3, None)
	for _, c := range []struct {
		compute DType
		clip    float32
		refused bool
	}{{F32, 1, true}, {BF16, 0, true}, {BF16, 1, true}, {F32, 0, false}} {
		g := &Graph{}
		p, err := Compile(g, n.build(g), Options{Compute: c.compute})
		if err != nil {
			t.Fatal(err)
		}
		s := started(t, Reference(), p, 1, 0, 0.5)
		before, after := make([]float32, p.ParamLen), make([]float32, p.ParamLen)
		if err := s.Read(Params, before); err != nil {
			t.Fatal(err)
		}
		b := n.batch(rand.New(rand.NewSource(1)))
		b.Float[0][3] = float32(math.Inf(1))
		if _, err := s.Step(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		err = s.Update(Optimizer{Rule: AdamW, Beta1: 0.9, Beta2: 0.9, Eps: 1e-8, Clip: c.clip}, UpdateArgs{LR: 0.1, Scale: 0.25, Step: 1})
		if (err != nil) != c.refused {
			t.Errorf("%+v: %v", c, err)
		}
		if err := s.Read(Params, after); err != nil {
			t.Fatal(err)
		}
		changed := false
		for i := range before {
			changed = changed || math.Float32bits(before[i]) != math.Float32bits(after[i])
		}
		if changed == c.refused {
			t.Errorf("%+v: parameters changed: %v", c, changed)
		}
	}
}
