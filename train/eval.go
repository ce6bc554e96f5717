package train

import (
	"context"
	"fmt"

	ops "github.com/apiary-net/hived/tensorops"
)

// Score is how a version does on a split.
type Score struct {
	Loss     float64 // mean, nats
	Accuracy float64 // share of labels that have the highest score
	Samples  int
}

// Eval scores params and buffers on a split: on all samples (max 0 or enough), or
// on max samples evenly spread. Neither the loaded version nor the optimizer's state changes.
func (t *Trainer) Eval(ctx context.Context, params, buffers []float32, split string, max int) (Score, error) {
	all := t.cfg.Data.Len(split)
	n := all
	if max > 0 && max < n {
		n = max
	}
	if n == 0 {
		return Score{}, fmt.Errorf("evaluate split %q: it has no samples", split)
	}
	if t.eval == nil {
		batch := 256
		if t.model.Kind() == "text" {
			batch = 16
		}
		b, err := t.open(batch, true)
		if err != nil {
			return Score{}, fmt.Errorf("evaluate: %w", err)
		}
		t.eval = b
	}
	b := t.eval
	if err := b.sess.Write(ops.Params, params); err != nil {
		return Score{}, fmt.Errorf("evaluate: %w", err)
	}
	if err := b.sess.Write(ops.Buffers, buffers); err != nil {
		return Score{}, fmt.Errorf("evaluate: %w", err)
	}
	logits := make([]float32, len(b.data.Labels)*t.classes())
	total, right, terms := 0.0, 0, 0
	for lo := 0; lo < n; lo += b.batch {
		b.idx = b.idx[:0]
		for i := lo; i < min(n, lo+b.batch); i++ {
			b.idx = append(b.idx, i*all/n)
		}
		loss, err := b.step(ctx, t.cfg.Data, split)
		if err != nil {
			return Score{}, fmt.Errorf("evaluate: %w", err)
		}
		if err := b.sess.Output(0, logits); err != nil {
			return Score{}, fmt.Errorf("evaluate: %w", err)
		}
		total += loss
		r, k := rightOf(logits, b.data.Labels)
		right, terms = right+r, terms+k
	}
	return Score{Loss: total / float64(terms), Accuracy: float64(right) / float64(terms), Samples: n}, nil
}

func (t *Trainer) classes() int {
	if t.model.Kind() == "text" {
		return byteVocabulary
	}
	return 10
}

// rightOf counts labels whose class scores highest, and labels.
func rightOf(logits []float32, labels []int32) (right, terms int) {
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
