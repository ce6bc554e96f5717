package merge

import (
	"fmt"
	"math"
)

// Coef are the numbers of an outer step, float32 values of the round's record.
// Bias1 and Bias2 are 1/(1-beta^t).
type Coef struct {
	LR, Momentum, Beta1, Beta2, Eps, WeightDecay, Bias1, Bias2 float32
}

// Outer changes the version by a merged vector.
type Outer interface {
	// StateLen returns the length of the state for n parameters; it starts at zero.
	StateLen(n int) int
	// Step changes theta and state in place. merged points down: base less what
	// local steps reached, or a gradient.
	Step(theta, state, merged []float32, c Coef)
}

// outers are all outer steps. A new one is a type and a place here; nothing else
// lists them.
var outers = []named[Outer]{{"none", plain{}}, {"sgd", sgd{}}, {"nesterov", nesterov{}}, {"adamw", adamw{}}}

// OuterNames returns the names of all outer steps.
func OuterNames() []string { return namesOf(outers) }

// NewOuter returns the outer step of that name.
func NewOuter(name string) (Outer, error) { return find("outer step", outers, name) }

func mustFit(o Outer, theta, state, merged []float32) {
	if len(merged) != len(theta) || len(state) != o.StateLen(len(theta)) {
		panic(fmt.Sprintf("merge: outer step of %d by %d with a state of %d", len(theta), len(merged), len(state)))
	}
}

// plain: theta -= d.
type plain struct{}

func (plain) StateLen(int) int { return 0 }
func (o plain) Step(theta, state, merged []float32, _ Coef) {
	mustFit(o, theta, state, merged)
	for i, d := range merged {
		theta[i] -= d
	}
}

// sgd: theta -= lr*d.
type sgd struct{}

func (sgd) StateLen(int) int { return 0 }
func (o sgd) Step(theta, state, merged []float32, c Coef) {
	mustFit(o, theta, state, merged)
	for i, d := range merged {
		theta[i] -= float32(c.LR * d)
	}
}

// nesterov: m = mu*m + d; t = mu*m + d; theta -= lr*t (Sutskever et al. 2013 in
// the form of Douillard et al., "DiLoCo", 2023, algorithm 1).
type nesterov struct{}

func (nesterov) StateLen(n int) int { return n }
func (o nesterov) Step(theta, state, merged []float32, c Coef) {
	mustFit(o, theta, state, merged)
	for i, d := range merged {
		m := float32(c.Momentum*state[i]) + d
		state[i] = m
		t := float32(c.Momentum*m) + d
		theta[i] -= float32(c.LR * t)
	}
}

// adamw: m = b1*m + (1-b1)*d; v = b2*v + (1-b2)*(d*d);
// t = m*bias1/(sqrt(v*bias2)+eps) + wd*theta; theta -= lr*t. The state is m, then v.
type adamw struct{}

func (adamw) StateLen(n int) int { return 2 * n }
func (o adamw) Step(theta, state, merged []float32, c Coef) {
	mustFit(o, theta, state, merged)
	ms, vs := state[:len(theta)], state[len(theta):]
	d1, d2 := 1-c.Beta1, 1-c.Beta2
	for i, d := range merged {
		m := float32(c.Beta1*ms[i]) + float32(d1*d)
		s := float32(d * d)
		v := float32(c.Beta2*vs[i]) + float32(d2*s)
		ms[i], vs[i] = m, v
		root := float32(math.Sqrt(float64(float32(v * c.Bias2))))
		t := float32(m*c.Bias1)/(root+c.Eps) + float32(c.WeightDecay*theta[i])
		theta[i] -= float32(c.LR * t)
	}
}
