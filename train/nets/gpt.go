package nets

import (
	"fmt"
	"math"

	ops "github.com/apiary-net/hived/tensorops"
	"github.com/apiary-net/hived/train/data"
)

// gptFamily is the transformer decoder, head tied to the embedding: [B,T] to
// [B,T,vocab]. style 1 is GPT-2 (Radford et al. 2019, section 2.3), style 2 Llama
// (Touvron et al. 2023, section 2.2): root mean square norm, rope, SwiGLU, no biases.
// norm_eps is in units of 1e-9. untied gives the head weights of its own. lora
// above 0 freezes all matrices, which become buffers, and trains adapters of that
// rank beside them (Hu et al. 2021), the norms and the biases. recompute keeps only
// the borders of layers for the way back.
var gptFamily = family{
	sizes: []size{{"layers", 2, 1, 99}, {"dim", 128, 4, 8192}, {"heads", 4, 1, 128}, {"context", 128, 2, 4096}, {"vocab", data.Bytes, 2, 1 << 18},
		{"style", 1, 1, 2}, {"kv_heads", 0, 0, 128}, {"hidden", 0, 0, 1 << 16}, {"rope_theta", 10_000, 100, 1 << 30}, {"norm_eps", 10_000, 1, 1_000_000}, {"untied", 0, 0, 1}, {"lora", 0, 0, 1024}, {"recompute", 0, 0, 1}, {"dropout", 0, 0, 900}},
	presets: map[string]sizes{
		"tiny": {"layers": 2, "dim": 64, "heads": 2}, "small": {"layers": 4, "dim": 192, "heads": 6}, "base": {"layers": 6, "dim": 384, "heads": 6},
		"llama-small": {"style": 2, "layers": 4, "dim": 192, "heads": 6, "kv_heads": 3},
	},
	form: func(a sizes) data.Form {
		t := a.of("context")
		return data.Form{Kind: "text", Dims: []int{t}, Classes: a.of("vocab"), Terms: t}
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
	style, layers, dim, heads, kv, head, hidden, context, vocab, lora int
	untied, recompute                                                 bool
	theta                                                             float64
	eps                                                               float32
}

func shapeOf(a sizes) decoderShape {
	s := decoderShape{style: a.of("style"), layers: a.of("layers"), dim: a.of("dim"), heads: a.of("heads"), kv: a.of("kv_heads"), hidden: a.of("hidden"),
		context: a.of("context"), vocab: a.of("vocab"), lora: a.of("lora"), untied: a["untied"] == 1, recompute: a["recompute"] == 1, theta: float64(a["rope_theta"]), eps: float32(a["norm_eps"]) / 1e9}
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

// weight is a matrix; beside adapters it is frozen.
func (m decoder) weight(name string, scale float64, o, i int) ops.V {
	init := ops.Init{Normal: true, Scale: float32(scale)}
	if m.s.lora > 0 {
		return m.g.Buffer(name, init, o, i)
	}
	return m.g.Param(name, init, true, o, i)
}

// linear is x times a weight, plus its adapter: b(a x) with b zero at the start.
func (m decoder) linear(x ops.V, name string, scale float64, o int, bias bool, act ops.Act) ops.V {
	_, i := x.Shape.Last()
	b := ops.V{}
	if bias {
		b = m.vector(name+".bias", 0, o)
	}
	w := m.weight(name+".weight", scale, o, i)
	if m.s.lora == 0 {
		return m.g.Linear(x, w, b, act)
	}
	y := m.g.Linear(x, w, b, ops.None)
	a := m.g.Param(name+".lora_a", ops.Init{Normal: true, Scale: float32(1 / math.Sqrt(float64(i)))}, true, m.s.lora, i)
	y = m.g.Add(y, m.g.Linear(m.g.Linear(x, a, ops.V{}, ops.None), m.g.Param(name+".lora_b", ops.Init{}, true, o, m.s.lora), ops.V{}, ops.None))
	if act == ops.Gelu {
		return m.g.Gelu(y)
	}
	return y
}

// head scores the vocabulary.
func (m decoder) head(x, table ops.V) ops.V {
	if m.s.untied {
		table = m.weight("head.weight", m.wide, m.s.vocab, m.s.dim)
	}
	return m.g.Linear(x, table, ops.V{}, ops.None)
}

func (m decoder) vector(name string, v float32, n int) ops.V {
	return m.g.Param(name, ops.Init{Scale: v}, false, n)
}

func (m decoder) gpt2(x ops.V) ops.V {
	g, d := m.g, m.s.dim
	table := m.weight("wte.weight", m.wide, m.s.vocab, d)
	h, res := m.drop(g.Embed(x, table, m.weight("wpe.weight", m.wide/2, m.s.context, d))), ops.V{}
	deep := m.wide / math.Sqrt(2*float64(m.s.layers))
	for l := range m.s.layers {
		p := fmt.Sprintf("h%02d.", l)
		if m.s.recompute {
			h = g.Checkpoint(h, func(x ops.V) ops.V {
				y, sum := m.gpt2Layer(x, ops.V{}, p, deep)
				return g.Add(y, sum)
			})
			continue
		}
		h, res = m.gpt2Layer(h, res, p, deep)
	}
	n, _ := g.Norm(h, res, m.vector("lnf.weight", 1, d), m.vector("lnf.bias", 0, d), m.s.eps)
	return m.head(n, table)
}

// gpt2Layer returns what a layer adds, and the sum so far.
func (m decoder) gpt2Layer(h, res ops.V, p string, deep float64) (y, sum ops.V) {
	g, d, h4 := m.g, m.s.dim, m.s.hidden
	n, res := g.Norm(h, res, m.vector(p+"ln1.weight", 1, d), m.vector(p+"ln1.bias", 0, d), m.s.eps)
	q := m.linear(n, p+"attn.qkv", m.wide, 3*d, true, ops.None)
	h = m.drop(m.linear(g.Attention(q, m.s.heads, true), p+"attn.proj", deep, d, true, ops.None))
	n, res = g.Norm(h, res, m.vector(p+"ln2.weight", 1, d), m.vector(p+"ln2.bias", 0, d), m.s.eps)
	h = m.linear(n, p+"mlp.fc", m.wide, h4, true, ops.Gelu)
	return m.drop(m.linear(h, p+"mlp.proj", deep, d, true, ops.None)), res
}

func (m decoder) llama(x ops.V) ops.V {
	g, s, d := m.g, m.s, m.s.dim
	table := m.weight("wte.weight", m.wide, s.vocab, d)
	h, res := m.drop(g.Lookup(x, table)), ops.V{}
	deep := m.wide / math.Sqrt(2*float64(s.layers))
	for l := range s.layers {
		p := fmt.Sprintf("h%02d.", l)
		if s.recompute {
			h = g.Checkpoint(h, func(x ops.V) ops.V {
				y, sum := m.llamaLayer(x, ops.V{}, p, deep)
				return g.Add(y, sum)
			})
			continue
		}
		h, res = m.llamaLayer(h, res, p, deep)
	}
	n, _ := g.RMSNorm(h, res, m.vector("norm.weight", 1, d), s.eps)
	return m.head(n, table)
}

// llamaLayer returns what a layer adds, and the sum so far.
func (m decoder) llamaLayer(h, res ops.V, p string, deep float64) (y, sum ops.V) {
	g, s, d := m.g, m.s, m.s.dim
	n, res := g.RMSNorm(h, res, m.vector(p+"norm1.weight", 1, d), s.eps)
	q := m.linear(n, p+"attn.qkv", m.wide, (s.heads+2*s.kv)*s.head, false, ops.None)
	q = g.RepeatKV(g.Rope(q, s.heads+s.kv, s.head, s.theta, 0), s.heads, s.kv)
	h = m.drop(m.linear(g.Attention(q, s.heads, true), p+"attn.proj", deep, d, false, ops.None))
	n, res = g.RMSNorm(h, res, m.vector(p+"norm2.weight", 1, d), s.eps)
	f := g.Swiglu(m.linear(n, p+"mlp.gate_up", m.wide, 2*s.hidden, false, ops.None))
	return m.drop(m.linear(f, p+"mlp.down", deep, d, false, ops.None)), res
}
