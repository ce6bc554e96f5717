package train

import (
	"errors"
	"fmt"

	"github.com/apiary-net/hived/wire"
)

// ErrData is wrapped by errors about files that are absent, truncated or lie.
var ErrData = errors.New("data set is not usable")

// The splits of a data set. Only train is dealt.
const (
	SplitTrain = "train"
	SplitTest  = "test"
)

// Batch receives samples: Float [n, Width] for images, Int [n, Width] for text,
// and Labels, one for an image, Width for text.
type Batch struct {
	Float  []float32
	Int    []int32
	Labels []int32
}

// Dataset is numbered samples in splits. Its methods may be called concurrently.
type Dataset interface {
	Name() string
	// Kind is image (28x28 digits) or text (windows of bytes).
	Kind() string
	// Len returns the samples of a split, 0 for one that does not exist.
	Len(split string) int
	// Batch writes samples idx to the start of dst's slices, which the caller
	// sized by Terms and by its model.
	Batch(split string, idx []int, dst *Batch) error
	// Terms returns the labels of one sample.
	Terms() int
	// Digest names all samples of all splits.
	Digest() (wire.Digest, error)
}

// Open returns the data set of a task: mnist (IDX files) or text (files of text).
// dir is where to look first; empty is the task's own place. It wraps ErrData.
func Open(task, dir string) (Dataset, error) {
	switch task {
	case "mnist":
		return openMNIST(dir)
	case "text":
		return openText(dir, DefaultText())
	}
	return nil, fmt.Errorf("open data of task %q: have mnist, text: %w", task, ErrData)
}

func checkIndex(split string, idx []int, n int) error {
	for _, i := range idx {
		if i < 0 || i >= n {
			return fmt.Errorf("read sample %d of split %s: it has %d", i, split, n)
		}
	}
	return nil
}
