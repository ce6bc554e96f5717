package tensorops

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"testing"

	"github.com/apiary-net/hived/tensorops/cpu"
	"github.com/apiary-net/hived/tensorops/num"
)

// net is a small graph that exercises some ops, with its inputs.
type net struct {
	name  string
	build func(g *Graph) V
	batch func(r *rand.Rand) Batch
}

func floats(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	num.FillNormal(x, r.Uint64(), 0, 1)
	return x
}

func labels(r *rand.Rand, n, classes int) []int32 {
	x := make([]int32, n)
	for i := range x {
		x[i] = int32(r.Intn(classes))
	}
	if n > 3 {
		x[n/2] = -1
	}
	return x
}

func ids(r *rand.Rand, n, v int) []int32 {
	x := make([]int32, n)
	for i := range x {
		x[i] = int32(r.Intn(v))
	}
	return x
}

var normal = Init{Normal: true, Scale: 0.3}

// linearNet is act(x w' + b), then a layer of classes.
func linearNet(n, c, o, classes int, act Act) net {
	return net{fmt.Sprintf("linear-%dx%dx%d-%d", n, c, o, act), func(g *Graph) V {
		x, y := g.Input("x", F32, n, c), g.Input("y", I32, n)
		h := g.Linear(x, g.Param("a", normal, true, o, c), g.Param("b", normal, false, o), act)
		return g.CrossEntropy(g.Linear(h, g.Param("c", normal, true, classes, o), V{}, None), y)
	}, func(r *rand.Rand) Batch {
		return Batch{Float: [][]float32{floats(r, n*c)}, Int: [][]int32{labels(r, n, classes)}}
	}}
}

// convNet is two convolutions with pooling and a layer of classes.
func convNet(b, h, w, c, o, k, stride, pad int, act Act) net {
	return net{fmt.Sprintf("conv-%dx%dx%dx%d-o%dk%ds%dp%d-%d", b, h, w, c, o, k, stride, pad, act), func(g *Graph) V {
		x, y := g.Input("x", F32, b, h, w, c), g.Input("y", I32, b)
		v := g.Conv(x, g.Param("c1", normal, true, o, k, k, c), g.Param("b1", normal, false, o), 1, k/2, act)
		v = g.MaxPool2(v, Relu-act) // relu once: before or after
		v = g.Conv(v, g.Param("c2", normal, true, o+3, k, k, o), g.Param("b2", normal, false, o+3), stride, pad, Relu)
		s := v.Shape
		n := s[1] * s[2] * s[3]
		v = g.Linear(g.Reshape(v, b, n), g.Param("f", normal, true, 10, n), g.Param("g", normal, false, 10), None)
		return g.CrossEntropy(v, y)
	}, func(r *rand.Rand) Batch {
		return Batch{Float: [][]float32{floats(r, b*h*w*c)}, Int: [][]int32{labels(r, b, 10)}}
	}}
}

// groupNet is a grouped convolution, then a depthwise one with a stride.
func groupNet(b, h, w, c, o, groups int) net {
	return net{fmt.Sprintf("group-%dx%dx%dx%d-%d-%d", b, h, w, c, o, groups), func(g *Graph) V {
		x, y := g.Input("x", F32, b, h, w, c), g.Input("y", I32, b)
		v := g.Conv(x, g.Param("c1", normal, true, o, 3, 3, c/groups), g.Param("b1", normal, false, o), 1, 1, Relu)
		v = g.Conv(v, g.Param("c2", normal, true, o, 3, 3, 1), V{}, 2, 1, None)
		v = g.Conv(v, g.Param("c3", normal, true, c, 1, 1, o), V{}, 1, 0, None)
		return g.CrossEntropy(g.Linear(g.Mean(v), g.Param("f", normal, true, 7, c), V{}, None), y)
	}, func(r *rand.Rand) Batch {
		return Batch{Float: [][]float32{floats(r, b*h*w*c)}, Int: [][]int32{labels(r, b, 7)}}
	}}
}

