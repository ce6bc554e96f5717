package nets

import (
	"fmt"

	ops "github.com/apiary-net/hived/tensorops"
	"github.com/apiary-net/hived/train/data"
)

// imageSizes are the arguments that images decide.
var imageSizes = []size{{"height", data.Side, 4, 1024}, {"width", data.Side, 4, 1024}, {"channels", 1, 1, 64}, {"classes", 10, 2, 1 << 16}}

func imageForm(a sizes) data.Form {
	return data.Form{Kind: "image", Dims: []int{a.of("height"), a.of("width"), a.of("channels")}, Classes: a.of("classes"), Terms: 1}
}

// convnetFamily is two 3x3 convolutions with pooling and two dense layers; for
// digits [B,28,28,1] it has 421,642 parameters.
var convnetFamily = family{
	sizes: append([]size{{"filters", 32, 1, 512}, {"dense", 128, 1, 8192}, {"dropout", 0, 0, 900}}, imageSizes...),
	presets: map[string]sizes{
		"tiny": {"filters": 8, "dense": 32}, "small": {"filters": 16, "dense": 64}, "base": {"filters": 32, "dense": 128},
	},
	form: imageForm,
	build: func(a sizes, g *ops.Graph, batch int) (loss, out ops.V) {
		x, y := g.Input("images", ops.F32, batch, a.of("height"), a.of("width"), a.of("channels")), g.Input("labels", ops.I32, batch)
		keys := newKeys(g, batch, a.share("dropout"))
		v, in := x, a.of("channels")
		for i := range 2 {
			n, o := fmt.Sprintf("conv%d.", i+1), a.of("filters")<<i
			w := g.Param(n+"weight", kaiming(9*in), true, o, 3, 3, in)
			v = g.Conv(v, w, g.Param(n+"bias", ops.Init{}, false, o), 1, 1, ops.None)
			v, in = g.MaxPool2(v, ops.Relu), o
		}
		v = keys.drop(g.Reshape(v, batch, v.Shape[1]*v.Shape[2]*in))
		v = keys.drop(dense(g, v, "fc1", a.of("dense"), ops.Relu))
		out = dense(g, v, "fc2", a.of("classes"), ops.None)
		return g.CrossEntropy(out, y), out
	},
}
