package tensorops

import (
	"context"
	"errors"
	"math"
	"math/rand"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/quick"

	"github.com/apiary-net/hived/tensorops/num"
)

// TestPlace checks that spans alive together never overlap and that the total is
// between the most that is alive at once and the sum of all.
func TestPlace(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	check := func() bool {
		spans := make([]span, 1+r.Intn(40))
		sum := 0
		alive := make([]int, 31)
		for i := range spans {
			a, b := r.Intn(30), r.Intn(30)
			spans[i] = span{size: 1 + r.Intn(100), first: min(a, b), last: max(a, b)}
			n := (spans[i].size + arenaAlign - 1) / arenaAlign * arenaAlign
			sum += n
			for s := spans[i].first; s <= spans[i].last; s++ {
				alive[s] += n
			}
		}
		total := place(spans)
		for i, a := range spans {
			if a.off%arenaAlign != 0 || a.off < 0 || a.off+a.size > total {
				return false
			}
			for _, b := range spans[:i] {
				if a.first <= b.last && b.first <= a.last && a.off < b.off+b.size && b.off < a.off+a.size {
					return false
				}
			}
		}
		most := 0
		for _, n := range alive {
			most = max(most, n)
		}
		return total >= most && total <= sum
	}
	if err := quick.Check(check, &quick.Config{MaxCount: 500}); err != nil {
		t.Error(err)
	}
}