// depthNet is two depthwise convolutions, so that both gradients are wanted.
func depthNet(b, h, w, c, k, stride, pad int, act Act) net {
	return net{fmt.Sprintf("depth-%dx%dx%dx%d-k%ds%dp%d", b, h, w, c, k, stride, pad), func(g *Graph) V {
		x, y := g.Input("x", F32, b, h, w, c), g.Input("y", I32, b)
		v := g.Conv(x, g.Param("c1", normal, true, c, 3, 3, 1), V{}, 1, 1, None)
		v = g.Conv(v, g.Param("c2", normal, true, c, k, k, 1), g.Param("b2", normal, false, c), stride, pad, act)
		return g.CrossEntropy(g.Linear(g.Mean(v), g.Param("f", normal, true, 4, c), V{}, None), y)
	}, func(r *rand.Rand) Batch {
		return Batch{Float: [][]float32{floats(r, b*h*w*c)}, Int: [][]int32{labels(r, b, 4)}}
	}}
}

// gptNet is layers of a transformer with tied head.
func gptNet(b, t, heads, d, vocab, layers int) net {
	c := heads * d
	return net{fmt.Sprintf("gpt-b%dt%dh%dd%dl%d", b, t, heads, d, layers), func(g *Graph) V {
		x, y := g.Input("x", I32, b, t), g.Input("y", I32, b, t)
		table := g.Param("wte", normal, true, vocab, c)
		h := g.Embed(x, table, g.Param("wpe", normal, true, t, c))
		res := V{}
		vec := func(name string, s float32) V { return g.Param(name, Init{Scale: s}, false, c) }
		var n V
		for l := range layers {
			p := fmt.Sprintf("h%02d.", l)
			n, res = g.Norm(h, res, vec(p+"n1g", 1), vec(p+"n1b", 0), 1e-5)
			q := g.Linear(n, g.Param(p+"qkv", normal, true, 3*c, c), g.Param(p+"qkvb", normal, false, 3*c), None)
			h = g.Linear(g.Attention(q, heads, true), g.Param(p+"o", normal, true, c, c), V{}, None)
			n, res = g.Norm(h, res, vec(p+"n2g", 1), vec(p+"n2b", 0), 1e-5)
			h = g.Linear(n, g.Param(p+"f", normal, true, 2*c, c), g.Param(p+"fb", normal, false, 2*c), Gelu)
			h = g.Linear(h, g.Param(p+"p", normal, true, c, 2*c), g.Param(p+"pb", normal, false, c), None)
		}
		n, _ = g.Norm(h, res, vec("nfg", 1), vec("nfb", 0), 1e-5)
		return g.CrossEntropy(g.Linear(n, table, V{}, None), y)
	}, func(r *rand.Rand) Batch {
		return Batch{Int: [][]int32{ids(r, b*t, vocab), labels(r, b*t, vocab)}}
	}}
}

// addNet reads one value three times, so gradients must add up.
func addNet(n, c int) net {
	return net{"add", func(g *Graph) V {
		x, y := g.Input("x", F32, n, c), g.Input("y", I32, n)
		h := g.Linear(x, g.Param("a", normal, true, c, c), V{}, None)
		a := g.Add(h, g.Gelu(h))
		b := g.Add(a, g.Linear(h, g.Param("b", normal, true, c, c), V{}, None))
		return g.CrossEntropy(g.Add(b, b), y)
	}, func(r *rand.Rand) Batch {
		return Batch{Float: [][]float32{floats(r, n*c)}, Int: [][]int32{labels(r, n, c)}}
	}}
}

