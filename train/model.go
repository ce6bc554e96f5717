package train

import (
	"fmt"
	"math"
	"sort"

	ops "github.com/apiary-net/hived/tensorops"
)

// Model writes a graph for a batch size. The inputs are one float or integer
// input, then the labels.
type Model interface {
	Build(g *ops.Graph, batch int) (loss, out ops.V)
	// Kind is that of the data it reads.
	Kind() string
}

// Models returns the names of all models.
func Models() []string { return []string{"convnet", "gpt"} }

// NewModel returns a model by name; args that are absent or 0 take the default of
// the model (see ModelArgs), unknown ones are an error.
func NewModel(name string, args map[string]int64) (Model, error) {
	full, err := ModelArgs(name, args)
	if err != nil {
		return nil, err
	}
	if name == "convnet" {
		return convnet{}, nil
	}
	return gpt{layers: int(full["layers"]), dim: int(full["dim"]), heads: int(full["heads"]), context: int(full["context"])}, nil
}

// ModelArgs returns args with defaults filled in: every size that makes the model
// what it is.
func ModelArgs(name string, args map[string]int64) (map[string]int64, error) {
	def, ok := map[string]map[string]int64{
		"convnet": {},
		"gpt":     {"layers": 2, "dim": 128, "heads": 4, "context": 128},
	}[name]
	if !ok {
		return nil, fmt.Errorf("find model %q: have %v", name, Models())
	}
	keys := make([]string, 0, len(args))
	for k := range args {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		if _, ok := def[k]; !ok {
			return nil, fmt.Errorf("model %s has no argument %q", name, k)
		}
		if args[k] != 0 {
			def[k] = args[k]
		}
	}
	if name == "gpt" {
		return def, checkGPT(def)
	}
	return def, nil
}

func checkGPT(a map[string]int64) error {
	for _, l := range []struct {
		key      string
		low, top int64
	}{{"layers", 1, 99}, {"dim", 4, 8192}, {"heads", 1, 128}, {"context", 2, 4096}} {
		if v := a[l.key]; v < l.low || v > l.top {
			return fmt.Errorf("model gpt: %s is %d, want %d to %d", l.key, v, l.low, l.top)
		}
	}
	if a["dim"]%a["heads"] != 0 {
		return fmt.Errorf("model gpt: dim %d is not a multiple of heads %d", a["dim"], a["heads"])
	}
	return nil
}

// convnet is two 3x3 convolutions with pooling and two dense layers: digits
// [B,28,28,1] to 10 classes, 421,642 parameters.
type convnet struct{}

func (convnet) Kind() string { return "image" }

func (convnet) Build(g *ops.Graph, batch int) (loss, out ops.V) {
	x, y := g.Input("images", ops.F32, batch, Side, Side, 1), g.Input("labels", ops.I32, batch)
	v := x
	for i, c := range [][2]int{{1, 32}, {32, 64}} {
		n := fmt.Sprintf("conv%d.", i+1)
		w := g.Param(n+"weight", kaiming(9*c[0]), true, c[1], 3, 3, c[0])
		v = g.Conv(v, w, g.Param(n+"bias", ops.Init{}, false, c[1]), 1, 1, ops.None)
		v = g.MaxPool2(v, ops.Relu)
	}
	v = g.Reshape(v, batch, 7*7*64)
	v = g.Linear(v, g.Param("fc1.weight", kaiming(3136), true, 128, 3136), g.Param("fc1.bias", ops.Init{}, false, 128), ops.Relu)
	out = g.Linear(v, g.Param("fc2.weight", kaiming(128), true, 10, 128), g.Param("fc2.bias", ops.Init{}, false, 10), ops.None)
	return g.CrossEntropy(out, y), out
}

// kaiming is the start for layers before relu (He et al. 2015, equation 10).
func kaiming(fanIn int) ops.Init {
	return ops.Init{Normal: true, Scale: float32(math.Sqrt(2 / float64(fanIn)))}
}

// gpt is the GPT-2 transformer over bytes, head tied to the embedding (Radford et
// al. 2019, section 2.3): [B,T] to [B,T,256].
type gpt struct{ layers, dim, heads, context int }

const byteVocabulary = 256

func (gpt) Kind() string { return "text" }

func (m gpt) Build(g *ops.Graph, batch int) (loss, out ops.V) {
	d := m.dim
	x, y := g.Input("bytes", ops.I32, batch, m.context), g.Input("next", ops.I32, batch, m.context)
	weight := func(name string, scale float64, o, i int) ops.V {
		return g.Param(name, ops.Init{Normal: true, Scale: float32(scale)}, true, o, i)
	}
	vector := func(name string, v float32, n int) ops.V {
		return g.Param(name, ops.Init{Scale: v}, false, n)
	}
	wide := 0.55 / math.Sqrt(float64(d)) // GPT-2's 0.02 at its width of 768
	table := weight("wte.weight", wide, byteVocabulary, d)
	h, res := g.Embed(x, table, weight("wpe.weight", wide/2, m.context, d)), ops.V{}
	deep := wide / math.Sqrt(2*float64(m.layers))
	var n ops.V
	for l := range m.layers {
		p := fmt.Sprintf("h%02d.", l)
		n, res = g.Norm(h, res, vector(p+"ln1.weight", 1, d), vector(p+"ln1.bias", 0, d), 1e-5)
		q := g.Linear(n, weight(p+"attn.qkv.weight", wide, 3*d, d), vector(p+"attn.qkv.bias", 0, 3*d), ops.None)
		h = g.Linear(g.Attention(q, m.heads), weight(p+"attn.proj.weight", deep, d, d), vector(p+"attn.proj.bias", 0, d), ops.None)
		n, res = g.Norm(h, res, vector(p+"ln2.weight", 1, d), vector(p+"ln2.bias", 0, d), 1e-5)
		h = g.Linear(n, weight(p+"mlp.fc.weight", wide, 4*d, d), vector(p+"mlp.fc.bias", 0, 4*d), ops.Gelu)
		h = g.Linear(h, weight(p+"mlp.proj.weight", deep, d, 4*d), vector(p+"mlp.proj.bias", 0, d), ops.None)
	}
	n, _ = g.Norm(h, res, vector("lnf.weight", 1, d), vector("lnf.bias", 0, d), 1e-5)
	out = g.Linear(n, table, ops.V{}, ops.None)
	return g.CrossEntropy(out, y), out
}
