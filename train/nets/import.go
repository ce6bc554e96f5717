package nets

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apiary-net/hived/train/weights"
)

// Pretrained is a decoder that was read from files: sizes and tensors in hived's
// names.
type Pretrained struct {
	Spec    Spec // no name: a file that does not say what it holds
	Tensors []weights.Tensor
}

// ReadStart reads first weights: a safetensors file or a folder. It returns the model
// that the run asks for with the sizes that the file decides; those that both name
// must agree.
func ReadStart(path string, m Spec) (Spec, []weights.Tensor, error) {
	p, err := Open(path)
	if err != nil {
		return m, nil, fmt.Errorf("start weights: %w", err)
	}
	if p.Spec.Name == "" {
		return m, p.Tensors, nil
	}
	if p.Spec.Name != m.Name {
		return m, nil, fmt.Errorf("start weights: %s holds a %s, the run trains a %s: %w", path, p.Spec.Name, m.Name, weights.ErrFile)
	}
	full, err := p.Spec.Full()
	if err != nil {
		return m, nil, fmt.Errorf("start weights: %s: %w: %w", path, err, weights.ErrFile)
	}
	args := m.Sizes()
	for _, k := range slices.Sorted(maps.Keys(full)) {
		switch have := full[k]; {
		case k == "dropout" || k == "lora" || k == "context": // free to differ
		case k == "vocab" && args[k] < have: // spare tokens
			args[k] = have
		case args[k] == 0:
			args[k] = have
		case args[k] != have:
			return m, nil, fmt.Errorf("start weights: %s has %s %d, the run %d: %w", path, k, have, args[k], weights.ErrFile)
		}
	}
	m, err = m.With(args)
	return m, cutPositions(p.Tensors, args), err
}

// cutPositions keeps the first positions of a learned table for a shorter context.
func cutPositions(tensors []weights.Tensor, args map[string]int64) []weights.Tensor {
	for i, t := range tensors {
		if n := int(args["context"]); t.Name == "wpe.weight" && n > 0 && n < t.Shape[0] {
			tensors[i] = weights.Tensor{Name: t.Name, Shape: []int{n, t.Shape[1]}, Data: t.Data[:n*t.Shape[1]]}
		}
	}
	return tensors
}

// Open reads a folder as Hugging Face writes them, or a model file of
// hived.
func Open(path string) (Pretrained, error) {
	st, err := os.Stat(path)
	if err != nil {
		return Pretrained{}, fmt.Errorf("open model: %w: %w", err, weights.ErrFile)
	}
	if st.IsDir() {
		if _, err := os.Stat(filepath.Join(path, "config.json")); err == nil {
			return readHF(path)
		}
		path = filepath.Join(path, weights.ModelFile)
	}
	f, err := weights.Open(path)
	if err != nil {
		return Pretrained{}, err
	}
	meta := f.Meta["hived.model"]
	if err := f.Close(); err != nil {
		return Pretrained{}, err
	}
	var p Pretrained
	if meta != "" {
		var m Meta
		if err := json.Unmarshal([]byte(meta), &m); err != nil {
			return p, fmt.Errorf("open model: %s: hived.model: %w: %w", path, err, weights.ErrFile)
		}
		p.Spec, err = SpecOf(m.Name, m.Args)
		if err == nil {
			_, err = p.Spec.Full()
		}
		if err != nil {
			return p, fmt.Errorf("open model: %s: %w: %w", path, err, weights.ErrFile)
		}
	}
	p.Tensors, err = weights.Read(path)
	return p, err
}

// Meta is what a model file says of itself.
type Meta struct {
	Name string           `json:"name"`
	Args map[string]int64 `json:"args"`
}

