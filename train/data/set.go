package data

import (
	"fmt"
	"math"

	"github.com/apiary-net/hived/wire"
)

// The splits of a data set. Only train is dealt.
const (
	Train = "train"
	Test  = "test"
)

// Batch receives samples; which slices a data set fills is said by its Form.
type Batch struct {
	Float   []float32 // [n, Dims...]
	Int     []int32   // [n, Dims[0]]: text
	Labels  []int32   // [n, Terms], of data with classes
	Targets []float32 // [n, Terms], of data without; NaN leaves a term out
	// Keys are one random number a sample that depends on seed and position only.
	// They choose how a sample is changed (cropped, turned, masked); without them
	// samples are given as they are.
	Keys []uint64
}

// Form says what the samples of a data set look like.
type Form struct {
	Kind    string // image [H,W,C], text [context], table [columns], series [T,C]
	Dims    []int  // of one sample's input
	Classes int    // of each label, the vocabulary of text; 0: targets are values
	Terms   int    // labels or targets of one sample
}

// Size returns the input elements of one sample.
func (f Form) Size() int {
	n := 1
	for _, d := range f.Dims {
		n *= d
	}
	return n
}

// Set is numbered samples in splits. Its methods may be called concurrently.
type Set interface {
	Name() string
	Form() Form
	// Len returns the samples of a split, 0 for one that does not exist.
	Len(split string) int
	// Batch writes samples idx to the start of dst's slices, which the caller
	// sized by Form.
	Batch(split string, idx []int, dst *Batch) error
	// Digest names all samples of all splits.
	Digest() (wire.Digest, error)
}

// Noter is a data set that left something out, or has more to say of itself.
type Noter interface {
	// Notes are sentences for people.
	Notes() []string
}

func checkIndex(split string, idx []int, n int) error {
	for _, i := range idx {
		if i < 0 || i >= n {
			return fmt.Errorf("read sample %d of split %s: it has %d", i, split, n)
		}
	}
	return nil
}

// Absent leaves a target out.
var Absent = float32(math.NaN())

// Judge is a data set that compares predictions with more than its targets.
type Judge interface {
	// Judge reads the model's output for every sample of a split.
	Judge(split string, out []float32) map[string]float64
}

// Improver is a data set whose later forecasts can profit from earlier ones.
type Improver interface {
	// Learn takes the outputs for a split, whose outcomes are known by now, and
	// saves what they were worth to dir.
	Learn(split string, out []float32, dir string) error
}
