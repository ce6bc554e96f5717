package netsim

import (
	"math"
	"time"

	"github.com/apiary-net/hived/wire"
)

// Adversary is how a peer lies. It runs the daemon's own code and changes what
// goes in and out.
type Adversary struct {
	Kind string
	n    *Node
	seen [][]byte // of replay: what was heard, bounded
}

// lies are the adversaries by name, with what they do.
var lies = []struct{ name, about string }{
	{"sign-flip", "sends its update with the sign turned"},
	{"alie", "stays within the spread of the honest updates (Baruch et al. 2019, arXiv 1902.06156)"},
	{"ipm", "sends the mean of the honest updates turned round (Xie et al. 2019, arXiv 1903.03936)"},
	{"drift", "adds the same direction every round"},
	{"copy", "sends what the honest sent in the round before"},
	{"free-rider", "does nothing and says that it did"},
	{"replay", "announces again what it has heard"},
	{"equivocate", "signs two headers and shows each to half of the peers"},
	{"withhold", "commits itself and serves nothing"},
	{"spam", "floods with garbage and with statements that it signed"},
	{"lie-samples", "claims samples that it was not dealt"},
	{"slow-loris", "serves at a few bytes a second"},
	{"sybil", "is not admitted and asks for a seat all the same"},
}

// Adversaries returns their names.
func Adversaries() []string {
	var out []string
	for _, l := range lies {
		out = append(out, l.name)
	}
	return out
}

func newAdversary(kind string, n *Node) *Adversary {
	if kind == "slow-loris" {
		n.wires.link.Up = 16 // bytes a second
	}
	return &Adversary{Kind: kind, n: n}
}

// honest is what the honest updates of a round were like, for those who know.
type honest struct {
	round    uint64
	n        float64
	sum, sqr []float64
}

// learn takes an honest update into the books; delta is base - theta.
func (sw *Swarm) learn(round uint64, delta []float32) {
	if !sw.omniscient {
		return
	}
	if sw.newest == nil || sw.newest.round != round {
		sw.before, sw.newest = sw.newest, &honest{round: round, sum: make([]float64, len(delta)), sqr: make([]float64, len(delta))}
	}
	sw.newest.n++
	for i, d := range delta {
		sw.newest.sum[i] += float64(d)
		sw.newest.sqr[i] += float64(d) * float64(d)
	}
}

// mean and std of parameter i.
func (h *honest) of(i int) (mean, std float64) {
	mean = h.sum[i] / h.n
	return mean, math.Sqrt(max(0, h.sqr[i]/h.n-mean*mean))
}

// update changes what a local training gave; delta is base - theta.
func (a *Adversary) update(delta []float32) {
	h := a.n.sw.before
	for i := range delta {
		mean, std := 0.0, 0.0
		if h != nil {
			mean, std = h.of(i)
		}
		switch a.Kind {
		case "sign-flip":
			delta[i] = -delta[i]
		case "ipm":
			delta[i] = float32(-mean)
		case "alie":
			delta[i] = float32(mean - std)
		case "drift":
			delta[i] += float32(0.05)
		case "copy":
			delta[i] = float32(mean)
		case "free-rider":
			delta[i] = 0
		}
	}
}

// gradient changes one step of a window.
func (a *Adversary) gradient(g []float32) {
	for i := range g {
		switch a.Kind {
		case "sign-flip", "ipm":
			g[i] = -g[i]
		case "drift":
			g[i] += 0.05
		case "free-rider":
			g[i] = 0
		}
	}
}

// block is what is given to those who ask for b; nil is nothing.
func (a *Adversary) block(b []byte) []byte {
	if a.Kind == "withhold" {
		return nil
	}
	return b
}

// heard remembers what can be replayed.
func (a *Adversary) heard(b []byte) {
	const remembered = 256
	if a.Kind == "replay" && len(a.seen) < remembered {
		a.seen = append(a.seen, b)
	}
}

// say announces b, or what the liar makes of it.
func (a *Adversary) say(lf *life, to []*Node, b []byte) {
	other := a.other(b)
	for i, o := range to {
		switch {
		case other == nil:
			lf.announce(o, b)
		case a.Kind == "lie-samples":
			lf.announce(o, other)
		default:
			lf.announce(o, [][]byte{b, other}[i%2])
		}
	}
}

// other is a second header for the one in b, or nil.
func (a *Adversary) other(b []byte) []byte {
	e, err := wire.Open(b)
	var h wire.Header
	if err != nil || e.Kind != wire.KindHeader || e.Decode(&h) != nil {
		return nil
	}
	switch a.Kind {
	case "equivocate":
		h.Loss = 1
	case "lie-samples":
		if len(h.Spans) == 0 {
			return nil
		}
		h.Spans = append([]wire.Span{}, h.Spans...)
		h.Spans[len(h.Spans)-1].Hi += 1000
	default:
		return nil
	}
	return wire.Seal(a.n.Key, wire.KindHeader, e.Run, e.Round, &h).Bytes()
}

// begin starts what a liar does by itself, again and again.
func (a *Adversary) begin() {
	const often = 250 * time.Millisecond
	if a.Kind != "replay" && a.Kind != "spam" && a.Kind != "sybil" {
		return
	}
	var again func()
	again = func() {
		if a.n.sw.closed {
			return
		}
		if lf := a.n.life; lf != nil {
			for _, b := range a.noise() {
				for _, o := range a.n.sw.neighbours(a.n) {
					lf.announce(o, b)
				}
			}
		}
		a.n.sw.Loop.After(often, again)
	}
	a.n.sw.Loop.After(often, again)
}

// noise is what a liar announces out of turn.
func (a *Adversary) noise() [][]byte {
	sw := a.n.sw
	switch a.Kind {
	case "replay":
		if len(a.seen) == 0 {
			return nil
		}
		return [][]byte{a.seen[sw.rng.IntN(len(a.seen))]}
	case "sybil":
		return [][]byte{wire.Seal(a.n.Key, wire.KindReady, sw.Run, 0, &wire.Ready{Schema: sw.Genesis.Schema, Data: sw.root}).Bytes()}
	}
	garbage := make([]byte, 512)
	for i := range garbage {
		garbage[i] = byte(sw.rng.Uint32())
	}
	round := sw.rng.Uint64N(1 << 20)
	var version wire.CID
	if h := sw.check.head(); h != nil {
		version = h.Certified.Version
	}
	attest := wire.Seal(a.n.Key, wire.KindAttest, sw.Run, round, &wire.Attest{Version: version}).Bytes()
	return [][]byte{garbage, attest}
}