// hfConfig holds the fields of config.json that decide a decoder.
type hfConfig struct {
	Type      string  `json:"model_type"`
	Vocab     int64   `json:"vocab_size"`
	Hidden    int64   `json:"hidden_size"`
	Inner     int64   `json:"intermediate_size"`
	Layers    int64   `json:"num_hidden_layers"`
	Heads     int64   `json:"num_attention_heads"`
	KV        int64   `json:"num_key_value_heads"`
	Positions int64   `json:"max_position_embeddings"`
	Theta     float64 `json:"rope_theta"`
	Eps       float64 `json:"rms_norm_eps"`
	Tied      *bool   `json:"tie_word_embeddings"`
	Act       string  `json:"hidden_act"`
	Scaling   any     `json:"rope_scaling"`
	HeadDim   int64   `json:"head_dim"`
	Bias      bool    `json:"attention_bias"`

	NEmbd int64   `json:"n_embd"`
	NHead int64   `json:"n_head"`
	NLay  int64   `json:"n_layer"`
	NPos  int64   `json:"n_positions"`
	NIn   int64   `json:"n_inner"`
	LNEps float64 `json:"layer_norm_epsilon"`
	Act2  string  `json:"activation_function"`
}

// args returns the sizes, or why hived has no such model.
func (c hfConfig) args() (map[string]int64, error) {
	eps := func(e float64) int64 {
		if e == 0 {
			e = 1e-5
		}
		return int64(math.Round(e * 1e9))
	}
	context := func(n int64) int64 { return min(n, 4096) }
	a := map[string]int64{"vocab": c.Vocab}
	switch c.Type {
	case "llama", "mistral":
		if c.Scaling != nil || c.Bias || c.Act != "silu" && c.Act != "" || c.HeadDim != 0 && c.Heads != 0 && c.HeadDim != c.Hidden/c.Heads {
			return nil, fmt.Errorf("a Llama with rope_scaling %v, attention_bias %v, hidden_act %q, head_dim %d is not supported", c.Scaling, c.Bias, c.Act, c.HeadDim)
		}
		maps.Copy(a, map[string]int64{"style": 2, "layers": c.Layers, "dim": c.Hidden, "heads": c.Heads, "kv_heads": c.KV, "hidden": c.Inner,
			"context": context(c.Positions), "rope_theta": int64(c.Theta), "norm_eps": eps(c.Eps)})
		if c.Tied == nil || !*c.Tied {
			a["untied"] = 1
		}
	case "gpt2":
		if c.Act2 != "gelu_new" && c.Act2 != "" {
			return nil, fmt.Errorf("a GPT-2 with activation_function %q is not supported, want gelu_new", c.Act2)
		}
		maps.Copy(a, map[string]int64{"style": 1, "layers": c.NLay, "dim": c.NEmbd, "heads": c.NHead, "hidden": c.NIn, "context": context(c.NPos), "norm_eps": eps(c.LNEps)})
	default:
		return nil, fmt.Errorf("model_type %q is not supported, want llama or gpt2", c.Type)
	}
	return a, nil
}

// tensorSource finds tensors in one file or several.
type tensorSource struct {
	files []*weights.File
	in    map[string]*weights.File
}

// openShards opens model.safetensors, or the shards that its index names. A tensor
// in two shards is refused, as is a name that leads out of the folder.
func openShards(dir string) (*tensorSource, error) {
	names := []string{weights.ModelFile}
	b, err := os.ReadFile(filepath.Join(dir, weights.ModelFile+".index.json"))
	if err == nil {
		var index struct {
			Map map[string]string `json:"weight_map"`
		}
		if err := json.Unmarshal(b, &index); err != nil || len(index.Map) > weights.MaxTensors {
			return nil, fmt.Errorf("open model: %s: index of %d tensors: %w: %w", dir, len(index.Map), err, weights.ErrFile)
		}
		names = slices.Compact(slices.Sorted(maps.Values(index.Map)))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open model: %w: %w", err, weights.ErrFile)
	}
	s := &tensorSource{in: map[string]*weights.File{}}
	for _, n := range names {
		if filepath.Base(n) != n || !filepath.IsLocal(n) {
			return nil, errors.Join(fmt.Errorf("open model: %s: the index names %q, which is no file of the folder: %w", dir, n, weights.ErrFile), s.close())
		}
		f, err := weights.Open(filepath.Join(dir, n))
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.files = append(s.files, f)
		for _, t := range f.Names() {
			if s.in[t] != nil {
				return nil, errors.Join(fmt.Errorf("open model: tensor %q is in %s and in %s: %w", t, s.in[t].Path, f.Path, weights.ErrFile), s.close())
			}
			s.in[t] = f
		}
	}
	return s, nil
}

