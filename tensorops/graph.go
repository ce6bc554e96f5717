package tensorops

import "fmt"

// V names a value of a graph; it holds no data.
type V struct {
	id    int
	Shape Shape
	Type  DType
}

// Init says how a parameter starts: Normal values times Scale, or the constant
// Scale where Normal is false.
type Init struct {
	Normal bool
	Scale  float32
}

// Param is a named tensor of a model. Off is its first element in the flat vector
// of its kind (parameters or buffers), known after Compile.
type Param struct {
	Name   string
	Shape  Shape
	Off    int
	Init   Init
	Decay  bool // weight decay applies
	Buffer bool // state without gradient
	Hidden bool // a matrix between layers, known after Compile: see Muon
	val    int
}

type valueKind uint8

const (
	activation valueKind = iota
	input
	parameter
)

// value is what the graph knows of a V.
type value struct {
	name  string
	kind  valueKind
	size  int
	index int // of the input or parameter; producing node of an activation
	grad  bool
}

// node is one op with its operands.
type node struct {
	op      op
	in, out []V
	again   bool // backward computes it again instead of keeping what it made
}

// op is a differentiable operation; each lives in its own file.
type op interface {
	name() string
	// aux returns how many floats backward needs of what forward computed, work
	// how many floats of scratch backward needs.
	aux() (keep, work int)
	// reads reports which inputs and outputs backward looks at, by bits.
	reads() (in, out uint)
	// shares returns the output whose gradient buffer may serve as gradient of the
	// activations among the inputs of the mask, or -1.
	shares() (out int, in uint)
	// edits reports that backward changes the gradient of its output in place.
	edits() bool
	// writes reports which inputs' gradients backward writes, where call.fresh says so,
	// instead of adding to them, by bits.
	writes() uint
	forward(k kernels, c *call)
	backward(k kernels, c *call)
}

// Graph is an append-only list of ops. The zero value is empty.
type Graph struct {
	Params []Param
	values []value
	nodes  []node
	inputs []V
}

// Input declares data that arrives with each batch; inputs of one type are
// numbered in order of declaration (see Batch).
func (g *Graph) Input(name string, t DType, dims ...int) V {
	v := g.value(name, input, Dims(dims...), t)
	g.values[v.id].index = len(g.inputs)
	g.inputs = append(g.inputs, v)
	return v
}

// Param declares a float32 parameter; names are unique.
func (g *Graph) Param(name string, init Init, decay bool, dims ...int) V {
	for _, p := range g.Params {
		if p.Name == name {
			panic(fmt.Sprintf("tensorops: parameter %q declared twice", name))
		}
	}
	v := g.value(name, parameter, Dims(dims...), F32)
	g.values[v.id].index = len(g.Params)
	g.values[v.id].grad = true
	g.Params = append(g.Params, Param{Name: name, Shape: v.Shape, Init: init, Decay: decay, val: v.id})
	return v
}

// Buffer declares float32 state without gradient, which ops change as they run.
func (g *Graph) Buffer(name string, init Init, dims ...int) V {
	v := g.Param(name, init, false, dims...)
	g.Params[len(g.Params)-1].Buffer = true
	g.values[v.id].grad = false
	return v
}

// Reshape returns x under another shape of the same size; the data is shared.
func (g *Graph) Reshape(x V, dims ...int) V {
	s := Dims(dims...)
	if s.Size() != x.Shape.Size() {
		panic(fmt.Sprintf("tensorops: reshape %v to %v", x.Shape, s))
	}
	x.Shape = s
	return x
}

// Checkpoint returns f(x), of which a training plan keeps nothing that f made but
// the result: backward runs f again from x. It costs one more forward of f and has
// the same bits. Checkpoints may be nested; all are run again from the innermost x.
func (g *Graph) Checkpoint(x V, f func(x V) V) V {
	from := len(g.nodes)
	y := f(x)
	for i := from; i < len(g.nodes); i++ {
		again := true
		for _, v := range g.nodes[i].out {
			again = again && v.id != y.id
		}
		g.nodes[i].again = g.nodes[i].again || again
	}
	return y
}

func (g *Graph) value(name string, k valueKind, s Shape, t DType) V {
	g.values = append(g.values, value{name: name, kind: k, size: s.Size()})
	return V{id: len(g.values) - 1, Shape: s, Type: t}
}

// apply appends an op and returns its outputs.
func (g *Graph) apply(o op, in []V, out ...Shape) []V {
	n := node{op: o, in: in}
	grad := false
	for _, v := range in {
		grad = grad || g.values[v.id].grad
	}
	for _, s := range out {
		v := g.value(o.name(), activation, s, F32)
		g.values[v.id].index = len(g.nodes)
		g.values[v.id].grad = grad
		n.out = append(n.out, v)
	}
	g.nodes = append(g.nodes, n)
	return n.out
}

// want panics unless v has the type and dimensions given.
func want(op, what string, v V, t DType, dims ...int) {
	if v.Type != t || v.Shape != Dims(dims...) {
		panic(fmt.Sprintf("tensorops: %s: %s is %v, want %v", op, what, v.Shape, dims))
	}
}

// leaf gives ops the answers that most of them share.
type leaf struct{}

func (leaf) aux() (int, int)     { return 0, 0 }
func (leaf) shares() (int, uint) { return -1, 0 }
func (leaf) edits() bool         { return false }
func (leaf) writes() uint        { return 0 }
