package nets

import (
	"fmt"

	ops "github.com/apiary-net/hived/tensorops"
	"github.com/apiary-net/hived/wire"
)

// Start returns a model's schema and the start values that a seed gives, without
// data: what a stranger needs to replay a run.
func Start(spec Spec, seed uint64) (s wire.Schema, params, buffers []float32, err error) {
	m, err := New(spec)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("start values: %w", err)
	}
	g := &ops.Graph{}
	loss, _ := m.Build(g, 1)
	p, err := ops.Compile(g, loss, ops.Options{Inference: true})
	if err != nil {
		return nil, nil, nil, fmt.Errorf("start values: %w", err)
	}
	params, buffers = make([]float32, p.ParamLen), make([]float32, p.BufferLen)
	p.Init(seed, params, buffers)
	return SchemaOf(p), params, buffers, nil
}

// SchemaOf returns the tensors of a plan in name order.
func SchemaOf(p *ops.Plan) wire.Schema {
	s := make(wire.Schema, 0, len(p.Params))
	for _, q := range p.Params {
		w := wire.Tensor{Name: q.Name, Buffer: q.Buffer}
		for _, d := range q.Shape[:q.Shape.Rank()] {
			w.Shape = append(w.Shape, uint32(d))
		}
		s = append(s, w)
	}
	return s
}
