package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ops "github.com/apiary-net/hived/tensorops"
	"github.com/apiary-net/hived/train/nets"
	"github.com/apiary-net/hived/train/weights"
)

// testData returns a folder of the shared test data, or skips.
func testData(t *testing.T, name string) string {
	t.Helper()
	root := os.Getenv("HIVED_TEST_DATA")
	if root == "" {
		root = filepath.Join("..", "..", "shared", "data")
	}
	dir := filepath.Join(root, name)
	if _, err := os.Stat(dir); err != nil {
		need(t, fmt.Errorf("no test data: %w; HIVED_TEST_DATA names their folder", err))
	}
	return dir
}

// greedy is what greedy.json says of stories260K.
type greedy struct {
	IDs    []int32   `json:"ids"`
	Logits []float32 `json:"logits_at_position_0"`
}

// TestStoriesGreedy decodes a Llama that another program trained: the tokens, from
// float32 weights, are those that its author's program gives.
func TestStoriesGreedy(t *testing.T) {
	dir := testData(t, "models-interop/stories260K")
	b, err := os.ReadFile(filepath.Join(dir, "greedy.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want greedy
	if err := json.Unmarshal(b, &want); err != nil || len(want.IDs) != 257 {
		t.Fatalf("%d ids: %v", len(want.IDs), err)
	}
	for _, kind := range []string{"hf", "hf-bf16"} {
		g, err := nets.OpenGenerator(filepath.Join(dir, kind), "")
		if err != nil {
			t.Fatal(err)
		}
		if g.Vocab() != 512 {
			t.Errorf("vocabulary of %d", g.Vocab())
		}
		got := want.IDs[:1:1]
		for len(got) < len(want.IDs) {
			scores, err := g.Next(got[len(got)-1])
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, g.Choose(scores, 0, 0, 0))
		}
		same := 0
		for same < len(got) && got[same] == want.IDs[same] {
			same++
		}
		t.Logf("%s: the first %d of %d tokens are equal", kind, same, len(got))
		if kind == "hf" && same != len(got) {
			t.Errorf("%s: token %d is %d, want %d", kind, same, got[same], want.IDs[same])
		}
		if kind == "hf-bf16" && same < 20 { // weights rounded to 8 bits of mantissa
			t.Errorf("%s: token %d is %d, want %d", kind, same, got[same], want.IDs[same])
		}
	}
	// The training graph gives the same scores as the cache does.
	compareGraph(t, filepath.Join(dir, "hf"), want.IDs[:64])
}

// compareGraph runs the graph of a model and its generator over the same tokens.
func compareGraph(t *testing.T, path string, ids []int32) {
	t.Helper()
	p, err := nets.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	p.Spec.Context = int64(len(ids))
	spec, tensors, err := nets.ReadStart(path, p.Spec)
	if err != nil {
		t.Fatal(err)
	}
	m, err := nets.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	g := &ops.Graph{}
	loss, out := m.Build(g, 1)
	plan, err := ops.Compile(g, loss, ops.Options{Inference: true, Keep: []ops.V{out}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := ops.CPU().Open(plan)
	if err != nil {
		t.Fatal(err)
	}
	params, buffers := make([]float32, plan.ParamLen), make([]float32, plan.BufferLen)
	err = errors.Join(weights.Put(nets.SchemaOf(plan), params, buffers, tensors), s.Write(ops.Params, params), s.Write(ops.Buffers, buffers))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Step(context.Background(), ops.Batch{Int: [][]int32{ids, make([]int32, len(ids))}}); err != nil {
		t.Fatal(err)
	}
	want := make([]float32, out.Shape.Size())
	if err := s.Output(0, want); err != nil {
		t.Fatal(err)
	}
	gen, err := nets.OpenGenerator(path, "")
	if err != nil {
		t.Fatal(err)
	}
	vocab := gen.Vocab()
	for i, id := range ids {
		got, err := gen.Next(id)
		if err != nil {
			t.Fatal(err)
		}
		for j := range got {
			if math.Abs(float64(got[j]-want[i*vocab+j])) > 2e-3 {
				t.Fatalf("%s: score %d behind token %d is %v, of the graph %v", path, j, i, got[j], want[i*vocab+j])
			}
		}
	}
}

// modelOf trains a decoder for some steps and returns its folder.
func modelOf(t *testing.T, start string, args map[string]int64) string {
	t.Helper()
	s := soloOf(t.TempDir())
	var err error
	if s.Model, err = (nets.Spec{Name: "gpt", Layers: 2, Dim: 16, Heads: 4, Context: 8}).With(args); err != nil {
		t.Fatal(err)
	}
	s.Steps, s.EvalEvery = 12, 0
	if start != "" {
		if s.Model, s.Start, err = nets.ReadStart(start, s.Model); err != nil {
			t.Fatal(err)
		}
	}
	mustSolo(t, s)
	return s.Dir
}

// TestHuggingFaceForms writes models in their form and reads them back.
func TestHuggingFaceForms(t *testing.T) {
	for name, args := range map[string]map[string]int64{
		"gpt2": nil, "llama": {"style": 2, "kv_heads": 2}, "untied llama": {"style": 2, "untied": 1, "norm_eps": 1000, "rope_theta": 500_000},
	} {
		dir, hf := modelOf(t, "", args), t.TempDir()
		if err := nets.ExportHF(dir, hf); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		a, err := nets.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		b, err := nets.Open(hf)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		byName := map[string]weights.Tensor{}
		for _, x := range b.Tensors {
			byName[x.Name] = x
		}
		for _, x := range a.Tensors {
			if y := byName[x.Name]; !slices.Equal(x.Shape, y.Shape) || !same(x.Data, y.Data) {
				t.Errorf("%s: tensor %s is %v, want %v", name, x.Name, y.Shape, x.Shape)
			}
		}
		ids := []int32{1, 200, 3, 3, 250, 17, 0, 9}
		if x, y := scoresOf(t, dir, ids), scoresOf(t, hf, ids); !same(x, y) {
			t.Errorf("%s: the model computes something else when it is back", name)
		}
		compareGraph(t, hf, ids)
	}
}

// scoresOf returns all scores behind tokens.
func scoresOf(t *testing.T, path string, ids []int32) []float32 {
	t.Helper()
	g, err := nets.OpenGenerator(path, "")
	if err != nil {
		t.Fatal(err)
	}
	var out []float32
	for _, id := range ids {
		x, err := g.Next(id)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, x...)
	}
	return out
}

// TestAdapters trains adapters on a model: only they and the norms move, and the
// merged export computes the same.
func TestAdapters(t *testing.T) {
	for _, args := range []map[string]int64{nil, {"style": 2, "kv_heads": 1}} {
		base := modelOf(t, "", args)
		with := map[string]int64{"lora": 2}
		for k, v := range args {
			with[k] = v
		}
		dir := modelOf(t, base, with)
		a, _ := weights.Read(filepath.Join(base, weights.ModelFile))
		b, err := weights.Read(filepath.Join(dir, weights.ModelFile))
		if err != nil {
			t.Fatal(err)
		}
		old, moved := map[string]weights.Tensor{}, 0
		for _, x := range a {
			old[x.Name] = x
		}
		for _, x := range b {
			was, ok := old[x.Name]
			switch {
			case strings.Contains(x.Name, "lora_b"):
				for _, f := range x.Data {
					if f != 0 {
						moved++
						break
					}
				}
			case ok && len(x.Shape) == 2 && !same(was.Data, x.Data):
				t.Errorf("frozen %s has changed", x.Name)
			}
		}
		if moved != 8 {
			t.Errorf("%d of 8 adapters have moved", moved)
		}
		hf := t.TempDir()
		if err := nets.ExportHF(dir, hf); err != nil {
			t.Fatal(err)
		}
		x, err := nets.OpenGenerator(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		y, err := nets.OpenGenerator(hf, "")
		if err != nil {
			t.Fatal(err)
		}
		p, _ := x.Next(7)
		q, _ := y.Next(7)
		for i := range p {
			if math.Abs(float64(p[i]-q[i])) > 1e-6 {
				t.Fatalf("score %d is %v with adapters, %v merged", i, p[i], q[i])
			}
		}
		compareGraph(t, dir, []int32{1, 200, 3, 3, 250, 17, 0, 9})
	}
}

func TestPretrainedRefusals(t *testing.T) {
	dir := modelOf(t, "", nil)
	hf := t.TempDir()
	if err := nets.ExportHF(dir, hf); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(hf, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	put := func(name, s string) {
		if err := os.WriteFile(filepath.Join(hf, name), []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wrong := func(what, want string) {
		t.Helper()
		if _, err := nets.Open(hf); !errors.Is(err, weights.ErrFile) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	for old, c := range map[string][2]string{
		`"gpt2"`:       {`"bert"`, "model_type"},
		`"gelu_new"`:   {`"relu"`, "activation_function"},
		`"n_head": 4`:  {`"n_head": 3`, "multiple of heads"},
		`"n_layer": 2`: {`"n_layer": 3`, "h.2."},
		`"n_embd": 16`: {`"n_embd": 1e9`, "cannot unmarshal"},
	} {
		put("config.json", strings.Replace(string(config), old, c[0], 1))
		wrong(c[0], c[1])
	}
	put("config.json", "{")
	wrong("cut config", "unexpected end")
	put("config.json", string(config))
	for what, c := range map[string][2]string{
		"index outside":    {`{"weight_map":{"a":"../../etc/passwd"}}`, "no file of the folder"},
		"absolute index":   {`{"weight_map":{"a":"/etc/passwd"}}`, "no file of the folder"},
		"shard gone":       {`{"weight_map":{"a":"gone.safetensors"}}`, "gone.safetensors"},
		"index is no JSON": {`nope`, "index"},
		"tensor in two":    {`{"weight_map":{"a":"model.safetensors","b":"copy.safetensors"}}`, "is in"},
	} {
		if what == "tensor in two" {
			b, err := os.ReadFile(filepath.Join(hf, weights.ModelFile))
			if err != nil {
				t.Fatal(err)
			}
			put("copy.safetensors", string(b))
		}
		put(weights.ModelFile+".index.json", c[0])
		wrong(what, c[1])
	}
	for what, m := range map[string]nets.Spec{"another width": {Name: "gpt", Dim: 32}, "another style": {Name: "gpt", Style: 2}, "another model": {Name: "mlp"}} {
		if _, _, err := nets.ReadStart(dir, m); !errors.Is(err, weights.ErrFile) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := nets.OpenGenerator(t.TempDir(), ""); !errors.Is(err, weights.ErrFile) {
		t.Errorf("empty folder: %v", err)
	}
}

// TestChoose checks shares of sampling and the limits of a generator.
func TestChoose(t *testing.T) {
	g, err := nets.OpenGenerator(modelOf(t, "", nil), "")
	if err != nil {
		t.Fatal(err)
	}
	scores, count := []float32{1, 3, 2, -5}, make([]int, 4)
	for seed := range uint64(4000) {
		count[g.Choose(scores, 1, 3, seed)]++
	}
	for i, want := range []float64{0.090, 0.665, 0.245, 0} {
		if got := float64(count[i]) / 4000; math.Abs(got-want) > 0.03 {
			t.Errorf("token %d: %.3f, want %.3f", i, got, want)
		}
	}
	if g.Choose(scores, 0, 0, 1) != 1 || g.Choose(scores, 1, 1, 9) != 1 {
		t.Error("the best is not chosen")
	}
	if _, err := g.Next(256); err == nil {
		t.Error("a token outside the vocabulary is taken")
	}
	for range 8 {
		if _, err := g.Next(1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := g.Next(1); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("a ninth token in a context of eight: %v", err)
	}
	ids, err := g.Encode("bee")
	if text, err2 := g.Decode(ids); err != nil || err2 != nil || text != "bee" {
		t.Errorf("%q, %v, %v", text, err, err2)
	}
}
