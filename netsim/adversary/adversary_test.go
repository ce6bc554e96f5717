package adversary

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apiary-net/hived/wire"
)

// TestEachLies wants every adversary to change something, or to be outside.
func TestEachLies(t *testing.T) {
	if _, err := New("honest"); err == nil {
		t.Error("a lie that is none")
	}
	for _, name := range Names() {
		a, err := New(name)
		if err != nil || a.About() == "" {
			t.Fatal(name, err)
		}
		lies := 0
		if u, ok := a.(Updater); ok {
			h := &Honest{}
			h.Learn([]float32{1, 2})
			h.Learn([]float32{3, 5})
			x := []float32{7, 8}
			if u.Update(x, h); !slices.Equal(x, []float32{7, 8}) {
				lies++
			}
			u.Update(x, nil) // nobody has learned anything
		}
		if g, ok := a.(Gradienter); ok {
			x := []float32{7, 8}
			if g.Gradient(x); !slices.Equal(x, []float32{7, 8}) {
				lies++
			}
		}
		if s, ok := a.(Server); ok && len(s.Serve([]byte{1})) == 0 {
			lies++
		}
		if s, ok := a.(Slow); ok && s.Up() < 1000 {
			lies++
		}
		if f, ok := a.(Forger); ok {
			h := wire.Header{Spans: []wire.Span{{Lo: 1, Hi: 2}}}
			if f.Forge(&h, 1) && (h.Loss != 0 || h.Spans[0].Hi != 2) {
				lies++
			}
		}
		if l, ok := a.(Listener); ok {
			for range 2 * remembered {
				l.Heard([]byte{1})
			}
		}
		if n, ok := a.(Noisy); ok && len(n.Noise(View{Key: wire.NewKey(), Rand: rand.New(rand.NewPCG(1, 1))})) > 0 {
			lies++
		}
		if lies == 0 {
			t.Errorf("%s does not lie", name)
		}
	}
}
