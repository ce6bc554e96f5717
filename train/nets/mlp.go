package nets

import (
	"fmt"
	"math"

	ops "github.com/apiary-net/hived/tensorops"
	"github.com/apiary-net/hived/train/data"
)

// kaiming is the start for layers before relu (He et al. 2015, equation 10).
func kaiming(fanIn int) ops.Init {
	return ops.Init{Normal: true, Scale: float32(math.Sqrt(2 / float64(fanIn)))}
}

// dense is a linear layer with parameters NAME.weight and NAME.bias.
func dense(g *ops.Graph, x ops.V, name string, out int, act ops.Act) ops.V {
	_, in := x.Shape.Last()
	init := kaiming(in)
	return g.Linear(x, g.Param(name+".weight", init, true, out, in), g.Param(name+".bias", ops.Init{}, false, out), act)
}

// keysOf declares the samples' keys; dropping applies dropout by them.
type keysOf struct {
	g    *ops.Graph
	keys ops.V
	salt uint64
	rate float64
}

// newKeys declares the input only where something is dropped.
func newKeys(g *ops.Graph, batch int, rate float64) *keysOf {
	k := &keysOf{g: g, rate: rate}
	if rate > 0 {
		k.keys = g.Input("keys", ops.I32, batch)
	}
	return k
}

// drop applies dropout where there is any; each call is a layer of its own.
func (k *keysOf) drop(x ops.V) ops.V {
	if k.rate == 0 {
		return x
	}
	k.salt++
	return k.g.Dropout(x, k.keys, k.rate, k.salt)
}

// mlpFamily is hidden layers of relu over flat samples.
var mlpFamily = family{
	sizes: []size{{"inputs", 784, 1, 1 << 20}, {"hidden", 256, 1, 1 << 16}, {"layers", 2, 0, 32}, {"classes", 10, 2, 1 << 16}, {"dropout", 0, 0, 900}},
	presets: map[string]sizes{
		"tiny": {"hidden": 64, "layers": 1}, "small": {"hidden": 256, "layers": 2}, "base": {"hidden": 512, "layers": 3, "dropout": 100},
	},
	form: func(a sizes) data.Form {
		return data.Form{Kind: "table", Dims: []int{a.of("inputs")}, Classes: a.of("classes"), Terms: 1}
	},
	build: func(a sizes, g *ops.Graph, batch int) (loss, out ops.V) {
		x, y := g.Input("values", ops.F32, batch, a.of("inputs")), g.Input("labels", ops.I32, batch)
		keys := newKeys(g, batch, a.share("dropout"))
		for l := range a.of("layers") {
			x = keys.drop(dense(g, x, fmt.Sprintf("fc%d", l+1), a.of("hidden"), ops.Relu))
		}
		out = dense(g, x, fmt.Sprintf("fc%d", a.of("layers")+1), a.of("classes"), ops.None)
		return g.CrossEntropy(out, y), out
	},
}
