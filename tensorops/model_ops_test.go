package tensorops

import (
	"context"
	"fmt"
	"math"
	"math/rand"
	"testing"
)

// imageNet puts group norm, pooling, excitation and dropout behind a convolution.
func imageNet(b, h, w, c, groups int, act Act) net {
	return net{fmt.Sprintf("image-%dx%dx%dx%d-g%d-%d", b, h, w, c, groups, act), func(g *Graph) V {
		x, y, keys := g.Input("x", F32, b, h, w, 2), g.Input("y", I32, b), g.Input("keys", I32, b)
		v := g.Conv(x, g.Param("c1", normal, true, c, 3, 3, 2), g.Param("b1", normal, false, c), 1, 1, None)
		v = g.GroupNorm(v, g.Param("gain", normal, false, c), g.Param("shift", normal, false, c), groups, 1e-5, act)
		s := g.Sigmoid(g.Linear(g.Relu(g.Mean(v)), g.Param("s", normal, true, c, c), g.Param("sb", normal, false, c), None))
		v = g.Dropout(g.MaxPool2(g.Scale(v, s), None), keys, 0.25, 9)
		n := v.Shape[1] * v.Shape[2] * c
		return g.CrossEntropy(g.Linear(g.Reshape(v, b, n), g.Param("f", normal, true, 10, n), V{}, None), y)
	}, func(r *rand.Rand) Batch {
		return Batch{Float: [][]float32{floats(r, b*h*w*2)}, Int: [][]int32{labels(r, b, 10), ids(r, b, 1<<30)}}
	}}
}

// llamaNet is layers with root mean square norm, turned and grouped heads and a
// gated feed-forward.
func llamaNet(b, t, heads, kv, d, layers int) net {
	c := heads * d
	return net{fmt.Sprintf("llama-b%dt%dh%dk%dd%dl%d", b, t, heads, kv, d, layers), func(g *Graph) V {
		x, y := g.Input("x", F32, b, t, c), g.Input("y", I32, b, t)
		h := g.Linear(x, g.Param("in", normal, true, c, c), V{}, None)
		for l := range layers {
			p := fmt.Sprintf("h%02d.", l)
			n, _ := g.RMSNorm(h, V{}, g.Param(p+"n1", normal, false, c), 1e-5)
			q := g.Rope(g.Linear(n, g.Param(p+"qkv", normal, true, (heads+2*kv)*d, c), V{}, None), heads+kv, d, 10000, 3)
			a := g.Attention(g.RepeatKV(q, heads, kv), heads, true)
			n, h = g.RMSNorm(g.Linear(a, g.Param(p+"o", normal, true, c, c), V{}, None), h, g.Param(p+"n2", normal, false, c), 1e-5)
			f := g.Swiglu(g.Linear(n, g.Param(p+"f", normal, true, 4*c, c), V{}, None))
			h = g.Add(h, g.Linear(f, g.Param(p+"p", normal, true, c, 2*c), V{}, None))
		}
		return g.CrossEntropy(g.Linear(h, g.Param("out", normal, true, 7, c), V{}, None), y)
	}, func(r *rand.Rand) Batch {
		return Batch{Float: [][]float32{floats(r, b*t*c)}, Int: [][]int32{labels(r, b*t, 7)}}
	}}
}

