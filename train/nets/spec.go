package nets

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/apiary-net/hived/train/data"
)

// Spec is a model: a name, a preset, and sizes that differ from it. It is the one
// description of a model: run files hold it as a table, a genesis and the file of a
// model hold its sizes by key.
type Spec struct {
	Name   string `toml:"name" comment:"mlp, convnet, resnet, gpt or seq"`
	Preset string `toml:"preset" comment:"sizes by name"`
	Start  string `toml:"start" comment:"safetensors file or folder with the first weights"`

	Layers     int64 `toml:"layers"`
	Dim        int64 `toml:"dim"`
	Heads      int64 `toml:"heads"`
	KVHeads    int64 `toml:"kv_heads"`
	Hidden     int64 `toml:"hidden"`
	Context    int64 `toml:"context"`
	Vocab      int64 `toml:"vocab"`
	Style      int64 `toml:"style" comment:"gpt: 1 GPT-2, 2 Llama"`
	RopeTheta  int64 `toml:"rope_theta"`
	NormEps    int64 `toml:"norm_eps" comment:"gpt: in units of 1e-9"`
	Untied     int64 `toml:"untied" comment:"gpt: 1: the head has weights of its own"`
	Lora       int64 `toml:"lora" comment:"gpt: rank of adapters; everything else is frozen"`
	Depth      int64 `toml:"depth"`
	Filters    int64 `toml:"filters"`
	Norm       int64 `toml:"norm" comment:"resnet: 1 batch norm, 2 group norm"`
	Groups     int64 `toml:"groups" comment:"resnet: of group norm"`
	Squeeze    int64 `toml:"squeeze" comment:"resnet: by how much a block's gate narrows"`
	Attention  int64 `toml:"attention" comment:"resnet: heads of self-attention over the last stage"`
	Cardinal   int64 `toml:"cardinality" comment:"resnet: groups of a block's second convolution"`
	Again      int64 `toml:"recompute" comment:"gpt: 1: layers are computed again backward instead of kept"`
	StemStride int64 `toml:"stem_stride"`
	StemPool   int64 `toml:"stem_pool" comment:"resnet: 1 maxima, 2 means of 2x2 squares"`
	Dense      int64 `toml:"dense"`
	Inputs     int64 `toml:"inputs"`
	Height     int64 `toml:"height"`
	Width      int64 `toml:"width"`
	Channels   int64 `toml:"channels"`
	Classes    int64 `toml:"classes"`
	Cell       int64 `toml:"cell" comment:"seq: 1 TCN, 2 GRU"`
	Quantiles  int64 `toml:"quantiles"`
	Targets    int64 `toml:"targets"`
	StepsIn    int64 `toml:"steps"`
	Dropout    int64 `toml:"dropout" comment:"in thousandths"`
}

// SpecOf returns the spec of a model with sizes by key, as a genesis or the file of
// a model names them. A key that no model has is an error.
func SpecOf(name string, values map[string]int64) (Spec, error) {
	return Spec{Name: name}.With(values)
}

// With returns m with sizes put over its own; 0 is the model's default.
func (m Spec) With(values map[string]int64) (Spec, error) {
	v, left := reflect.ValueOf(&m).Elem(), maps.Clone(values)
	for i := range v.NumField() {
		key := v.Type().Field(i).Tag.Get("toml")
		if n, ok := left[key]; ok && v.Field(i).Kind() == reflect.Int64 {
			v.Field(i).SetInt(n)
			delete(left, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(left)) {
		return m, fmt.Errorf("model %s has no argument %q", m.Name, key)
	}
	return m, nil
}

// Sizes returns the sizes that are given, by key.
func (m Spec) Sizes() map[string]int64 {
	out := map[string]int64{}
	v := reflect.ValueOf(m)
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Int64 && f.Int() != 0 {
			out[v.Type().Field(i).Tag.Get("toml")] = f.Int()
		}
	}
	return out
}

// Full returns every size that makes the model what it is, by key: those that are
// given, else the preset's, else the model's defaults.
func (m Spec) Full() (map[string]int64, error) {
	s, err := m.resolve()
	if err != nil {
		return nil, err
	}
	return s.complete()
}

// resolve puts the preset's sizes where none are given.
func (m Spec) resolve() (Spec, error) {
	if m.Preset == "" {
		return m, nil
	}
	p, ok := families[m.Name].presets[m.Preset]
	if !ok {
		return m, fmt.Errorf("model %s has no preset %q; it has %s", m.Name, m.Preset, strings.Join(Presets(m.Name), ", "))
	}
	given := m.Sizes()
	m, err := m.With(p)
	if err != nil {
		return m, err
	}
	m.Preset = ""
	return m.With(given)
}

// complete fills in the defaults and checks all sizes.
func (m Spec) complete() (map[string]int64, error) {
	f, ok := families[m.Name]
	if !ok {
		return nil, fmt.Errorf("find model %q: have %s", m.Name, strings.Join(Names(), ", "))
	}
	full, given := sizes{}, m.Sizes()
	for _, s := range f.sizes {
		full[s.key] = s.def
		if v := given[s.key]; v != 0 {
			full[s.key] = v
		}
		if v := full[s.key]; v < s.low || v > s.high {
			return nil, fmt.Errorf("model %s: %s is %d, want %d to %d", m.Name, s.key, v, s.low, s.high)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(given)) {
		if _, ok := full[k]; !ok {
			return nil, fmt.Errorf("model %s has no argument %q; it has %s", m.Name, k, strings.Join(slices.Sorted(maps.Keys(full)), ", "))
		}
	}
	if f.check != nil {
		if err := f.check(full); err != nil {
			return nil, fmt.Errorf("model %s: %w", m.Name, err)
		}
	}
	return full, nil
}

// Fit fills in the sizes that the data decide: those of inputs and classes. Sizes
// that are given stay, and must agree later.
func (m Spec) Fit(f data.Form) (Spec, error) {
	m, err := m.resolve()
	if err != nil {
		return m, err
	}
	out := m.Sizes()
	set := func(key string, v int) {
		for _, s := range families[m.Name].sizes {
			if s.key == key && out[key] == 0 && v != int(s.def) {
				out[key] = int64(v)
			}
		}
	}
	switch {
	case f.Kind == "image" && len(f.Dims) == 3:
		set("height", f.Dims[0])
		set("width", f.Dims[1])
		set("channels", f.Dims[2])
		set("classes", f.Classes)
	case f.Kind == "text":
		set("context", f.Dims[0])
		set("vocab", f.Classes)
	case f.Kind == "series" && len(f.Dims) == 2:
		set("steps", f.Dims[0])
		set("channels", f.Dims[1])
		set("targets", f.Terms)
	}
	if m.Name == "mlp" {
		set("inputs", f.Size())
		set("classes", f.Classes)
	}
	return m.With(out)
}
