package nets

import (
	"fmt"
	"math"

	ops "github.com/apiary-net/hived/tensorops"
	"github.com/apiary-net/hived/train/data"
)

// quantileLevels are the forecasts besides the mean, by their number.
var quantileLevels = map[int][]float32{1: {0.5}, 3: {0.1, 0.5, 0.9}, 5: {0.05, 0.1, 0.5, 0.9, 0.95}}

// seqFamily forecasts targets from the last steps of a series: [B,T,C] to
// [B,targets,1+Q], a mean and Q quantiles each. cell 1 is a temporal
// convolutional network of residual blocks with doubling dilation (Bai et al.
// 2018), cell 2 a GRU. The last step is read.
var seqFamily = family{
	sizes: []size{{"steps", 72, 2, 4096}, {"channels", 1, 1, 1024}, {"targets", 1, 1, 1024}, {"quantiles", 3, 1, 5}, {"cell", 1, 1, 2}, {"hidden", 32, 1, 1024},
		{"layers", 4, 1, 12}, {"dropout", 0, 0, 900}},
	presets: map[string]sizes{
		"tiny": {"hidden": 8, "layers": 3}, "tcn": {"cell": 1, "hidden": 32, "layers": 5}, "gru": {"cell": 2, "hidden": 32, "layers": 1},
	},
	form: func(a sizes) data.Form {
		return data.Form{Kind: "series", Dims: []int{a.of("steps"), a.of("channels")}, Terms: a.of("targets")}
	},
	check: func(a sizes) error {
		if quantileLevels[a.of("quantiles")] == nil {
			return fmt.Errorf("quantiles is %d, want 1, 3 or 5", a["quantiles"])
		}
		return nil
	},
	build: func(a sizes, g *ops.Graph, batch int) (loss, out ops.V) {
		t, c, h, n := a.of("steps"), a.of("channels"), a.of("hidden"), a.of("targets")
		x, y := g.Input("series", ops.F32, batch, t, c), g.Input("targets", ops.F32, batch*n)
		keys := newKeys(g, batch, a.share("dropout"))
		v := x
		for l := range a.of("layers") {
			name := fmt.Sprintf("layer%d", l+1)
			if a["cell"] == 2 {
				v = keys.drop(gruLayer(g, v, name, h))
			} else {
				v = tcnLayer(g, v, name, h, 1<<l, keys)
			}
		}
		levels := quantileLevels[a.of("quantiles")]
		w := 1 + len(levels)
		last := g.Last(v)
		out = g.Linear(last, g.Param("head.weight", ops.Init{}, true, n*w, h), g.Param("head.bias", ops.Init{}, false, n*w), ops.None)
		out = g.Reshape(out, batch*n, w)
		return g.Forecast(out, y, levels), out
	},
}

func gruLayer(g *ops.Graph, x ops.V, name string, h int) ops.V {
	c := x.Shape[2]
	unit := func(n int) ops.Init { return ops.Init{Normal: true, Scale: float32(math.Sqrt(1 / float64(n)))} }
	return g.GRU(x, g.Param(name+".weight_ih", unit(c), true, 3*h, c), g.Param(name+".weight_hh", unit(h), true, 3*h, h),
		g.Param(name+".bias_ih", ops.Init{}, false, 3*h), g.Param(name+".bias_hh", ops.Init{}, false, 3*h))
}

// tcnLayer is relu(x' + conv(relu(conv(x)))) with three taps.
func tcnLayer(g *ops.Graph, x ops.V, name string, h, dilation int, keys *keysOf) ops.V {
	conv := func(x ops.V, name string, taps int, scale float32, act ops.Act) ops.V {
		c := x.Shape[2]
		init := kaiming(taps * c)
		init.Scale *= scale
		return g.CausalConv(x, g.Param(name+".weight", init, true, h, taps, c), g.Param(name+".bias", ops.Init{}, false, h), dilation, act)
	}
	v := keys.drop(conv(x, name+".conv1", 3, 1, ops.Relu))
	v = conv(v, name+".conv2", 3, 0.5, ops.None)
	if x.Shape != v.Shape {
		x = conv(x, name+".proj", 1, 1, ops.None)
	}
	return g.Relu(g.Add(v, x))
}