// resNet is two residual blocks with batch norm, then a mean and a layer.
func resNet(b, h, w, c, o int) net {
	return net{fmt.Sprintf("res-%dx%dx%dx%d-%d", b, h, w, c, o), func(g *Graph) V {
		x, y := g.Input("x", F32, b, h, w, c), g.Input("y", I32, b)
		bn := func(name string, x, res V, act Act) V {
			ch := x.Shape[3]
			return g.BatchNorm(x, res, BatchNorm{g.Param(name+"g", normal, false, ch), g.Param(name+"s", normal, false, ch),
				g.Buffer(name+"m", Init{}, ch), g.Buffer(name+"v", Init{Scale: 1}, ch), 1e-5, 0.1}, act)
		}
		v := bn("b0", g.Conv(x, g.Param("c0", normal, true, o, 3, 3, c), V{}, 1, 1, None), V{}, Relu)
		u := bn("b1", g.Conv(v, g.Param("c1", normal, true, o, 3, 3, o), V{}, 1, 1, None), v, Relu)
		s := bn("b2", g.Conv(u, g.Param("c2", normal, true, o+1, 1, 1, o), V{}, 2, 0, None), V{}, None)
		u = bn("b3", g.Conv(u, g.Param("c3", normal, true, o+1, 3, 3, o), V{}, 2, 1, None), s, Relu)
		return g.CrossEntropy(g.Linear(g.Mean(u), g.Param("f", normal, true, 5, o+1), V{}, None), y)
	}, func(r *rand.Rand) Batch {
		return Batch{Float: [][]float32{floats(r, b*h*w*c)}, Int: [][]int32{labels(r, b, 5)}}
	}}
}

func nets() []net {
	return append(modelNets(),
		linearNet(5, 3, 7, 4, Relu), linearNet(70, 33, 50, 10, Gelu), linearNet(1, 1, 1, 2, None),
		linearNet(19, 400, 17, 11, Relu), linearNet(400, 9, 7, 10, None), linearNet(17, 800, 7, 3, Relu),
		convNet(2, 8, 8, 1, 5, 3, 1, 1, None), convNet(3, 9, 7, 3, 8, 3, 2, 1, Relu), convNet(2, 12, 10, 2, 17, 5, 1, 0, None),
		convNet(2, 6, 8, 32, 32, 3, 1, 1, None), convNet(5, 13, 13, 4, 16, 3, 2, 0, Relu),
		gptNet(2, 5, 2, 4, 11, 2), gptNet(1, 64, 2, 8, 40, 1), gptNet(2, 70, 1, 33, 40, 1), gptNet(1, 130, 2, 8, 20, 1),
		attentionNet(2, 70, 2, 9), attentionNet(1, 9, 1, 32), addNet(6, 37), groupNet(2, 7, 6, 6, 9, 3), groupNet(2, 9, 12, 32, 64, 2), depthNet(2, 9, 11, 20, 5, 1, 0, Relu), depthNet(3, 12, 10, 65, 3, 3, 1, None), depthNet(1, 40, 30, 16, 2, 2, 0, None), convNet(1, 5, 30, 34, 44, 3, 3, 1, None), convNet(2, 8, 66, 20, 6, 5, 1, 2, Relu), resNet(3, 7, 9, 2, 5), resNet(2, 8, 8, 16, 32))
}

// started opens a plan with normal parameters.
func started(t testing.TB, d Device, p *Plan, seed, stream uint64, scale float32) Session {
	t.Helper()
	s, err := d.Open(p)
	if err != nil {
		t.Fatal(err)
	}
	w := make([]float32, p.ParamLen)
	num.FillNormal(w, seed, stream, scale)
	if err := s.Write(Params, w); err != nil {
		t.Fatal(err)
	}
	return s
}