// TestJoined counts the steps that a product finishes: gelu behind a layer, and its
// slope behind the gradient that only gelu reads.
func TestJoined(t *testing.T) {
	count := func(n net) (forward, backward int) {
		g := &Graph{}
		p, err := Compile(g, n.build(g), Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range p.Steps {
			switch {
			case s.joined && p.Steps[i+1].Op != "gelu":
				t.Errorf("%s: step %d %s is joined with %s", n.name, i, s.Op, p.Steps[i+1].Op)
			case s.joined && s.Backward:
				backward++
			case s.joined:
				forward++
			}
		}
		return forward, backward
	}
	if f, b := count(gptNet(2, 5, 2, 4, 11, 3)); f != 3 || b != 3 {
		t.Errorf("three layers: %d forward, %d backward", f, b)
	}
	if f, b := count(addNet(6, 37)); f != 1 || b != 0 { // the gradient passes an addition
		t.Errorf("shared value: %d forward, %d backward", f, b)
	}
}

// TestLayoutIsByName checks that the flat vector is in name order, with buffers in
// a vector of their own.
func TestLayoutIsByName(t *testing.T) {
	g := &Graph{}
	x, y := g.Input("x", F32, 2, 3), g.Input("y", I32, 2)
	w := g.Param("z", normal, true, 4, 3)
	b := g.Param("a", normal, false, 4)
	g.Param("m", Init{Scale: 1}, false, 7)
	g.Params[2].Buffer = true
	p, err := Compile(g, g.CrossEntropy(g.Linear(x, w, b, None), y), Options{})
	if err != nil {
		t.Fatal(err)
	}
	names, offs := "", []int{}
	for _, q := range p.Params {
		names += q.Name
		offs = append(offs, q.Off)
	}
	if names != "amz" || offs[0] != 0 || offs[1] != 0 || offs[2] != 4 || p.ParamLen != 16 || p.BufferLen != 7 {
		t.Errorf("names %s, offsets %v, lengths %d, %d", names, offs, p.ParamLen, p.BufferLen)
	}
	params, buffers := make([]float32, 16), make([]float32, 7)
	p.Init(1, params, buffers)
	if buffers[6] != 1 || params[0] == 0 || params[0] == params[4] {
		t.Errorf("start values %v, %v", params, buffers)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	n := gptNet(2, 64, 2, 16, 64, 4)
	g := &Graph{}
	p, err := Compile(g, n.build(g), Options{})
	if err != nil {
		t.Fatal(err)
	}
	g = &Graph{}
	if _, err := Compile(g, n.build(g), Options{MaxBytes: p.Peak}); err != nil {
		t.Errorf("exactly enough: %v", err)
	}
	g = &Graph{}
	if _, err := Compile(g, n.build(g), Options{MaxBytes: p.Peak / 2}); !errors.Is(err, ErrMemory) {
		t.Errorf("half of it: %v", err)
	}
	g = &Graph{}
	q, err := Compile(g, n.build(g), Options{Inference: true})
	if err != nil {
		t.Fatal(err)
	}
	if q.Arena*2 > p.Arena || len(q.Steps)*2 > len(p.Steps) {
		t.Errorf("inference takes arena %d of %d, %d steps of %d", q.Arena, p.Arena, len(q.Steps), len(p.Steps))
	}
}

// TestInferenceEqualsTraining compares the losses of both plans.
func TestInferenceEqualsTraining(t *testing.T) {
	n := gptNet(1, 20, 2, 4, 11, 2)
	var losses []float64
	for _, inference := range []bool{false, true} {
		g := &Graph{}
		loss := n.build(g)
		p, err := Compile(g, loss, Options{Inference: inference})
		if err != nil {
			t.Fatal(err)
		}
		s := started(t, CPU(), p, 3, 1, 0.3)
		l, err := s.Step(context.Background(), n.batch(rand.New(rand.NewSource(8))))
		if err != nil {
			t.Fatal(err)
		}
		losses = append(losses, l)
	}
	if losses[0] != losses[1] || losses[0] == 0 {
		t.Errorf("losses %v", losses)
	}
}

func TestSessionRefuses(t *testing.T) {
	n := linearNet(3, 4, 5, 2, Relu)
	g := &Graph{}
	p, err := Compile(g, n.build(g), Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := CPU().Open(p)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	good := n.batch(rand.New(rand.NewSource(1)))
	for _, b := range []Batch{{}, {Float: good.Float}, {Float: [][]float32{good.Float[0][1:]}, Int: good.Int}, {Float: good.Float, Int: [][]int32{append(good.Int[0], 0)}}} {
		if _, err := s.Step(ctx, b); !errors.Is(err, ErrBatch) {
			t.Errorf("batch of another shape: %v", err)
		}
	}
	dead, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.Step(dead, good); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
	if s.Read(Params, nil) == nil || s.Write(Vector(99), nil) == nil || s.Output(0, nil) == nil {
		t.Error("wrong vector or length is accepted")
	}
	if s.Update(Optimizer{}, UpdateArgs{LR: 1}) == nil {
		t.Error("update number 0 is accepted")
	}
	w := make([]float32, p.ParamLen)
	w[0] = float32(math.Inf(1))
	if err := s.Write(Grads, w); err != nil {
		t.Fatal(err)
	}
	if s.Update(Optimizer{Clip: 1, Eps: 1e-8}, UpdateArgs{LR: 1, Scale: 1, Step: 1}) == nil {
		t.Error("an infinite gradient is clipped and used")
	}
}

func TestBadShapesPanic(t *testing.T) {
	g := &Graph{}
	x, i := g.Input("x", F32, 2, 6), g.Input("i", I32, 2)
	w, b := g.Param("w", normal, true, 4, 6), g.Param("b", normal, false, 4)
	img := g.Input("img", F32, 2, 5, 5, 3)
	k := g.Param("k", normal, true, 4, 3, 3, 2)
	for name, f := range map[string]func(){
		"empty":        func() { Dims() },
		"zero":         func() { Dims(3, 0) },
		"five":         func() { Dims(1, 1, 1, 1, 1) },
		"reshape":      func() { g.Reshape(x, 5) },
		"twice":        func() { g.Param("w", normal, true, 1) },
		"linear":       func() { g.Linear(img, w, b, None) },
		"bias":         func() { g.Linear(x, w, w, None) },
		"relu":         func() { g.Linear(x, w, V{}, Relu) },
		"channels":     func() { g.Conv(img, k, b, 1, 1, None) },
		"pool":         func() { g.MaxPool2(x, None) },
		"embed":        func() { g.Embed(x, w, b) },
		"norm":         func() { g.Norm(x, V{}, b, b, 1e-5) },
		"heads":        func() { g.Attention(g.Input("q", F32, 1, 2, 9), 2, true) },
		"add":          func() { g.Add(x, img) },
		"labels":       func() { g.CrossEntropy(x, x) },
		"label number": func() { g.CrossEntropy(g.Input("l", F32, 3, 2), i) },
		"loss":         func() { _, _ = Compile(g, x, Options{}) },
	} {
		func() {
			defer func() {
				if r := recover(); r == nil || !strings.Contains(r.(string), "tensorops") {
					t.Errorf("%s: %v", name, r)
				}
			}()
			f()
		}()
	}
}

// TestNoContraction compiles the scalar kernels for arm64, where the compiler may
// fuse by itself, and looks for fused instructions. (On amd64 they are compiled
// for a processor that has none.)
func TestNoContraction(t *testing.T) {
	cc, err := exec.LookPath("aarch64-linux-gnu-gcc")
	if err != nil {
		t.Skip("no aarch64-linux-gnu-gcc to compile with")
	}
	fused := regexp.MustCompile(`\b(fmadd|fmsub|fnmadd|fnmsub|fmla|fmls)\b`)
	for _, c := range []struct {
		file string
		want bool
	}{{"cpu/kern_scalar.c", false}, {"cpu/api.c", false}, {"cpu/kern_neon_arm64.c", true}} {
		out, err := exec.Command(cc, "-O3", "-S", "-o", "-", c.file).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if got := fused.Match(out); got != c.want {
			t.Errorf("%s has fused instructions: %v, want %v", c.file, got, c.want)
		}
	}
}

// TestGradientsStartAnew checks that what a session's vector of gradients held before
// ZeroGrads is seen nowhere: in no step's gradients, nor in those of a parameter that
// no step reaches, nor without a step; and that a second step adds.
func TestGradientsStartAnew(t *testing.T) {
	n := gptNet(1, 5, 2, 4, 11, 1)
	g := &Graph{}
	loss := n.build(g)
	g.Param("unused", normal, true, 3)
	p, err := Compile(g, loss, Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := n.batch(rand.New(rand.NewSource(1)))
	grads := func(dirty bool, steps int) []float32 {
		s := started(t, CPU(), p, 1, 1, 0.3)
		x := make([]float32, p.ParamLen)
		if dirty {
			num.FillNormal(x, 1, 2, 1)
			if err := s.Write(Grads, x); err != nil {
				t.Fatal(err)
			}
			s.ZeroGrads()
		}
		for range steps {
			if _, err := s.Step(context.Background(), b); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Read(Grads, x); err != nil {
			t.Fatal(err)
		}
		return x
	}
	once := grads(false, 1)
	for steps := range 3 {
		if got := grads(true, steps); !slices.Equal(got, grads(false, steps)) {
			t.Errorf("%d steps: gradients depend on what was there before", steps)
		} else if i := p.Params[0].Off; steps == 2 && got[i] != 2*once[i] {
			t.Errorf("two steps give %v, one gives %v", got[i], once[i])
		}
	}
}
