package netsim

import (
	"slices"
	"time"

	"github.com/apiary-net/hived/netsim/adversary"
	"github.com/apiary-net/hived/wire"
)

// Adversaries returns the names that GroupSpec.Lie may have.
func Adversaries() []string { return adversary.Names() }

// isStranger reports whether liars of that name are not admitted to the run.
func isStranger(lie string) bool {
	a, err := adversary.New(lie)
	if err != nil {
		return false
	}
	_, ok := a.(adversary.Stranger)
	return ok
}

// liar connects an adversary with its node: it asks it for what it can do.
type liar struct {
	adversary.Adversary
	name string
	n    *Node
}

func newLiar(name string, n *Node) *liar {
	a, err := adversary.New(name)
	if err != nil {
		panic(err) // Check has seen it
	}
	if s, ok := a.(adversary.Slow); ok {
		n.wires.link.Up = s.Up()
	}
	return &liar{a, name, n}
}

// learn takes an honest update into the books; delta is base - theta.
func (sw *Swarm) learn(round uint64, delta []float32) {
	if !sw.omniscient {
		return
	}
	if sw.newest == nil || sw.newest.Round != round {
		sw.before, sw.newest = sw.newest, &adversary.Honest{Round: round}
	}
	sw.newest.Learn(delta)
}

// update changes what a local training gave; delta is base - theta.
func (l *liar) update(delta []float32) {
	if a, ok := l.Adversary.(adversary.Updater); ok {
		a.Update(delta, l.n.sw.before)
	}
}

// gradient changes one step of a window.
func (l *liar) gradient(g []float32) {
	if a, ok := l.Adversary.(adversary.Gradienter); ok {
		a.Gradient(g)
	}
}

// block is what is given to those who ask for b; nil is nothing.
func (l *liar) block(b []byte) []byte {
	if a, ok := l.Adversary.(adversary.Server); ok {
		return a.Serve(b)
	}
	return b
}

func (l *liar) heard(b []byte) {
	if a, ok := l.Adversary.(adversary.Listener); ok {
		a.Heard(b)
	}
}

// say announces b, or what the liar makes of it.
func (l *liar) say(lf *life, to []*Node, b []byte) {
	forger, ok := l.Adversary.(adversary.Forger)
	e, err := wire.Open(b)
	var h wire.Header
	ok = ok && err == nil && e.Kind == wire.KindHeader && e.Decode(&h) == nil
	for i, o := range to {
		other := h
		other.Spans = slices.Clone(h.Spans)
		if ok && forger.Forge(&other, i) {
			lf.announce(o, wire.Seal(l.n.Key, wire.KindHeader, e.Run, e.Round, &other).Bytes())
			continue
		}
		lf.announce(o, b)
	}
}

// begin starts what a liar does by itself, again and again.
func (l *liar) begin() {
	const often = 250 * time.Millisecond
	noisy, ok := l.Adversary.(adversary.Noisy)
	if !ok {
		return
	}
	var again func()
	again = func() {
		if l.n.sw.closed {
			return
		}
		if lf := l.n.life; lf != nil {
			for _, b := range noisy.Noise(l.view()) {
				for _, o := range l.n.sw.neighbours(l.n) {
					lf.announce(o, b)
				}
			}
		}
		l.n.sw.Loop.After(often, again)
	}
	l.n.sw.Loop.After(often, again)
}

// view is what the liar knows.
func (l *liar) view() adversary.View {
	sw := l.n.sw
	v := adversary.View{Key: l.n.Key, Run: sw.Run, Schema: sw.Genesis.Schema, Data: sw.root, Rand: sw.rng}
	if h := sw.check.head(); h != nil {
		v.Version = h.Certified.Version
	}
	return v
}
