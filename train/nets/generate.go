package nets

import (
	"fmt"
	"math"
	"slices"
	"strings"

	ops "github.com/apiary-net/hived/tensorops"
	"github.com/apiary-net/hived/tensorops/num"
	"github.com/apiary-net/hived/train/data"
	"github.com/apiary-net/hived/train/weights"
)

// Generator runs a decoder one token at a time. It keeps keys and values of the
// tokens before, so a token costs one pass over the weights. It belongs to one
// goroutine.
type Generator struct {
	s        decoderShape
	w        map[string][]float32
	cos, sin []float32
	k, v     [][]float32 // by layer: [tokens, kv*head]
	pos      int
	enc      data.Encoder

	h, n, q, f, y, p []float32
}

// OpenGenerator reads a decoder: a folder as Hugging Face writes them or a training
// of hived. tokenizer is a tokenizer.json; empty is bytes, or numbers only where the
// vocabulary is no byte's.
func OpenGenerator(path, tokenizer string) (*Generator, error) {
	p, err := Open(path)
	if err != nil {
		return nil, err
	}
	if p.Spec.Name != "gpt" {
		return nil, fmt.Errorf("generate: %s holds no gpt but %q: %w", path, p.Spec.Name, weights.ErrFile)
	}
	s, tensors, err := p.merged()
	if err != nil {
		return nil, err
	}
	g := &Generator{s: s, w: map[string][]float32{}, k: make([][]float32, s.layers), v: make([][]float32, s.layers)}
	for name, t := range tensors {
		g.w[name] = t.Data
	}
	if s.style == 2 {
		g.cos, g.sin = ops.RopeTables(0, s.context, s.head, s.theta)
	}
	if g.enc, err = data.NewEncoder(tokenizer); err != nil {
		return nil, err
	}
	if tokenizer == "" && s.vocab != data.Bytes {
		g.enc = nil
	}
	wide := max(s.hidden*2, (s.heads+2*s.kv)*s.head)
	g.h, g.n, g.q, g.f, g.y, g.p = make([]float32, s.dim), make([]float32, s.dim), make([]float32, wide), make([]float32, wide), make([]float32, s.dim), make([]float32, s.context)
	return g, nil
}

// merged checks that every tensor of a decoder is there with its shape, and adds
// adapters into their matrices.
func (p Pretrained) merged() (decoderShape, map[string]weights.Tensor, error) {
	full, err := p.Spec.Full()
	if err != nil {
		return decoderShape{}, nil, err
	}
	m, err := New(p.Spec)
	if err != nil {
		return decoderShape{}, nil, err
	}
	s := shapeOf(full)
	g := &ops.Graph{}
	m.Build(g, 1)
	have, out := map[string]weights.Tensor{}, map[string]weights.Tensor{}
	for _, t := range p.Tensors {
		have[t.Name] = t
	}
	for _, q := range g.Params {
		t, ok := have[q.Name]
		if shape := q.Shape[:q.Shape.Rank()]; !ok || !slices.Equal(t.Shape, shape) {
			return s, nil, fmt.Errorf("open model: tensor %q is %v, want %v: %w", q.Name, t.Shape, shape, weights.ErrFile)
		}
		out[q.Name] = t
	}
	for name, a := range out {
		base, ok := strings.CutSuffix(name, ".lora_a")
		if !ok {
			continue
		}
		b, w := out[base+".lora_b"], out[base+".weight"]
		o, i := w.Shape[0], w.Shape[1]
		sum := slices.Clone(w.Data)
		for r := range o {
			for q := range s.lora {
				axpy(b.Data[r*s.lora+q], a.Data[q*i:][:i], sum[r*i:][:i])
			}
		}
		out[base+".weight"] = weights.Tensor{Name: base + ".weight", Shape: []int{o, i}, Data: sum}
	}
	return s, out, nil
}

// Context is the most tokens, prompt included.
func (g *Generator) Context() int { return g.s.context }