func (s *tensorSource) close() error {
	var err error
	for _, f := range s.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// renames are the tensors of a decoder: hived's name, and those of Hugging Face
// whose rows follow each other in it. %s is the layer; Conv1D weights of GPT-2 lie
// the other way round.
type rename struct {
	own        string
	hf         []string
	transposed bool
}

var llamaNames = []rename{
	{"wte.weight", []string{"model.embed_tokens.weight"}, false},
	{"norm.weight", []string{"model.norm.weight"}, false},
	{"head.weight", []string{"lm_head.weight"}, false},
	{"h%s.norm1.weight", []string{"model.layers.%s.input_layernorm.weight"}, false},
	{"h%s.attn.qkv.weight", []string{"model.layers.%s.self_attn.q_proj.weight", "model.layers.%s.self_attn.k_proj.weight", "model.layers.%s.self_attn.v_proj.weight"}, false},
	{"h%s.attn.proj.weight", []string{"model.layers.%s.self_attn.o_proj.weight"}, false},
	{"h%s.norm2.weight", []string{"model.layers.%s.post_attention_layernorm.weight"}, false},
	{"h%s.mlp.gate_up.weight", []string{"model.layers.%s.mlp.gate_proj.weight", "model.layers.%s.mlp.up_proj.weight"}, false},
	{"h%s.mlp.down.weight", []string{"model.layers.%s.mlp.down_proj.weight"}, false},
}

var gpt2Names = func() []rename {
	out := []rename{{"wte.weight", []string{"wte.weight"}, false}, {"wpe.weight", []string{"wpe.weight"}, false},
		{"lnf.weight", []string{"ln_f.weight"}, false}, {"lnf.bias", []string{"ln_f.bias"}, false}}
	for own, hf := range map[string]string{"ln1": "ln_1", "ln2": "ln_2", "attn.qkv": "attn.c_attn", "attn.proj": "attn.c_proj", "mlp.fc": "mlp.c_fc", "mlp.proj": "mlp.c_proj"} {
		out = append(out, rename{"h%s." + own + ".weight", []string{"h.%s." + hf + ".weight"}, strings.Contains(hf, "c_")}, rename{"h%s." + own + ".bias", []string{"h.%s." + hf + ".bias"}, false})
	}
	return out
}()

// renamesOf lists the tensors of a decoder with layers filled in.
func renamesOf(s decoderShape) []rename {
	list := gpt2Names
	if s.style == 2 {
		list = llamaNames
	}
	var out []rename
	for _, r := range list {
		if r.own == "head.weight" && !s.untied {
			continue
		}
		if !strings.Contains(r.own, "%s") {
			out = append(out, r)
			continue
		}
		for l := range s.layers {
			q := rename{own: fmt.Sprintf(r.own, fmt.Sprintf("%02d", l)), transposed: r.transposed}
			for _, h := range r.hf {
				q.hf = append(q.hf, fmt.Sprintf(h, fmt.Sprint(l)))
			}
			out = append(out, q)
		}
	}
	return out
}

// readHF reads a folder with config.json and safetensors.
func readHF(dir string) (p Pretrained, err error) {
	b, err := weights.ReadBounded(filepath.Join(dir, "config.json"), 1<<20)
	if err != nil {
		return p, err
	}
	var c hfConfig
	if err := json.Unmarshal(b, &c); err != nil {
		return p, fmt.Errorf("open model: %s/config.json: %w: %w", dir, err, weights.ErrFile)
	}
	args, err := c.args()
	if err == nil {
		p.Spec, err = SpecOf("gpt", args)
	}
	full := sizes{}
	if err == nil {
		full, err = p.Spec.Full()
	}
	if err != nil {
		return p, fmt.Errorf("open model: %s/config.json: %w: %w", dir, err, weights.ErrFile)
	}
	src, err := openShards(dir)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, src.close()) }()
	prefix := ""
	if src.in["transformer.wte.weight"] != nil {
		prefix = "transformer."
	}
	for _, r := range renamesOf(shapeOf(full)) {
		t, err := src.tensor(r, prefix)
		if err != nil {
			return p, err
		}
		p.Tensors = append(p.Tensors, t)
	}
	return p, nil
}

