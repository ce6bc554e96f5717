package nets

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	ops "github.com/apiary-net/hived/tensorops"
	"github.com/apiary-net/hived/train/data"
)

// Model writes a graph for a batch size. Its inputs are, in this order: one float
// or integer input with the samples, labels or targets, and, where the model
// draws random numbers, one integer key a sample.
type Model interface {
	Build(g *ops.Graph, batch int) (loss, out ops.V)
	// Form is that of the data it reads.
	Form() data.Form
}

// size is an argument of a model.
type size struct {
	key            string
	def, low, high int64
}

// sizes are a model's arguments, complete and within bounds.
type sizes map[string]int64

func (s sizes) of(key string) int { return int(s[key]) }

// share returns an argument that is given in thousandths.
func (s sizes) share(key string) float64 { return float64(s[key]) / 1000 }

// family is a kind of model: what can be said of it, and how it is made.
type family struct {
	sizes   []size
	presets map[string]sizes // by name: arguments that differ from the defaults
	form    func(a sizes) data.Form
	check   func(a sizes) error
	build   func(a sizes, g *ops.Graph, batch int) (loss, out ops.V)
}

var families = map[string]family{
	"mlp": mlpFamily, "convnet": convnetFamily, "resnet": resnetFamily, "gpt": gptFamily, "seq": seqFamily,
}

// Names returns the names of all models.
func Names() []string { return slices.Sorted(maps.Keys(families)) }

// Presets returns the names of a model's presets.
func Presets(name string) []string { return slices.Sorted(maps.Keys(families[name].presets)) }

// built is a model of a family.
type built struct {
	family
	name string
	args sizes
}

func (m built) Form() data.Form { return m.form(m.args) }

func (m built) Build(g *ops.Graph, batch int) (loss, out ops.V) {
	return m.family.build(m.args, g, batch)
}

// New returns a model by name; args that are absent or 0 take the default of
// the model, unknown ones are an error.
func New(name string, args map[string]int64) (Model, error) {
	full, err := Args(name, args)
	if err != nil {
		return nil, err
	}
	return built{families[name], name, full}, nil
}

// Args returns args with defaults filled in: every size that makes the model
// what it is.
func Args(name string, args map[string]int64) (map[string]int64, error) {
	f, ok := families[name]
	if !ok {
		return nil, fmt.Errorf("find model %q: have %s", name, strings.Join(Names(), ", "))
	}
	full := sizes{}
	for _, s := range f.sizes {
		full[s.key] = s.def
		if v := args[s.key]; v != 0 {
			full[s.key] = v
		}
		if v := full[s.key]; v < s.low || v > s.high {
			return nil, fmt.Errorf("model %s: %s is %d, want %d to %d", name, s.key, v, s.low, s.high)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(args)) {
		if _, ok := full[k]; !ok {
			return nil, fmt.Errorf("model %s has no argument %q; it has %s", name, k, strings.Join(slices.Sorted(maps.Keys(full)), ", "))
		}
	}
	if f.check != nil {
		if err := f.check(full); err != nil {
			return nil, fmt.Errorf("model %s: %w", name, err)
		}
	}
	return full, nil
}

// PresetArgs returns the arguments of a preset with those of over put on top.
func PresetArgs(name, preset string, over map[string]int64) (map[string]int64, error) {
	out := map[string]int64{}
	if preset != "" {
		p, ok := families[name].presets[preset]
		if !ok {
			return nil, fmt.Errorf("model %s has no preset %q; it has %s", name, preset, strings.Join(Presets(name), ", "))
		}
		maps.Copy(out, p)
	}
	for k, v := range over {
		if v != 0 {
			out[k] = v
		}
	}
	return out, nil
}

// FitArgs fills in the arguments that the data decide: input sizes and classes.
// Those that are given stay, and must agree later.
func FitArgs(name string, args map[string]int64, f data.Form) map[string]int64 {
	out := map[string]int64{}
	maps.Copy(out, args)
	set := func(key string, v int) {
		for _, s := range families[name].sizes {
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
	if name == "mlp" {
		set("inputs", f.Size())
		set("classes", f.Classes)
	}
	return out
}

// Fits says why a model cannot read data, or nil.
func Fits(m, d data.Form) error {
	switch {
	case m.Kind == "table" && d.Classes > 0 && d.Kind != "text" && m.Size() == d.Size() && m.Terms == d.Terms: // an mlp reads anything flat
	case m.Kind != d.Kind:
		return fmt.Errorf("the model reads %s, the data are %s", m.Kind, d.Kind)
	case !slices.Equal(m.Dims, d.Dims):
		return fmt.Errorf("the model reads samples of %v, the data have %v", m.Dims, d.Dims)
	case m.Terms != d.Terms:
		return fmt.Errorf("the model has %d terms a sample, the data have %d", m.Terms, d.Terms)
	}
	if m.Classes < d.Classes || (m.Classes == 0) != (d.Classes == 0) {
		return fmt.Errorf("the model has %d classes, the data have %d", m.Classes, d.Classes)
	}
	return nil
}