// Vocab is the number of tokens.
func (g *Generator) Vocab() int { return g.s.vocab }

// Encode turns text into tokens, Decode back; without a tokenizer there is no text.
func (g *Generator) Encode(text string) ([]int32, error) {
	if g.enc == nil {
		return nil, fmt.Errorf("generate: a vocabulary of %d needs a tokenizer.json for text: %w", g.s.vocab, weights.ErrFile)
	}
	return g.enc.Encode([]byte(text))
}

// Decode is the inverse of Encode.
func (g *Generator) Decode(ids []int32) (string, error) {
	if g.enc == nil {
		return "", fmt.Errorf("generate: a vocabulary of %d needs a tokenizer.json for text: %w", g.s.vocab, weights.ErrFile)
	}
	b, err := g.enc.Decode(ids)
	return string(b), err
}

// Next takes one token and returns the scores of the token behind it; they belong to
// the caller.
func (g *Generator) Next(id int32) ([]float32, error) {
	s := g.s
	if id < 0 || int(id) >= s.vocab {
		return nil, fmt.Errorf("generate: token %d, the vocabulary has %d", id, s.vocab)
	}
	if g.pos >= s.context {
		return nil, fmt.Errorf("generate: the context of %d tokens is full", s.context)
	}
	copy(g.h, g.w["wte.weight"][int(id)*s.dim:])
	if s.style == 1 {
		axpy(1, g.w["wpe.weight"][g.pos*s.dim:][:s.dim], g.h)
	}
	for l := range s.layers {
		g.layer(l, fmt.Sprintf("h%02d.", l))
	}
	final := "lnf"
	if s.style == 2 {
		final = "norm"
	}
	g.norm(final)
	head := g.w["wte.weight"]
	if s.untied {
		head = g.w["head.weight"]
	}
	out := make([]float32, s.vocab)
	product(head, g.n, out, nil)
	g.pos++
	return out, nil
}

// norm writes the norm of h to n.
func (g *Generator) norm(name string) {
	gain, shift := g.w[name+".weight"], g.w[name+".bias"]
	mean, square := float32(0), float32(0)
	if shift != nil {
		for _, f := range g.h {
			mean += f
		}
		mean /= float32(len(g.h))
	}
	for _, f := range g.h {
		square += float32((f - mean) * (f - mean))
	}
	rstd := float32(1 / math.Sqrt(float64(square/float32(len(g.h))+g.s.eps)))
	for i, f := range g.h {
		g.n[i] = float32(float32((f-mean)*rstd) * gain[i])
		if shift != nil {
			g.n[i] += shift[i]
		}
	}
}

func (g *Generator) layer(l int, p string) {
	s := g.s
	norms, mlp := [2]string{"ln1", "ln2"}, [2]string{"mlp.fc", "mlp.proj"}
	if s.style == 2 {
		norms, mlp = [2]string{"norm1", "norm2"}, [2]string{"mlp.gate_up", "mlp.down"}
	}
	linear := func(name string, x, y []float32) { product(g.w[p+name+".weight"], x, y, g.w[p+name+".bias"]) }
	g.norm(p + norms[0])
	nq, nk := s.heads*s.head, s.kv*s.head
	qkv := g.q[:nq+2*nk]
	linear("attn.qkv", g.n, qkv)
	if s.style == 2 {
		g.turn(qkv[:nq+nk])
	}
	g.k[l], g.v[l] = append(g.k[l], qkv[nq:nq+nk]...), append(g.v[l], qkv[nq+nk:]...)
	g.attend(l, qkv[:nq], g.n[:nq])
	linear("attn.proj", g.n[:nq], g.y)
	axpy(1, g.y, g.h)
	g.norm(p + norms[1])
	f := g.f[:s.hidden]
	if s.style == 2 {
		f = g.f[:2*s.hidden]
	}
	linear(mlp[0], g.n, f)
	for i := range s.hidden {
		x := f[i]
		if s.style == 2 {
			f[i] = float32(x / (1 + num.Exp32(-x)) * f[s.hidden+i])
			continue
		}
		u := float32(x * (1.5957691216 + float32(0.0713548163*float32(x*x))))
		f[i] = x / (1 + num.Exp32(-u))
	}
	linear(mlp[1], f[:s.hidden], g.y)
	axpy(1, g.y, g.h)
}

