package data

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/apiary-net/hived/train/weights"
)

// openTensorShards reads samples from safetensors files: in each an input tensor
// [N,..] and a tensor of N classes. All files of a folder belong together; a file
// that lies about a length, a name given twice, or shapes that differ are refused.
func openTensorShards(d Spec) (Set, error) {
	files, err := dataFiles(d.Path, named(d.Ext, ".safetensors"))
	if err != nil {
		return nil, err
	}
	sp, err := newSplitter(d.SplitSpec)
	if err != nil {
		return nil, err
	}
	var l *labelled
	var names []string
	for _, path := range files {
		x, shape, y, err := readShard(path, named(d.Field, "x"), named(d.Label, "y"))
		if err != nil {
			return nil, err
		}
		if l == nil {
			l = newLabelled("tensors", shardForm(shape))
		}
		if form := shardForm(shape); !slices.Equal(form.Dims, l.form.Dims) {
			return nil, fmt.Errorf("open tensors: %s: samples of %v beside %v: %w", path, form.Dims, l.form.Dims, weights.ErrFile)
		}
		if err := l.room(len(names)+len(y), 4); err != nil {
			return nil, fmt.Errorf("open tensors: %s: %w", path, err)
		}
		n := l.form.Size()
		for i, c := range y {
			row, class := x[i*n:][:n], strconv.FormatInt(c, 10)
			digest := contentDigest(floatBytes(row), class)
			split := sp.of(path, "", digest)
			if split == "" {
				continue
			}
			l.splits[split] = append(l.splits[split], len(names))
			names, l.digests, l.values = append(names, class), append(l.digests, digest), append(l.values, row...)
		}
	}
	return l.finish(names, sp.copies)
}

// shardForm is an image [H,W,C] or a flat sample.
func shardForm(shape []int) Form {
	if len(shape) == 4 {
		return Form{Kind: "image", Dims: slices.Clone(shape[1:])}
	}
	n := 1
	for _, s := range shape[1:] {
		n *= s
	}
	return Form{Kind: "table", Dims: []int{n}}
}

// readShard reads one file.
func readShard(path, input, label string) (x []float32, shape []int, y []int64, err error) {
	f, err := weights.Open(path)
	if err != nil {
		return nil, nil, nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if y, err = f.Integers(label); err != nil {
		return nil, nil, nil, err
	}
	shape, _ = f.Shape(input)
	if x, err = f.Float32(input); err != nil {
		return nil, nil, nil, err
	}
	if len(shape) < 2 || shape[0] != len(y) || len(x) == 0 {
		return nil, nil, nil, fmt.Errorf("open tensors: %s: %q is %v for %d of %q: %w", path, input, shape, len(y), label, weights.ErrFile)
	}
	for i, c := range y {
		if c < 0 || c >= 1<<16 {
			return nil, nil, nil, fmt.Errorf("open tensors: %s: label %d is %d, limit 0 to 65535: %w", path, i, c, weights.ErrFile)
		}
	}
	return x, shape, y, nil
}
