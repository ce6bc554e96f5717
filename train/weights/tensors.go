package weights

import (
	"fmt"
	"slices"

	"github.com/apiary-net/hived/wire"
)

// Named cuts flat vectors into the tensors of a schema; the data are shared.
// Without buffers those are left out.
func Named(schema wire.Schema, params, buffers []float32) []Tensor {
	var out []Tensor
	for _, t := range schema {
		from := &params
		if t.Buffer {
			if from = &buffers; buffers == nil {
				continue
			}
		}
		n := t.Len()
		out = append(out, Tensor{t.Name, shapeOfTensor(t), (*from)[:n]})
		*from = (*from)[n:]
	}
	return out
}

func shapeOfTensor(t wire.Tensor) []int {
	var s []int
	for _, d := range t.Shape {
		s = append(s, int(d))
	}
	return s
}

// Put copies tensors into flat vectors by name. A tensor that the schema
// lacks, or of another shape, is an error; those that are absent stay as they are.
func Put(schema wire.Schema, params, buffers []float32, tensors []Tensor) error {
	into := map[string]Tensor{}
	for _, t := range Named(schema, params, buffers) {
		into[t.Name] = t
	}
	for _, t := range tensors {
		dst, ok := into[t.Name]
		switch {
		case !ok:
			return fmt.Errorf("put tensors: the model has no %q: %w", t.Name, ErrFile)
		case !slices.Equal(dst.Shape, t.Shape):
			return fmt.Errorf("put tensors: %q is %v, the model has %v: %w", t.Name, t.Shape, dst.Shape, ErrFile)
		}
		copy(dst.Data, t.Data)
	}
	return nil
}

// Read reads all tensors of a safetensors file, by name.
func Read(path string) ([]Tensor, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []Tensor
	for _, n := range f.Names() {
		data, err := f.Float32(n)
		if err != nil {
			return nil, err
		}
		shape, _ := f.Shape(n)
		out = append(out, Tensor{n, shape, data})
	}
	return out, nil
}

// ModelFile is the name of a model in a folder.
const ModelFile = "model.safetensors"