// seriesNet is a GRU over dilated convolutions and a forecast of its last states.
func seriesNet(b, t, c, h, k, dilation int) net {
	levels := []float32{0.1, 0.5, 0.9}
	return net{fmt.Sprintf("series-b%dt%dc%dh%dk%dd%d", b, t, c, h, k, dilation), func(g *Graph) V {
		x, y := g.Input("x", F32, b, t, c), g.Input("y", F32, b*t)
		v := g.CausalConv(x, g.Param("c1", normal, true, h, k, c), g.Param("b1", normal, false, h), dilation, Relu)
		v = g.CausalConv(v, g.Param("c2", normal, true, h, k, h), g.Param("b2", normal, false, h), 1, None)
		v = g.GRU(v, g.Param("w", normal, true, 3*h, h), g.Param("u", normal, true, 3*h, h), g.Param("bw", normal, false, 3*h), g.Param("bu", normal, false, 3*h))
		v = g.Linear(v, g.Param("f", normal, true, 4, h), g.Param("fb", normal, false, 4), None)
		return g.Forecast(g.Reshape(v, b*t, 4), y, levels)
	}, func(r *rand.Rand) Batch {
		y := floats(r, b*t)
		y[len(y)/2] = float32(math.NaN())
		return Batch{Float: [][]float32{floats(r, b*t*c), y}}
	}}
}

// poolNet is means of windows behind a convolution.
func poolNet(b, h, w, c, k, stride int) net {
	return net{fmt.Sprintf("avgpool-%dx%dx%dx%d-k%ds%d", b, h, w, c, k, stride), func(g *Graph) V {
		x, y := g.Input("x", F32, b, h, w, 2), g.Input("y", I32, b)
		v := g.AvgPool(g.Conv(x, g.Param("c1", normal, true, c, 3, 3, 2), V{}, 1, 1, None), k, stride)
		n := v.Shape[1] * v.Shape[2] * c
		return g.CrossEntropy(g.Linear(g.Reshape(v, b, n), g.Param("f", normal, true, 4, n), V{}, None), y)
	}, func(r *rand.Rand) Batch {
		return Batch{Float: [][]float32{floats(r, b*h*w*2)}, Int: [][]int32{labels(r, b, 4)}}
	}}
}

func modelNets() []net {
	return []net{
		poolNet(2, 7, 6, 19, 3, 2), poolNet(1, 8, 9, 5, 2, 3), poolNet(2, 5, 5, 32, 3, 1),
		imageNet(3, 6, 7, 8, 4, Relu), imageNet(2, 4, 5, 6, 1, None), imageNet(2, 5, 6, 40, 5, Relu), imageNet(3, 4, 4, 16, 2, None),
		llamaNet(2, 6, 4, 2, 4, 2), llamaNet(1, 66, 2, 1, 8, 1), llamaNet(2, 3, 2, 2, 2, 1), llamaNet(2, 5, 2, 1, 34, 1),
		seriesNet(3, 9, 2, 5, 3, 2), seriesNet(1, 70, 3, 17, 2, 4),
	}
}

func TestModelGradients(t *testing.T) {
	for _, n := range []net{
		poolNet(2, 7, 6, 3, 3, 2), poolNet(1, 8, 9, 2, 2, 3), imageNet(3, 6, 7, 8, 4, Relu), imageNet(2, 4, 5, 6, 1, None), llamaNet(2, 6, 4, 2, 4, 1), llamaNet(2, 3, 2, 2, 2, 1),
		seriesNet(3, 9, 2, 5, 3, 2), seriesNet(2, 7, 3, 4, 2, 1),
	} {
		checkGradients(t, n)
	}
}

// TestGroupNormOutput checks that a group of one sample has mean 0 and variance 1.
func TestGroupNormOutput(t *testing.T) {
	g := &Graph{}
	x := g.Input("x", F32, 2, 3, 4, 6)
	v := g.GroupNorm(x, g.Param("gain", Init{Scale: 1}, false, 6), g.Param("shift", Init{}, false, 6), 3, 1e-9, None)
	got := output(t, g, v, Batch{Float: [][]float32{floats(rand.New(rand.NewSource(1)), 144)}})
	for n := range 2 {
		for q := range 3 {
			s, sq := 0.0, 0.0
			for p := range 12 {
				for j := range 2 {
					f := float64(got[(n*12+p)*6+2*q+j])
					s, sq = s+f, sq+f*f
				}
			}
			if math.Abs(s/24) > 1e-6 || math.Abs(sq/24-1) > 1e-5 {
				t.Errorf("sample %d, group %d: mean %v, square %v", n, q, s/24, sq/24)
			}
		}
	}
}