// tensor reads the parts of a tensor and joins their rows.
func (s *tensorSource) tensor(r rename, prefix string) (weights.Tensor, error) {
	out := weights.Tensor{Name: r.own}
	for _, name := range r.hf {
		name = prefix + name
		f := s.in[name]
		if f == nil {
			return out, fmt.Errorf("open model: no tensor %q: %w", name, weights.ErrFile)
		}
		data, err := f.Float32(name)
		if err != nil {
			return out, err
		}
		shape, _ := f.Shape(name)
		if r.transposed {
			if len(shape) != 2 {
				return out, fmt.Errorf("open model: tensor %q is %v, want two dimensions: %w", name, shape, weights.ErrFile)
			}
			data, shape = transpose(data, shape[0], shape[1]), []int{shape[1], shape[0]}
		}
		if out.Shape == nil {
			out.Shape = slices.Clone(shape)
		} else {
			if len(shape) != len(out.Shape) || !slices.Equal(shape[1:], out.Shape[1:]) {
				return out, fmt.Errorf("open model: tensor %q is %v beside %v: %w", name, shape, out.Shape, weights.ErrFile)
			}
			out.Shape[0] += shape[0]
		}
		out.Data = append(out.Data, data...)
	}
	return out, nil
}

func transpose(x []float32, rows, cols int) []float32 {
	out := make([]float32, len(x))
	for i := range rows {
		for j := range cols {
			out[j*rows+i] = x[i*cols+j]
		}
	}
	return out
}

// ExportHF writes a decoder of hived as Hugging Face reads it: config.json and
// model.safetensors. Adapters are added into their matrices.
func ExportHF(from, dir string) error {
	p, err := Open(from)
	if err != nil {
		return err
	}
	if p.Spec.Name != "gpt" {
		return fmt.Errorf("export %s: only gpt has a Hugging Face form, this is %q: %w", from, p.Spec.Name, weights.ErrFile)
	}
	s, tensors, err := p.merged()
	if err != nil {
		return err
	}
	var out []weights.Tensor
	for _, r := range renamesOf(s) {
		t := tensors[r.own]
		if r.transposed {
			t.Data, t.Shape = transpose(t.Data, t.Shape[0], t.Shape[1]), []int{t.Shape[1], t.Shape[0]}
		}
		rows := partRows(r, s, t.Shape[0])
		for i, name := range r.hf {
			width := len(t.Data) / t.Shape[0]
			shape := append([]int{rows[i]}, t.Shape[1:]...)
			out = append(out, weights.Tensor{Name: name, Shape: shape, Data: t.Data[:rows[i]*width]})
			t.Data, t.Shape[0] = t.Data[rows[i]*width:], t.Shape[0]-rows[i]
			if t.Shape[0] == 0 {
				break
			}
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	if err := weights.ReplaceFile(filepath.Join(dir, weights.ModelFile), func(w io.Writer) error { return weights.Write(w, out, map[string]string{"format": "pt"}) }); err != nil {
		return err
	}
	return weights.ReplaceFile(filepath.Join(dir, "config.json"), func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(configOf(s))
	})
}

// partRows are the rows of each part of a joined tensor.
func partRows(r rename, s decoderShape, all int) []int {
	switch len(r.hf) {
	case 3:
		return []int{s.heads * s.head, s.kv * s.head, s.kv * s.head}
	case 2:
		return []int{s.hidden, s.hidden}
	}
	return []int{all}
}

func configOf(s decoderShape) map[string]any {
	eps := math.Round(float64(s.eps)*1e9) / 1e9
	if s.style == 2 {
		return map[string]any{"architectures": []string{"LlamaForCausalLM"}, "model_type": "llama", "hidden_size": s.dim, "intermediate_size": s.hidden,
			"num_hidden_layers": s.layers, "num_attention_heads": s.heads, "num_key_value_heads": s.kv, "vocab_size": s.vocab, "max_position_embeddings": s.context,
			"rms_norm_eps": eps, "rope_theta": s.theta, "tie_word_embeddings": !s.untied, "hidden_act": "silu", "torch_dtype": "float32"}
	}
	return map[string]any{"architectures": []string{"GPT2LMHeadModel"}, "model_type": "gpt2", "n_embd": s.dim, "n_inner": s.hidden, "n_layer": s.layers, "n_head": s.heads,
		"n_positions": s.context, "vocab_size": s.vocab, "layer_norm_epsilon": eps, "activation_function": "gelu_new", "torch_dtype": "float32"}
}
