package nets

import (
	"fmt"

	ops "github.com/apiary-net/hived/tensorops"
)

// resnetFamily is the residual network of He et al. 2016: a 3x3 stem, stages of
// basic blocks that halve the size and double the filters, means over all
// positions, one dense layer. stem_pool halves the stem's result by maxima (1) or means
// (2) of 2x2 squares. attention is the number of heads of a layer of self-attention
// over the positions of the last stage (Vaswani et al. 2017), added to what it reads
// before the means are taken; 0 leaves it out. depth 8 has three stages of one block, 18 four of
// two. cardinality above 1 splits the second convolution of a block into groups
// (Xie et al., "ResNeXt", 2017). squeeze divides the channels of a squeeze-and-excite gate (Hu et al. 2018),
// 0 leaves it out. norm 1 is batch norm, whose running statistics are buffers; 2 is
// group norm, which does not look at other samples.
var resnetFamily = family{
	sizes: append([]size{{"depth", 8, 8, 18}, {"filters", 16, 4, 256}, {"stem_stride", 1, 1, 4}, {"stem_pool", 0, 0, 2}, {"cardinality", 1, 1, 32}, {"squeeze", 0, 0, 64}, {"attention", 0, 0, 64},
		{"norm", 1, 1, 2}, {"groups", 4, 1, 32}, {"dropout", 0, 0, 900}}, imageSizes...),
	presets: map[string]sizes{
		"tiny": {"depth": 8, "filters": 8}, "small": {"depth": 8, "filters": 16}, "base": {"depth": 8, "filters": 32, "squeeze": 4},
		"18": {"depth": 18, "filters": 64, "groups": 8}, "next": {"depth": 18, "filters": 32, "cardinality": 8},
	},
	form: imageForm,
	check: func(a sizes) error {
		if d := a["depth"]; d != 8 && d != 18 {
			return fmt.Errorf("depth is %d, want 8 or 18", d)
		}
		if h := a["attention"]; h != 0 && a["filters"]<<2%h != 0 {
			return fmt.Errorf("attention of %d heads over %d filters, which is no multiple", h, a["filters"]<<2)
		}
		if side := (min(a["height"], a["width"])-1)/a["stem_stride"] + 1; a["stem_pool"] > 0 && side < 2 {
			return fmt.Errorf("stem_pool is %d, but of %dx%d a stem of stride %d leaves one row or column", a["stem_pool"], a["height"], a["width"], a["stem_stride"])
		}
		for _, k := range []string{"groups", "cardinality"} {
			if a["filters"]%a[k] != 0 {
				return fmt.Errorf("filters %d is not a multiple of %s %d", a["filters"], k, a[k])
			}
		}
		return nil
	},
	build: func(a sizes, g *ops.Graph, batch int) (loss, out ops.V) {
		x, y := g.Input("images", ops.F32, batch, a.of("height"), a.of("width"), a.of("channels")), g.Input("labels", ops.I32, batch)
		r := residual{g: g, a: a}
		keys := newKeys(g, batch, a.share("dropout"))
		f := a.of("filters")
		v := r.norm(r.conv(x, "stem", f, 3, a.of("stem_stride"), 1), "stem.norm", ops.Relu)
		switch a["stem_pool"] {
		case 1:
			v = g.MaxPool2(v, ops.None)
		case 2:
			v = g.AvgPool(v, 2, 2)
		}
		stages, blocks := 3, 1
		if a["depth"] == 18 {
			stages, blocks = 4, 2
		}
		for s := range stages {
			for b := range blocks {
				v = r.block(v, fmt.Sprintf("stage%d.block%d", s+1, b+1), f<<s, strideOf(s, b))
			}
		}
		if a["attention"] > 0 {
			v = r.attend(v, "attn", a.of("attention"))
		}
		v = g.Mean(v)
		out = dense(g, keys.drop(v), "fc", a.of("classes"), ops.None)
		return g.CrossEntropy(out, y), out
	},
}

// residual builds the parts of a residual network.
type residual struct {
	g *ops.Graph
	a sizes
}

// conv is a convolution without activation, in groups.
func (r residual) conv(x ops.V, name string, o, k, stride, groups int) ops.V {
	in := x.Shape[3] / groups
	w := r.g.Param(name+".weight", kaiming(k*k*in), true, o, k, k, in)
	return r.g.Conv(x, w, ops.V{}, stride, k/2, ops.None) // a norm follows, which shifts
}

// norm is act(norm(x)).
func (r residual) norm(x ops.V, name string, act ops.Act) ops.V {
	if r.a["norm"] == 1 {
		return r.batchNorm(x, ops.V{}, name, act)
	}
	gain, shift := r.scales(x, name)
	return r.g.GroupNorm(x, gain, shift, r.a.of("groups"), 1e-5, act)
}

func (r residual) scales(x ops.V, name string) (gain, shift ops.V) {
	c := x.Shape[3]
	return r.g.Param(name+".weight", ops.Init{Scale: 1}, false, c), r.g.Param(name+".bias", ops.Init{}, false, c)
}

// batchNorm is act(norm(x) + res), without res where that is the zero V.
func (r residual) batchNorm(x, res ops.V, name string, act ops.Act) ops.V {
	c := x.Shape[3]
	gain, shift := r.scales(x, name)
	return r.g.BatchNorm(x, res, ops.BatchNorm{Gain: gain, Shift: shift, Mean: r.g.Buffer(name+".running_mean", ops.Init{}, c),
		Var: r.g.Buffer(name+".running_var", ops.Init{Scale: 1}, c), Eps: 1e-5, Momentum: 0.1}, act)
}

// block is relu(x' + norm(conv(relu(norm(conv(x)))))), x' projected where the shape
// changes.
func (r residual) block(x ops.V, name string, o, stride int) ops.V {
	h := r.norm(r.conv(x, name+".conv1", o, 3, stride, 1), name+".norm1", ops.Relu)
	h = r.conv(h, name+".conv2", o, 3, 1, r.a.of("cardinality"))
	if x.Shape != h.Shape {
		x = r.norm(r.conv(x, name+".proj", o, 1, stride, 1), name+".projnorm", ops.None)
	}
	q := r.a.of("squeeze")
	if q == 0 && r.a["norm"] == 1 { // one pass instead of three
		return r.batchNorm(h, x, name+".norm2", ops.Relu)
	}
	h = r.norm(h, name+".norm2", ops.None)
	if q > 0 {
		s := dense(r.g, r.g.Mean(h), name+".se1", max(1, o/q), ops.Relu)
		h = r.g.Scale(h, r.g.Sigmoid(dense(r.g, s, name+".se2", o, ops.None)))
	}
	return r.g.Relu(r.g.Add(h, x))
}

// attend is x plus attention of all its positions to each other.
func (r residual) attend(x ops.V, name string, heads int) ops.V {
	s := x.Shape
	x = r.g.Reshape(x, s[0], s[1]*s[2], s[3])
	gain, shift := r.g.Param(name+".norm.weight", ops.Init{Scale: 1}, false, s[3]), r.g.Param(name+".norm.bias", ops.Init{}, false, s[3])
	n, _ := r.g.Norm(x, ops.V{}, gain, shift, 1e-5)
	q := dense(r.g, n, name+".qkv", 3*s[3], ops.None)
	return r.g.Add(dense(r.g, r.g.Attention(q, heads, false), name+".proj", s[3], ops.None), x)
}

// strideOf halves the size at the start of each stage but the first.
func strideOf(stage, block int) int {
	if stage > 0 && block == 0 {
		return 2
	}
	return 1
}
