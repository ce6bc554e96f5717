package nets

import "reflect"

// Spec is a model: a name, a preset, and sizes that differ from it.
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

// Args returns the sizes that are given, by key.
func (m Spec) Args() map[string]int64 {
	out := map[string]int64{}
	v := reflect.ValueOf(m)
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Int64 && f.Int() != 0 {
			out[v.Type().Field(i).Tag.Get("toml")] = f.Int()
		}
	}
	return out
}
