package nets

import (
	"fmt"
	"maps"
	"slices"

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
	args sizes
}

func (m built) Form() data.Form { return m.form(m.args) }

func (m built) Build(g *ops.Graph, batch int) (loss, out ops.V) {
	return m.family.build(m.args, g, batch)
}

// New returns the model that m describes.
func New(m Spec) (Model, error) {
	full, err := m.Full()
	if err != nil {
		return nil, err
	}
	return built{families[m.Name], full}, nil
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