// run makes two accumulated steps and two updates, and returns all that came out.
func run(t testing.TB, d Device, n net) (out []float32, losses []float64) {
	t.Helper()
	g := &Graph{}
	loss := n.build(g)
	p, err := Compile(g, loss, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Open(p)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w := make([]float32, p.ParamLen)
	for i, q := range p.Params {
		num.FillNormal(w[q.Off:][:q.Shape.Size()], 1, uint64(i), 0.3)
	}
	if err := s.Write(Params, w); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewSource(3))
	read := func(v Vector) {
		x := make([]float32, p.ParamLen)
		if err := s.Read(v, x); err != nil {
			t.Fatal(err)
		}
		out = append(out, x...)
	}
	for step, o := range []Optimizer{{Rule: AdamW, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, WeightDecay: 0.1, Clip: 0.5}, {Rule: SGD, Beta1: 0.9, WeightDecay: 0.01},
		{Rule: LAMB, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, WeightDecay: 0.1}, {Rule: Muon, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, WeightDecay: 0.1, Momentum: 0.85, Boost: 1.5, Clip: 1}} {
		s.ZeroGrads()
		for range 2 {
			l, err := s.Step(context.Background(), n.batch(r))
			if err != nil {
				t.Fatal(err)
			}
			losses = append(losses, l)
		}
		read(Grads)
		if err := s.Update(o, UpdateArgs{LR: 0.01, Scale: 1.0 / 7, Step: uint64(step + 1)}); err != nil {
			t.Fatal(err)
		}
		for _, v := range []Vector{Params, M1, M2} {
			read(v)
		}
		b := make([]float32, p.BufferLen)
		if err := s.Read(Buffers, b); err != nil {
			t.Fatal(err)
		}
		out = append(out, b...)
	}
	return out, losses
}

// TestBitsEqual compares every op on every instruction set with 1, 2 and 3 threads
// with the plain Go reference, by bytes.
func TestBitsEqual(t *testing.T) {
	isas := cpu.ISAs()
	if len(isas) == 0 {
		t.Skip("built without cgo: no kernels to compare")
	}
	defer cpu.SetThreads(1)
	defer func() { _ = cpu.SetISA(isas[0]) }()
	for _, n := range nets() {
		want, wantLoss := run(t, Reference(), n)
		for _, f := range want {
			if !num.Finite(f) {
				t.Fatalf("%s: reference is not finite", n.name)
			}
		}
		for _, isa := range isas {
			if err := cpu.SetISA(isa); err != nil {
				t.Fatal(err)
			}
			for threads := 1; threads <= 3; threads++ {
				if testing.Short() && threads == 2 {
					continue
				}
				if got := cpu.SetThreads(threads); got != threads {
					t.Fatalf("SetThreads(%d) = %d", threads, got)
				}
				got, gotLoss := run(t, CPU(), n)
				what := fmt.Sprintf("%s on %s with %d threads", n.name, isa, threads)
				bad := 0
				for i := range want {
					if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
						if bad++; bad < 3 {
							t.Errorf("%s: element %d of %d is %x, want %x", what, i, len(want), got[i], want[i])
						}
					}
				}
				for i := range wantLoss {
					if math.Float64bits(gotLoss[i]) != math.Float64bits(wantLoss[i]) {
						t.Errorf("%s: loss %d is %v, want %v", what, i, gotLoss[i], wantLoss[i])
					}
				}
			}
		}
	}
}

// TestBitsPinned compares with what other machines computed: the digest covers two
// nets' losses, gradients, parameters and moments.
func TestBitsPinned(t *testing.T) {
	h := sha256.New()
	for _, n := range []net{convNet(3, 9, 7, 3, 8, 3, 2, 1, Relu), gptNet(2, 5, 2, 4, 11, 2)} {
		out, losses := run(t, CPU(), n)
		out, losses = out[:len(out)/2], losses[:4] // AdamW and SGD
		if err := errors.Join(binary.Write(h, binary.LittleEndian, out), binary.Write(h, binary.LittleEndian, losses)); err != nil {
			t.Fatal(err)
		}
	}
	const want = "03d11a860ad5f7dcff71e482afaf21338aecdc56a47ca614918e458d08ea2364"
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}

