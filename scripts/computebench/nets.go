package main

import (
	"context"
	"fmt"
	"math"

	ops "github.com/apiary-net/hived/tensorops"
	"github.com/apiary-net/hived/tensorops/num"
)

// trainer is a network with one batch of noise and an optimizer.
type trainer struct {
	sess  ops.Session
	batch ops.Batch
	opt   ops.Optimizer
	scale float64
	step  uint64
}

// open compiles what build writes and gives it noise: labels below classes.
func open(o ops.Options, opt ops.Optimizer, samples, classes int, build func(g *ops.Graph) ops.V) (*trainer, error) {
	g := &ops.Graph{}
	p, err := ops.Compile(g, build(g), o)
	if err != nil {
		return nil, err
	}
	s, err := ops.CPU().Open(p)
	if err != nil {
		return nil, err
	}
	t := &trainer{sess: s, opt: opt, scale: 1 / float64(samples)}
	w, b := make([]float32, p.ParamLen), make([]float32, p.BufferLen)
	p.Init(1, w, b)
	if err := s.Write(ops.Params, w); err != nil {
		return nil, err
	}
	if err := s.Write(ops.Buffers, b); err != nil {
		return nil, err
	}
	for i, v := range p.Inputs {
		x := make([]float32, v.Shape.Size())
		num.FillNormal(x, 2, uint64(i), 1)
		if v.Type == ops.F32 {
			t.batch.Float = append(t.batch.Float, x)
			continue
		}
		ids := make([]int32, len(x))
		for j, f := range x {
			ids[j] = int32(math.Abs(float64(f)) * 1e4)
			ids[j] %= int32(classes)
		}
		t.batch.Int = append(t.batch.Int, ids)
	}
	return t, nil
}

// run makes one whole step: forward, backward, update.
func (t *trainer) run() error {
	t.sess.ZeroGrads()
	loss, err := t.sess.Step(context.Background(), t.batch)
	if err != nil {
		return err
	}
	if loss*t.scale > 1e6 || loss != loss {
		return fmt.Errorf("loss %v", loss*t.scale)
	}
	t.step++
	return t.sess.Update(t.opt, ops.UpdateArgs{LR: 1e-3, Scale: t.scale, Step: t.step})
}

func adam(decay, clip, beta2 float32) ops.Optimizer {
	return ops.Optimizer{Rule: ops.AdamW, Beta1: 0.9, Beta2: beta2, Eps: 1e-8, WeightDecay: decay, Clip: clip}
}

func fan(n int) ops.Init { return ops.Init{Normal: true, Scale: float32(math.Sqrt(1 / float64(n)))} }

func mlp() (*trainer, error) {
	return open(ops.Options{}, adam(0.01, 0, 0.999), 256, 10, func(g *ops.Graph) ops.V {
		v, y, in := g.Input("x", ops.F32, 256, 784), g.Input("y", ops.I32, 256), 784
		for i, out := range []int{512, 512, 512, 10} {
			act := ops.Relu
			if i == 3 {
				act = ops.None
			}
			v = g.Linear(v, g.Param(fmt.Sprint("w", i), fan(in), true, out, in), g.Param(fmt.Sprint("b", i), ops.Init{}, true, out), act)
			in = out
		}
		return g.CrossEntropy(v, y)
	})
}

// resnet8 is a stem and three blocks of widths 16, 32, 64, as yardstick.py builds it.
func resnet8(side, channels, batch int) (*trainer, error) {
	return open(ops.Options{}, adam(0.01, 0, 0.999), batch, 10, func(g *ops.Graph) ops.V {
		n := 0
		convBN := func(x, res ops.V, out, k, stride int, act ops.Act) ops.V {
			n++
			name := func(s string) string { return fmt.Sprintf("c%d%s", n, s) }
			in := x.Shape[3]
			v := g.Conv(x, g.Param(name("w"), fan(k*k*in), true, out, k, k, in), ops.V{}, stride, k/2, ops.None)
			return g.BatchNorm(v, res, ops.BatchNorm{
				Gain: g.Param(name("g"), ops.Init{Scale: 1}, true, out), Shift: g.Param(name("s"), ops.Init{}, true, out),
				Mean: g.Buffer(name("m"), ops.Init{}, out), Var: g.Buffer(name("v"), ops.Init{Scale: 1}, out),
				Eps: 1e-5, Momentum: 0.1}, act)
		}
		x, y := g.Input("x", ops.F32, batch, side, side, channels), g.Input("y", ops.I32, batch)
		v := convBN(x, ops.V{}, 16, 3, 1, ops.Relu)
		for i, out := range []int{16, 32, 64} {
			skip, stride := v, 1
			if i > 0 {
				stride = 2
				skip = convBN(v, ops.V{}, out, 1, stride, ops.None)
			}
			h := convBN(v, ops.V{}, out, 3, stride, ops.Relu)
			v = convBN(h, skip, out, 3, 1, ops.Relu)
		}
		v = g.Mean(v)
		return g.CrossEntropy(g.Linear(v, g.Param("fw", fan(64), true, 10, 64), g.Param("fb", ops.Init{}, true, 10), ops.None), y)
	})
}

// The GPT of yardstick.py: layers, heads, width, context, vocabulary, batch.
const layers, heads, width, context256, vocab, batchGPT = 6, 6, 384, 256, 65, 8

// flopsGPT are the nominal operations of a step: 6 a parameter and token, and 12
// layers*width*context a token for attention (Chowdhery et al. 2022, appendix B).
const flopsGPT = 6.0*(layers*12*width*width+vocab*width)*batchGPT*context256 + layers*12.0*batchGPT*context256*context256*width

func gpt(o ops.Options) (*trainer, error) {
	return open(o, adam(0.1, 1, 0.99), batchGPT*context256, vocab, func(g *ops.Graph) ops.V {
		x, y := g.Input("x", ops.I32, batchGPT, context256), g.Input("y", ops.I32, batchGPT, context256)
		small := ops.Init{Normal: true, Scale: 0.02}
		weight := func(name string, out, in int) ops.V { return g.Param(name, small, true, out, in) }
		norm := func(name string, x, res ops.V) (ops.V, ops.V) {
			return g.Norm(x, res, g.Param(name+"g", ops.Init{Scale: 1}, true, width), g.Param(name+"b", ops.Init{}, true, width), 1e-5)
		}
		table := weight("te", vocab, width)
		h, res := g.Embed(x, table, weight("pe", context256, width)), ops.V{}
		var n ops.V
		for l := range layers {
			p := fmt.Sprintf("l%d", l)
			n, res = norm(p+"n1", h, res)
			q := g.Linear(n, weight(p+"qkv", 3*width, width), ops.V{}, ops.None)
			h = g.Linear(g.Attention(q, heads, true), weight(p+"o", width, width), ops.V{}, ops.None)
			n, res = norm(p+"n2", h, res)
			h = g.Linear(n, weight(p+"f", 4*width, width), ops.V{}, ops.Gelu)
			h = g.Linear(h, weight(p+"p", width, 4*width), ops.V{}, ops.None)
		}
		n, _ = norm("nf", h, res)
		return g.CrossEntropy(g.Linear(n, table, ops.V{}, ops.None), y)
	})
}
