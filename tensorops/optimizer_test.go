package tensorops

import (
	"math"
	"testing"

	"github.com/apiary-net/hived/tensorops/num"
)

func optimizerSession(extra int) *hostSession {
	return &hostSession{k: reference{}, part: make([]float64, 8), extra: make([]float32, extra)}
}

// TestMuonIsOrthogonal checks that a step's direction has singular values near one:
// O O' is near the identity in the smaller dimension, for wide and tall matrices,
// and that decay and size are as stated.
func TestMuonIsOrthogonal(t *testing.T) {
	for _, shape := range [][2]int{{6, 20}, {20, 6}, {8, 8}} {
		r, c := shape[0], shape[1]
		q := &Param{Shape: Dims(r, c)}
		s := optimizerSession(muonFloats(*q))
		p, m, g := make([]float32, r*c), make([]float32, r*c), make([]float32, r*c)
		num.FillNormal(g, 3, uint64(r), 1)
		for i := range p {
			p[i] = 2
		}
		o := Optimizer{Rule: Muon, Momentum: 0.85, Boost: 1.5}
		s.muon(o, q, p, m, g, &coef{1, 0.01, 0.9, 0.95, 1e-8, 0.5, 1, 1})
		size := 1.5 * 0.01 * 0.2 * math.Sqrt(float64(max(r, c)))
		at := func(i, j int) float64 { return (2*(1-0.5*0.01) - float64(p[i*c+j])) / size }
		n := min(r, c)
		trace := 0.0
		for i := range n {
			sum := 0.0
			for k := range max(r, c) {
				if r <= c {
					sum += at(i, k) * at(i, k)
				} else {
					sum += at(k, i) * at(k, i)
				}
			}
			trace += sum
			if sum < 0.3 || sum > 1.7 {
				t.Errorf("%v: row %d has square length %v", shape, i, sum)
			}
		}
		if trace /= float64(n); trace < 0.6 || trace > 1.3 {
			t.Errorf("%v: mean square of the singular values is %v", shape, trace)
		}
		if d := math.Abs(float64(m[3]) - 0.15*float64(g[3])); d > 1e-6 {
			t.Errorf("%v: momentum %v of gradient %v", shape, m[3], g[3])
		}
	}
}

// TestLAMB compares two steps with float64 by the paper's formula.
func TestLAMB(t *testing.T) {
	const n = 50
	s := optimizerSession(n)
	p, m, v, g := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
	num.FillNormal(p, 1, 1, 0.5)
	x, mm, vv := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range p {
		x[i] = float64(p[i])
	}
	const lr, b1, b2, eps, wd, scale = 0.02, 0.9, 0.99, 1e-6, 0.1, 0.25
	for step := uint64(1); step <= 2; step++ {
		num.FillNormal(g, 2, step, 1)
		s.lamb(p, m, v, g, coef{scale, lr, b1, b2, eps, wd, num.BiasCorrection(b1, step), num.BiasCorrection(b2, step)})
		r := make([]float64, n)
		var a, b float64
		for i := range r {
			d := float64(g[i]) * scale
			mm[i], vv[i] = b1*mm[i]+(1-b1)*d, b2*vv[i]+(1-b2)*d*d
			r[i] = mm[i]/(1-math.Pow(b1, float64(step)))/(math.Sqrt(vv[i]/(1-math.Pow(b2, float64(step))))+eps) + wd*x[i]
			a, b = a+x[i]*x[i], b+r[i]*r[i]
		}
		for i := range r {
			x[i] -= lr * math.Sqrt(a/b) * r[i]
			if math.Abs(x[i]-float64(p[i])) > 1e-5 {
				t.Fatalf("step %d, element %d: %v, want %v", step, i, p[i], x[i])
			}
		}
	}
}

// TestHidden checks which parameters Muon takes: no embedding, no last layer, no
// vector, no matrix that is also an embedding.
func TestHidden(t *testing.T) {
	g := &Graph{}
	p, err := Compile(g, gptNet(2, 5, 2, 4, 11, 1).build(g), Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, q := range p.Params {
		if q.Hidden {
			got += q.Name + " "
		}
	}
	if got != "h00.f h00.o h00.p h00.qkv " {
		t.Errorf("hidden: %s", got)
	}
	if a, b := p.OptimizerBytes(Optimizer{Rule: AdamW}), p.OptimizerBytes(Optimizer{Rule: Muon}); a != 0 || b != 4*(2*24*8+3*64) {
		t.Errorf("optimizers take %d and %d bytes", a, b)
	}
}