// output runs a plan for inference of v, with a loss that nobody reads, on the
// start values.
func output(t *testing.T, g *Graph, v V, b Batch) []float32 {
	t.Helper()
	n := v.Shape.Size()
	p, err := Compile(g, g.Forecast(g.Reshape(v, n, 1), g.Input("none", F32, n), nil), Options{Inference: true, Keep: []V{v}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := CPU().Open(p)
	if err != nil {
		t.Fatal(err)
	}
	params := make([]float32, p.ParamLen)
	p.Init(1, params, nil)
	if err := s.Write(Params, params); err != nil {
		t.Fatal(err)
	}
	b.Float = append(b.Float, make([]float32, n))
	if _, err := s.Step(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	out := make([]float32, n)
	if err := s.Output(0, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestDropoutMask checks the share that is dropped, that a key gives the same mask
// in another place of the batch, and that inference drops nothing.
func TestDropoutMask(t *testing.T) {
	o := &dropout{b: 3, n: 4001, keep: 2, bound: 1 << 31, salt: 5}
	x, y := make([]float32, 3*4001), make([]float32, 3*4001)
	for i := range x {
		x[i] = 1
	}
	o.mask([]int32{7, -9, 7}, x, y)
	zero := 0
	for i := range 4001 {
		if y[i] == 0 {
			zero++
		} else if y[i] != 2 {
			t.Fatalf("element %d is %v", i, y[i])
		}
		if y[i] != y[2*4001+i] {
			t.Fatalf("element %d differs with the same key", i)
		}
	}
	if zero < 1850 || zero > 2150 {
		t.Errorf("%d of 4001 dropped at rate 0.5", zero)
	}
	g := &Graph{}
	v := g.Dropout(g.Input("x", F32, 3, 8), g.Input("k", I32, 3), 0.5, 1)
	for _, f := range output(t, g, v, Batch{Float: [][]float32{x[:24]}, Int: [][]int32{{1, 2, 3}}}) {
		if f != 1 {
			t.Fatalf("inference gives %v for 1", f)
		}
	}
}

// TestRopeTables compares with the standard library's functions.
func TestRopeTables(t *testing.T) {
	cos, sin := RopeTables(500, 12, 16, 10000)
	for p := range 12 {
		for i := range 8 {
			a := float64(500+p) * math.Pow(10000, -float64(i)/8)
			if math.Abs(float64(cos[p*8+i])-math.Cos(a)) > 1e-6 || math.Abs(float64(sin[p*8+i])-math.Sin(a)) > 1e-6 {
				t.Fatalf("position %d, pair %d: %v %v, want %v %v", p, i, cos[p*8+i], sin[p*8+i], math.Cos(a), math.Sin(a))
			}
		}
	}
}

// TestExpPlain compares with the standard library's function.
func TestExpPlain(t *testing.T) {
	for x := float32(-95); x < 95; x += 0.0371 {
		want := math.Exp(float64(min(88, max(-87, x))))
		if got := expPlain(x); math.Abs(got-want) > 1e-9*want {
			t.Fatalf("exp(%v) is %v, want %v", x, got, want)
		}
	}
	if tanh32(-90) != -1 || tanh32(90) != 1 || tanh32(0) != 0 {
		t.Errorf("tanh: %v %v %v", tanh32(-90), tanh32(90), tanh32(0))
	}
}

func BenchmarkSwiglu(b *testing.B) {
	o := &swiglu{n: 256, c: 512}
	x, y := make([]float32, 2*256*512), make([]float32, 256*512)
	for i := range x {
		x[i] = float32(i%17) - 8
	}
	s, err := CPU().Open(&Plan{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		o.forward(s.(*hostSession).k, &call{in: [][]float32{x}, out: [][]float32{y}})
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(y)), "ns/element")
}
