package data

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/apiary-net/hived/train/weights"
	"github.com/apiary-net/hived/wire"
)

// labelled are samples of one size with a class each, in memory: images, sounds,
// rows of tables.
type labelled struct {
	name    string
	form    Form
	pixels  []uint8   // samples as bytes, or
	values  []float32 // samples as numbers
	labels  []int32
	digests []wire.Digest
	classes []string
	splits  map[string][]int // numbers of samples
	columns int              // of the scale: the last dimension, or the bands of sounds
	mean    []float32        // by column
	scale   []float32        // one over the deviation, by column
	augment func(x []float32, key uint64)
	copies  int // samples that were copies of others, dropped
	digest  func() wire.Digest
}

func newLabelled(name string, form Form) *labelled {
	l := &labelled{name: name, form: form, columns: form.Dims[len(form.Dims)-1], splits: map[string][]int{}}
	l.digest = sync.OnceValue(func() wire.Digest {
		var leaves []wire.Digest
		for _, s := range []string{Train, Valid, Test} {
			for _, i := range l.splits[s] {
				leaves = append(leaves, l.digests[i])
			}
		}
		return wire.MerkleRoot(leaves)
	})
	return l
}

// maxSamples bounds the memory that samples take.
const maxSamples = 4 << 30

// room checks that n samples of width bytes fit.
func (l *labelled) room(n, width int) error {
	if int64(n)*int64(l.form.Size())*int64(width) > maxSamples {
		return fmt.Errorf("%d samples of %v take more than %d bytes: %w", n, l.form.Dims, int64(maxSamples), weights.ErrFile)
	}
	return nil
}

// finish numbers the classes by name, and scales by the training split. names has
// the class of each sample.
func (l *labelled) finish(names []string, copies int) (*labelled, error) {
	l.copies = copies
	l.classes = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(l.classes) < 2 || len(l.classes) > 1<<16 {
		return nil, fmt.Errorf("open %s: %d classes, want 2 to 65536: %w", l.name, len(l.classes), weights.ErrFile)
	}
	for _, n := range names {
		i, _ := slices.BinarySearch(l.classes, n)
		l.labels = append(l.labels, int32(i))
	}
	if len(l.splits[Train]) == 0 {
		return nil, fmt.Errorf("open %s: of %d samples none is left to train on: %w", l.name, len(names), weights.ErrFile)
	}
	l.form.Classes, l.form.Terms = len(l.classes), 1
	l.measureScale()
	return l, nil
}

// measureScale takes mean and deviation of each column over the training split.
func (l *labelled) measureScale() {
	c := l.columns
	sum, square, n := make([]float64, c), make([]float64, c), make([]float64, c)
	row := make([]float32, l.form.Size())
	for _, i := range l.splits[Train] {
		l.raw(i, row)
		for j, f := range row {
			if f != f {
				continue
			}
			sum[j%c] += float64(f)
			square[j%c] += float64(float64(f) * float64(f))
			n[j%c]++
		}
	}
	l.mean, l.scale = make([]float32, c), make([]float32, c)
	for j := range c {
		m := sum[j] / max(1, n[j])
		l.mean[j] = float32(m)
		l.scale[j] = 1
		if v := square[j]/max(1, n[j]) - float64(m*m); v > 1e-12 {
			l.scale[j] = float32(1 / math.Sqrt(v))
		}
	}
}

// raw writes sample i as it was read.
func (l *labelled) raw(i int, dst []float32) {
	n := l.form.Size()
	if l.pixels == nil {
		copy(dst, l.values[i*n:][:n])
		return
	}
	for j, p := range l.pixels[i*n:][:n] {
		dst[j] = float32(p) / 255
	}
}

func (l *labelled) Name() string                 { return l.name }
func (l *labelled) Form() Form                   { return l.form }
func (l *labelled) Len(split string) int         { return len(l.splits[split]) }
func (l *labelled) Digest() (wire.Digest, error) { return l.digest(), nil }

// Notes says how many samples were copies.
func (l *labelled) Notes() []string {
	out := []string{fmt.Sprintf("%d classes; %d samples to train on, %d to validate, %d to test", len(l.classes), l.Len(Train), l.Len(Valid), l.Len(Test))}
	if l.copies > 0 {
		out = append(out, fmt.Sprintf("%d samples left out: copies of others", l.copies))
	}
	return out
}

// Batch writes samples scaled to mean 0 and deviation 1; missing values become the
// mean. A key changes a sample as the format says.
func (l *labelled) Batch(split string, idx []int, dst *Batch) error {
	if err := checkIndex(split, idx, l.Len(split)); err != nil {
		return err
	}
	n, c := l.form.Size(), len(l.mean)
	for k, at := range idx {
		i := l.splits[split][at]
		x := dst.Float[k*n:][:n]
		l.raw(i, x)
		for j := range x {
			if x[j] != x[j] {
				x[j] = l.mean[j%c]
			}
			x[j] = float32((x[j] - l.mean[j%c]) * l.scale[j%c])
		}
		if l.augment != nil && len(dst.Keys) > k {
			l.augment(x, dst.Keys[k])
		}
		dst.Labels[k] = l.labels[i]
	}
	return nil
}

// judge says how often each class is right, and how many samples it has.
func (l *labelled) Judge(split string, out []float32) map[string]float64 {
	c, m := len(out)/max(1, l.Len(split)), map[string]float64{}
	right, all := make([]float64, len(l.classes)), make([]float64, len(l.classes))
	for k, i := range l.splits[split] {
		r, _ := Right(out[k*c:][:c], l.labels[i:i+1])
		right[l.labels[i]] += float64(r)
		all[l.labels[i]]++
	}
	for i, name := range l.classes {
		if all[i] > 0 {
			m["right of class "+name] = right[i] / all[i]
		}
	}
	return m
}

// Right counts labels whose class scores highest, and labels.
func Right(logits []float32, labels []int32) (right, terms int) {
	c := len(logits) / len(labels)
	for r, l := range labels {
		if l < 0 {
			continue
		}
		row, best := logits[r*c:][:c], 0
		for j, f := range row {
			if f > row[best] {
				best = j
			}
		}
		terms++
		if best == int(l) {
			right++
		}
	}
	return right, terms
}
