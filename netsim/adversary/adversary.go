// Package adversary holds the ways in which a simulated peer lies, one file each.
//
// A liar runs the daemon's own code and changes what goes in and out. What it
// changes it says by the further interfaces that it implements: Updater, Gradienter,
// Server, Listener, Forger, Noisy, Slow, Stranger. It knows what they hand it, and
// of the honest peers' updates more than any real one could.
//
// An adversary belongs to one simulated peer and one goroutine. All its chance comes
// from the View that it is given.
package adversary

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/apiary-net/hived/wire"
)

// all are the adversaries. A new one is a file and a line here; nothing else lists
// them.
var all = []struct {
	name string
	make func() Adversary
}{
	{"sign-flip", func() Adversary { return signFlip{} }},
	{"alie", func() Adversary { return alie{} }},
	{"ipm", func() Adversary { return ipm{} }},
	{"drift", func() Adversary { return drift{} }},
	{"copy", func() Adversary { return copyist{} }},
	{"free-rider", func() Adversary { return freeRider{} }},
	{"replay", func() Adversary { return &replay{} }},
	{"equivocate", func() Adversary { return equivocate{} }},
	{"withhold", func() Adversary { return withhold{} }},
	{"spam", func() Adversary { return spam{} }},
	{"lie-samples", func() Adversary { return lieSamples{} }},
	{"slow-loris", func() Adversary { return slowLoris{} }},
	{"sybil", func() Adversary { return sybil{} }},
}

// Names returns the names of all adversaries.
func Names() []string {
	var out []string
	for _, a := range all {
		out = append(out, a.name)
	}
	return out
}

// New returns a new adversary of that name.
func New(name string) (Adversary, error) {
	for _, a := range all {
		if a.name == name {
			return a.make(), nil
		}
	}
	return nil, fmt.Errorf("lie %q is not one of %s", name, strings.Join(Names(), ", "))
}

// Adversary is a way to lie.
type Adversary interface {
	// About says in a few words what it does.
	About() string
}

// Updater changes what a local training gave: base less what it reached. before is
// what the honest updates of the round before were like.
type Updater interface {
	Update(delta []float32, before *Honest)
}

// Gradienter changes one step of a window.
type Gradienter interface{ Gradient(g []float32) }

// Server returns what is given to those who ask for block b; nil is nothing.
type Server interface{ Serve(b []byte) []byte }

// Listener hears what others announce. It must not change b.
type Listener interface{ Heard(b []byte) }

// Forger changes the own header on its way to one of the others, who are numbered
// from 0, and reports whether it did. It is signed anew then.
type Forger interface {
	Forge(h *wire.Header, to int) bool
}

// Noisy announces out of turn, again and again.
type Noisy interface{ Noise(v View) [][]byte }

// Slow has an access of its own: bytes a second of what it sends.
type Slow interface{ Up() float64 }

// Stranger is not admitted to the run.
type Stranger interface{ Stranger() }

// View is what a noisy peer knows and may draw from.
type View struct {
	Key          wire.Key
	Run          wire.RunID
	Schema, Data wire.Digest // of the run
	Version      wire.CID    // newest that is certified
	Rand         *rand.Rand  // of the simulation
}

// Honest is what the honest updates of a round were like.
type Honest struct {
	Round    uint64
	n        float64
	sum, sqr []float64
}

// Learn takes an honest update into the books.
func (h *Honest) Learn(delta []float32) {
	if h.sum == nil {
		h.sum, h.sqr = make([]float64, len(delta)), make([]float64, len(delta))
	}
	h.n++
	for i, d := range delta {
		h.sum[i] += float64(d)
		h.sqr[i] += float64(d) * float64(d)
	}
}

// Of returns mean and standard deviation of parameter i; zeros of no updates.
func (h *Honest) Of(i int) (mean, std float64) {
	if h == nil {
		return 0, 0
	}
	mean = h.sum[i] / h.n
	return mean, math.Sqrt(max(0, h.sqr[i]/h.n-mean*mean))
}