// turn applies rope to heads at the present position.
func (g *Generator) turn(x []float32) {
	half := g.s.head / 2
	cos, sin := g.cos[g.pos*half:][:half], g.sin[g.pos*half:][:half]
	for h := 0; h < len(x); h += g.s.head {
		a, b := x[h:][:half], x[h+half:][:half]
		for i := range half {
			a[i], b[i] = float32(a[i]*cos[i])-float32(b[i]*sin[i]), float32(b[i]*cos[i])+float32(a[i]*sin[i])
		}
	}
}

// attend writes softmax(q k'/sqrt(D)) v of each head over all tokens so far.
func (g *Generator) attend(l int, q, y []float32) {
	s, d := g.s, g.s.head
	scale := float32(1 / math.Sqrt(float64(d)))
	clear(y)
	for h := range s.heads {
		at := h / (s.heads / s.kv) * d
		p, top, sum := g.p[:g.pos+1], float32(math.Inf(-1)), float32(0)
		for t := range p {
			p[t] = float32(dot(q[h*d:][:d], g.k[l][t*s.kv*d+at:][:d]) * scale)
			top = max(top, p[t])
		}
		for t := range p {
			p[t] = num.Exp32(p[t] - top)
			sum += p[t]
		}
		for t := range p {
			axpy(p[t]/sum, g.v[l][t*s.kv*d+at:][:d], y[h*d:][:d])
		}
	}
}

// product writes y = w x + b, w [len(y), len(x)].
func product(w, x, y, b []float32) {
	for i := range y {
		y[i] = dot(w[i*len(x):][:len(x)], x)
		if b != nil {
			y[i] += b[i]
		}
	}
}

// dot sums in four chains.
func dot(a, b []float32) float32 {
	var s [4]float32
	n := len(a) &^ 3
	for i := 0; i < n; i += 4 {
		a, b := a[i:i+4:i+4], b[i:i+4:i+4]
		s[0] += float32(a[0] * b[0])
		s[1] += float32(a[1] * b[1])
		s[2] += float32(a[2] * b[2])
		s[3] += float32(a[3] * b[3])
	}
	for i := n; i < len(a); i++ {
		s[0] += float32(a[i] * b[i])
	}
	return (s[0] + s[1]) + (s[2] + s[3])
}

func axpy(a float32, x, y []float32) {
	for i, f := range x {
		y[i] += float32(a * f)
	}
}

// Choose picks a token: the best at temperature 0, else by chance from the topK best
// (0: all). The draw depends on seed and position only.
func (g *Generator) Choose(scores []float32, temperature float64, topK int, seed uint64) int32 {
	order := make([]int32, len(scores))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		switch {
		case scores[a] > scores[b]:
			return -1
		case scores[a] < scores[b]:
			return 1
		}
		return 0
	})
	if temperature <= 0 {
		return order[0]
	}
	if topK > 0 && topK < len(order) {
		order = order[:topK]
	}
	sum, weights := 0.0, make([]float64, len(order))
	for i, id := range order {
		weights[i] = float64(num.Exp32(float32(float64(scores[id]-scores[order[0]]) / temperature)))
		sum += weights[i]
	}
	left := float64(data.Mix(data.Mix(seed)+uint64(g.pos))>>11) / (1 << 53) * sum
	for i, w := range weights {
		if left -= w; left < 0 {
			return order[i]
		}
	}
	return order[len(order)-1]
}