// TestGradients compares the reference's gradients with central differences.
func TestGradients(t *testing.T) {
	for _, n := range []net{
		linearNet(5, 3, 7, 4, Relu), linearNet(6, 5, 8, 4, Gelu), convNet(2, 8, 8, 1, 3, 3, 1, 1, None), convNet(2, 7, 9, 2, 3, 3, 2, 1, Relu),
		gptNet(2, 5, 2, 4, 11, 2), gptNet(1, 67, 1, 4, 7, 1), attentionNet(2, 66, 2, 3), depthNet(2, 7, 6, 3, 3, 2, 1, Relu), addNet(4, 9), groupNet(2, 7, 6, 4, 6, 2), resNet(3, 5, 7, 2, 4),
	} {
		checkGradients(t, n)
	}
}

func checkGradients(t *testing.T, n net) {
	t.Helper()
	g := &Graph{}
	p, err := Compile(g, n.build(g), Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Reference().Open(p)
	if err != nil {
		t.Fatal(err)
	}
	w := make([]float32, p.ParamLen)
	num.FillNormal(w, 5, 0, 0.4)
	batch := n.batch(rand.New(rand.NewSource(4)))
	loss := func() float64 {
		if err := s.Write(Params, w); err != nil {
			t.Fatal(err)
		}
		s.ZeroGrads()
		l, err := s.Step(context.Background(), batch)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	loss()
	grads := make([]float32, p.ParamLen)
	if err := s.Read(Grads, grads); err != nil {
		t.Fatal(err)
	}
	size := math.Sqrt(num.SumSquares(grads) / float64(len(grads)))
	r, bad, tried := rand.New(rand.NewSource(6)), 0, 60
	for range tried {
		i := r.Intn(len(w))
		old, h := w[i], float32(1.0/512)
		w[i] = old + h
		up := loss()
		w[i] = old - h
		down := loss()
		w[i] = old
		diff := (up - down) / float64(2*h)
		if math.Abs(diff-float64(grads[i])) > 0.02*(size+math.Abs(diff)) {
			bad++
			t.Logf("%s: element %d: gradient %v, difference %v", n.name, i, grads[i], diff)
		}
	}
	// Differences across a kink of relu or of a maximum are wrong; few are met.
	if bad > tried/10 {
		t.Errorf("%s: %d of %d gradients differ (typical size %v)", n.name, bad, tried, size)
	}
}

// TestBF16 trains with rounded products on every instruction set: losses agree
// with the reference's to rounding, and with float32's roughly.
func TestBF16(t *testing.T) {
	n := gptNet(2, 20, 2, 8, 30, 2)
	losses := func(d Device, compute DType) (out []float64) {
		g := &Graph{}
		p, err := Compile(g, n.build(g), Options{Compute: compute})
		if err != nil {
			t.Fatal(err)
		}
		s := started(t, d, p, 3, 1, 0.1)
		b := n.batch(rand.New(rand.NewSource(8)))
		for step := range 5 {
			s.ZeroGrads()
			l, err := s.Step(context.Background(), b)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, l)
			if err := s.Update(Optimizer{Rule: SGD, Clip: 1}, UpdateArgs{LR: 0.1, Scale: 1.0 / 40, Step: uint64(step + 1)}); err != nil {
				t.Fatal(err)
			}
		}
		return out
	}
	near := func(what string, a, b []float64, tol float64) {
		t.Helper()
		for i := range a {
			if !(math.Abs(a[i]-b[i]) <= tol*math.Abs(b[i])) {
				t.Errorf("%s: loss %d is %v, want %v", what, i, a[i], b[i])
			}
		}
	}
	exact, want := losses(Reference(), F32), losses(Reference(), BF16)
	if exact[4] == want[4] {
		t.Error("rounding changes nothing")
	}
	near("reference", want, exact, 1e-2)
	isas := cpu.ISAs()
	if len(isas) > 0 {
		defer func() { _ = cpu.SetISA(isas[0]) }()
	}
	for _, isa := range isas {
		if err := cpu.SetISA(isa); err != nil {
			t.Fatal(err)
		}
		near(isa, losses(CPU(), BF16), want, 2e-4)
	}
}
