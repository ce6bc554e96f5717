package tensorops

import (
	"fmt"
	"math"
	"math/rand"
	"testing"

	"github.com/apiary-net/hived/tensorops/cpu"
)

// attentionNet is one layer of attention over all positions, then their mean.
func attentionNet(b, t, heads, d int) net {
	c := heads * d
	return net{fmt.Sprintf("attention-b%dt%dh%dd%d", b, t, heads, d), func(g *Graph) V {
		x, y := g.Input("x", F32, b, t, 3), g.Input("y", I32, b)
		q := g.Linear(x, g.Param("qkv", normal, true, 3*c, 3), V{}, None)
		return g.CrossEntropy(g.Linear(g.Mean(g.Attention(q, heads, false)), g.Param("f", normal, true, 5, c), V{}, None), y)
	}, func(r *rand.Rand) Batch {
		return Batch{Float: [][]float32{floats(r, b*t*3)}, Int: [][]int32{labels(r, b, 5)}}
	}}
}

// TestAttentionSees checks which inputs a position's result depends on.
func TestAttentionSees(t *testing.T) {
	const T, d = 70, 4
	s := attnShape{b: 1, t: T, h: 1, d: d}
	r := rand.New(rand.NewSource(1))
	for _, s.full = range []bool{false, true} {
		x := floats(r, 3*T*d)
		a, b, stats := make([]float32, T*d), make([]float32, T*d), make([]float32, 2*T)
		reference{}.attentionForward(s, x, a, stats)
		const moved = 66
		for j := range 3 * d {
			x[moved*3*d+j]++
		}
		reference{}.attentionForward(s, x, b, stats)
		for i := range T {
			if got, want := a[i*d] != b[i*d], s.full || i >= moved; got != want {
				t.Errorf("full %v: position %d sees %d: %v", s.full, i, moved, got)
			}
		}
	}
}

// TestAttentionBF16 compares rounded attention on every instruction set with the
// reference, to the rounding of a few operands.
func TestAttentionBF16(t *testing.T) {
	isas := cpu.ISAs()
	if len(isas) == 0 {
		t.Skip("built without cgo: no kernels to compare")
	}
	defer func() { _ = cpu.SetISA(isas[0]) }()
	dev, err := CPU().Open(&Plan{})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewSource(2))
	for _, s := range []attnShape{{b: 1, t: 64, h: 2, d: 32}, {b: 2, t: 150, h: 1, d: 64}, {b: 1, t: 33, h: 3, d: 40}, {b: 1, t: 1, h: 1, d: 1}, {b: 1, t: 100, h: 1, d: 72, full: true}} {
		s.bf16 = true
		n := s.b * s.t * s.h * s.d
		x, dy := floats(r, 3*n), floats(r, n)
		run := func(k kernels) (y, dx []float32) {
			y, dx = make([]float32, n), make([]float32, 3*n)
			stats := make([]float32, s.b*s.h*s.t*2)
			k.attentionForward(s, x, y, stats)
			k.attentionBackward(s, x, y, stats, dy, dx)
			return y, dx
		}
		y, dx := run(reference{})
		for _, isa := range isas {
			if err := cpu.SetISA(isa); err != nil {
				t.Fatal(err)
			}
			gy, gdx := run(dev.(*hostSession).k)
			for what, p := range map[string][2][]float32{"results": {gy, y}, "gradients": {gdx, dx}} {
				bad := 0.0
				for i, f := range p[1] {
					bad = max(bad, math.Abs(float64(p[0][i]-f)))
				}
				if !(bad < 4e-3) {
					t.Errorf("%+v on %s: %s differ by up to %v", s, isa, what, bad)
				}
			}
		}
	}
}
