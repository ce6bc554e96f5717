package train

import (
	"fmt"
	"math"

	ops "github.com/apiary-net/hived/tensorops"
)

const byteVocabulary = 256

// gptFamily is the transformer decoder, head tied to the embedding: [B,T] to
// [B,T,vocab]. style 1 is GPT-2 (Radford et al. 2019, section 2.3), style 2 Llama
// (Touvron et al. 2023, section 2.2): root mean square norm, rope, SwiGLU, no biases.
var gptFamily = family{
	sizes: []size{{"layers", 2, 1, 99}, {"dim", 128, 4, 8192}, {"heads", 4, 1, 128}, {"context", 128, 2, 4096}, {"vocab", byteVocabulary, 2, 1 << 18},
		{"style", 1, 1, 2}, {"kv_heads", 0, 0, 128}, {"hidden", 0, 0, 1 << 16}, {"rope_theta", 10_000, 100, 1 << 30}, {"dropout", 0, 0, 900}},
	presets: map[string]sizes{
		"tiny": {"layers": 2, "dim": 64, "heads": 2}, "small": {"layers": 4, "dim": 192, "heads": 6}, "base": {"layers": 6, "dim": 384, "heads": 6},
		"llama-small": {"style": 2, "layers": 4, "dim": 192, "heads": 6, "kv_heads": 3},
	},
	form: func(a sizes) Form {
		t := a.of("context")
		return Form{Kind: "text", Dims: []int{t}, Classes: a.of("vocab"), Terms: t}
	},
	check: func(a sizes) error {
		if a["dim"]%a["heads"] != 0 {
			return fmt.Errorf("dim %d is not a multiple of heads %d", a["dim"], a["heads"])
		}
		if kv := a["kv_heads"]; kv != 0 && a["heads"]%kv != 0 {
			return fmt.Errorf("heads %d is not a multiple of kv_heads %d", a["heads"], kv)
		}
		if a["style"] == 2 && a["dim"]/a["heads"]%2 != 0 {
			return fmt.Errorf("heads of width %d cannot be turned in halves", a["dim"]/a["heads"])
		}
		if a["style"] == 1 && (a["kv_heads"] != 0 && a["kv_heads"] != a["heads"]) {
			return fmt.Errorf("kv_heads needs style 2")
		}
		return nil
	},
	build: func(a sizes, g *ops.Graph, batch int) (loss, out ops.V) {
		t := a.of("context")
		x, y := g.Input("tokens", ops.I32, batch, t), g.Input("next", ops.I32, batch, t)
		d := decoder{newKeys(g, batch, a.share("dropout")), shapeOf(a), 0.55 / math.Sqrt(float64(a.of("dim")))} // GPT-2's 0.02 at its width of 768
		if a["style"] == 2 {
			out = d.llama(x)
		} else {
			out = d.gpt2(x)
		}
		return g.CrossEntropy(out, y), out
	},
}

// decoderShape are the sizes of a transformer with defaults resolved.
type decoderShape struct {
	style, layers, dim, heads, kv, head, hidden, context, vocab int
	theta                                                       float64
}

func shapeOf(a sizes) decoderShape {
	s := decoderShape{style: a.of("style"), layers: a.of("layers"), dim: a.of("dim"), heads: a.of("heads"), kv: a.of("kv_heads"), hidden: a.of("hidden"),
		context: a.of("context"), vocab: a.of("vocab"), theta: float64(a["rope_theta"])}
	s.head = s.dim / s.heads
	if s.kv == 0 {
		s.kv = s.heads
	}
	if s.hidden == 0 {
		s.hidden = 4 * s.dim
		if s.style == 2 {
			s.hidden = (8*s.dim/3 + 15) / 16 * 16
		}
	}
	return s
}

// decoder builds a transformer; wide is the deviation of its start weights.
type decoder struct {
	*keysOf
	s    decoderShape
	wide float64
}

func (m decoder) weight(name string, scale float64, o, i int) ops.V {
	return m.g.Param(name, ops.Init{Normal: true, Scale: float32(scale)}, true, o, i)
}

func (m decoder) vector(name string, v float32, n int) ops.V {
	return m.g.Param(name, ops.Init{Scale: v}, false, n)
}

func (m decoder) gpt2(x ops.V) ops.V {
	g, d, h4 := m.g, m.s.dim, m.s.hidden
	table := m.weight("wte.weight", m.wide, m.s.vocab, d)
	h, res := m.drop(g.Embed(x, table, m.weight("wpe.weight", m.wide/2, m.s.context, d))), ops.V{}
	deep := m.wide / math.Sqrt(2*float64(m.s.layers))
	var n ops.V
	for l := range m.s.layers {
		p := fmt.Sprintf("h%02d.", l)
		n, res = g.Norm(h, res, m.vector(p+"ln1.weight", 1, d), m.vector(p+"ln1.bias", 0, d), 1e-5)
		q := g.Linear(n, m.weight(p+"attn.qkv.weight", m.wide, 3*d, d), m.vector(p+"attn.qkv.bias", 0, 3*d), ops.None)
		h = m.drop(g.Linear(g.Attention(q, m.s.heads), m.weight(p+"attn.proj.weight", deep, d, d), m.vector(p+"attn.proj.bias", 0, d), ops.None))
		n, res = g.Norm(h, res, m.vector(p+"ln2.weight", 1, d), m.vector(p+"ln2.bias", 0, d), 1e-5)
		h = g.Linear(n, m.weight(p+"mlp.fc.weight", m.wide, h4, d), m.vector(p+"mlp.fc.bias", 0, h4), ops.Gelu)
		h = m.drop(g.Linear(h, m.weight(p+"mlp.proj.weight", deep, d, h4), m.vector(p+"mlp.proj.bias", 0, d), ops.None))
	}
	n, _ = g.Norm(h, res, m.vector("lnf.weight", 1, d), m.vector("lnf.bias", 0, d), 1e-5)
	return g.Linear(n, table, ops.V{}, ops.None)
}

func (m decoder) llama(x ops.V) ops.V {
	g, s, d := m.g, m.s, m.s.dim
	table := m.weight("wte.weight", m.wide, s.vocab, d)
	h := m.drop(g.Lookup(x, table))
	deep := m.wide / math.Sqrt(2*float64(s.layers))
	for l := range s.layers {
		p := fmt.Sprintf("h%02d.", l)
		n := g.RMSNorm(h, m.vector(p+"norm1.weight", 1, d), 1e-5)
		q := g.Linear(n, m.weight(p+"attn.qkv.weight", m.wide, (s.heads+2*s.kv)*s.head, d), ops.V{}, ops.None)
		q = g.RepeatKV(g.Rope(q, s.heads+s.kv, s.head, s.theta, 0), s.heads, s.kv)
		h = g.Add(h, m.drop(g.Linear(g.Attention(q, s.heads), m.weight(p+"attn.proj.weight", deep, d, d), ops.V{}, ops.None)))
		n = g.RMSNorm(h, m.vector(p+"norm2.weight", 1, d), 1e-5)
		f := g.Swiglu(g.Linear(n, m.weight(p+"mlp.gate_up.weight", m.wide, 2*s.hidden, d), ops.V{}, ops.None))
		h = g.Add(h, m.drop(g.Linear(f, m.weight(p+"mlp.down.weight", deep, d, s.hidden), ops.V{}, ops.None)))
	}
	return g.Linear(g.RMSNorm(h, m.vector("norm.weight", 1, d), 1e-5), table, ops.V{}, ops.None)
}
