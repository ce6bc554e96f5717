package merge

import (
	"errors"
	"math"
	"math/big"
	"math/rand"
	"testing"
	"testing/quick"

	"github.com/apiary-net/hived/tensorops/num"
)

func mustRule(t testing.TB, name string) Rule {
	t.Helper()
	r, err := NewRule(name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// round53 rounds to float64, round24 to float32, nearest even, from exact.
func round53(x *big.Float) float64 { f, _ := x.Float64(); return f }
func round24(x *big.Float) float32 { f, _ := x.Float32(); return f }

// slowMerge folds one value with exact numbers and explicit roundings.
func slowMerge(x, a []float32, total float64) float32 {
	acc := 0.0
	exact := func(f float64) *big.Float { return new(big.Float).SetPrec(4000).SetFloat64(f) }
	for i := range x {
		p := exact(float64(a[i]))
		p.Mul(p, exact(float64(x[i])))
		acc = round53(p.Add(p, exact(acc)))
	}
	q := new(big.Float).SetPrec(53).Quo(exact(acc), exact(total)) // one rounding
	f := round24(q)
	if f == 0 {
		return 0
	}
	return f
}

func TestMergeAgainstExact(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	check := func() bool {
		peers, n := 1+r.Intn(9), 1+r.Intn(5)
		stats, in := make([]Stat, peers), make([][]float32, peers)
		for i := range in {
			in[i] = make([]float32, n)
			for j := range in[i] {
				in[i][j] = float32(r.NormFloat64() * math.Pow(2, float64(r.Intn(60)-40)))
				switch r.Intn(10) {
				case 0:
					in[i][j] = float32(math.Copysign(0, -1))
				case 1:
					in[i][j] = math.Float32frombits(r.Uint32() & 0x807FFFFF) // denormal
				case 2:
					in[i][j] = -in[0][j]
				}
			}
			stats[i] = Stat{1 + uint32(r.Intn(MaxSamples)), num.SumSquares(in[i])}
		}
		for _, name := range Names() {
			rule := mustRule(t, name)
			a, total, err := rule.Weights(stats)
			if err != nil {
				t.Fatal(err)
			}
			out := make([]float32, n)
			if rep, err := rule.Merge(out, in, a, total); err != nil || rep.NonFinite {
				t.Fatal(rep, err)
			}
			for j := range out {
				x := make([]float32, peers)
				for i := range in {
					x[i] = in[i][j]
				}
				if want := slowMerge(x, a, total); math.Float32bits(want) != math.Float32bits(out[j]) {
					t.Logf("%s: %x, want %x", name, out[j], want)
					return false
				}
			}
		}
		return true
	}
	if err := quick.Check(check, &quick.Config{MaxCount: 300}); err != nil {
		t.Error(err)
	}
}

func TestClipMedian(t *testing.T) {
	rule := mustRule(t, "clip-median")
	stats := []Stat{{10, 4}, {10, 1}, {10, 16}, {30, 1e8}, {10, 0}}
	a, total, err := rule.Weights(stats)
	if err != nil {
		t.Fatal(err)
	}
	// Norms 2, 1, 4, 10000, 0: lower median 2.
	want := []float32{10, 10, 5, float32(30 * float64(float32(2.0/10000))), 10}
	for i := range want {
		if a[i] != want[i] {
			t.Errorf("factor %d is %v, want %v", i, a[i], want[i])
		}
	}
	if total != 70 {
		t.Errorf("total %v", total)
	}
	// Two parts: the smaller norm bounds both.
	a, _, _ = rule.Weights([]Stat{{8, 9}, {8, 36}})
	if a[0] != 8 || a[1] != 4 {
		t.Errorf("factors of two %v", a)
	}
}

func TestDeclaredNumbersAreChecked(t *testing.T) {
	for _, name := range Names() {
		for _, s := range [][]Stat{nil, {{0, 1}}, {{MaxSamples + 1, 1}}, {{1, math.NaN()}}, {{1, math.Inf(1)}}, {{1, -1}}, {{1, 1}, {1, math.NaN()}}} {
			if _, _, err := mustRule(t, name).Weights(s); !errors.Is(err, ErrStat) {
				t.Errorf("%s of %v: %v", name, s, err)
			}
		}
	}
	if _, err := NewRule("vote"); err == nil {
		t.Error("unknown rule found")
	}
	if _, err := NewOuter("vote"); err == nil {
		t.Error("unknown outer step found")
	}
}

func TestNonFiniteIsReported(t *testing.T) {
	out := make([]float32, 3000)
	x := make([]float32, 3000)
	x[2999] = float32(math.Inf(1))
	rep, err := mustRule(t, "mean").Merge(out, [][]float32{x}, []float32{1}, 1)
	if err != nil || !rep.NonFinite {
		t.Errorf("report %v, %v", rep, err)
	}
}

func TestCanaryNoticesWrongProbes(t *testing.T) {
	if err := Canary(); err != nil {
		t.Fatal(err)
	}
	old := probes
	defer func() { probes = old }()
	probes.tiny = 0 // as if denormals were flushed
	if !errors.Is(Canary(), ErrArithmetic) {
		t.Error("flushed denormals pass")
	}
	if _, err := mustRule(t, "mean").Merge(nil, nil, nil, 1); !errors.Is(err, ErrArithmetic) {
		t.Errorf("merge on a bad thread: %v", err)
	}
}

// TestOuterAgainstExact replays each step with exact arithmetic, one rounding for
// one operation.
func TestOuterAgainstExact(t *testing.T) {
	mul := func(a, b float32) float32 {
		return round24(new(big.Float).Mul(big.NewFloat(float64(a)), big.NewFloat(float64(b))))
	}
	sum := func(a, b float32) float32 {
		x := new(big.Float).SetPrec(600).SetFloat64(float64(a))
		return round24(x.Add(x, big.NewFloat(float64(b))))
	}
	div := func(a, b float32) float32 {
		x := new(big.Float).SetPrec(600)
		return round24(x.Quo(big.NewFloat(float64(a)), big.NewFloat(float64(b))))
	}
	root := func(a float32) float32 {
		x := new(big.Float).SetPrec(600).SetFloat64(float64(a))
		return round24(x.Sqrt(x))
	}
	slow := map[string]func(th, m, v *float32, d float32, c Coef){
		"none": func(th, _, _ *float32, d float32, _ Coef) { *th = sum(*th, -d) },
		"sgd":  func(th, _, _ *float32, d float32, c Coef) { *th = sum(*th, -mul(c.LR, d)) },
		"nesterov": func(th, m, _ *float32, d float32, c Coef) {
			*m = sum(mul(c.Momentum, *m), d)
			*th = sum(*th, -mul(c.LR, sum(mul(c.Momentum, *m), d)))
		},
		"adamw": func(th, m, v *float32, d float32, c Coef) {
			*m = sum(mul(c.Beta1, *m), mul(sum(1, -c.Beta1), d))
			*v = sum(mul(c.Beta2, *v), mul(sum(1, -c.Beta2), mul(d, d)))
			q := div(mul(*m, c.Bias1), sum(root(mul(*v, c.Bias2)), c.Eps))
			*th = sum(*th, -mul(c.LR, sum(q, mul(c.WeightDecay, *th))))
		},
	}
	r := rand.New(rand.NewSource(2))
	for name, f := range slow {
		o, err := NewOuter(name)
		if err != nil {
			t.Fatal(err)
		}
		const n = 50
		theta, merged, state := make([]float32, n), make([]float32, n), make([]float32, o.StateLen(n))
		m, v := make([]float32, n), make([]float32, n)
		for i := range theta {
			theta[i] = float32(r.NormFloat64())
		}
		want := append([]float32(nil), theta...)
		for step := range 5 {
			c := Coef{LR: 0.7, Momentum: 0.9, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, WeightDecay: 0.1, Bias1: 1 / (1 - float32(math.Pow(0.9, float64(step+1)))), Bias2: 3}
			for i := range merged {
				merged[i] = float32(r.NormFloat64() * 0.01)
				f(&want[i], &m[i], &v[i], merged[i], c)
			}
			o.Step(theta, state, merged, c)
		}
		for i := range theta {
			if math.Float32bits(theta[i]) != math.Float32bits(want[i]) {
				t.Errorf("%s: value %d is %x, want %x", name, i, theta[i], want[i])
				break
			}
		}
	}
}

func BenchmarkMerge(b *testing.B) {
	in, a := make([][]float32, 8), make([]float32, 8)
	for i := range in {
		in[i], a[i] = make([]float32, 65536), 64
		num.FillNormal(in[i], 1, uint64(i), 1)
	}
	out := make([]float32, 65536)
	rule := mustRule(b, "clip-median")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := rule.Merge(out, in, a, 512); err != nil {
			b.Fatal(err)
		}
	}
}
