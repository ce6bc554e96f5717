package train

import (
	"context"
	"errors"
	"fmt"
	"math"

	ops "github.com/apiary-net/hived/tensorops"
	"github.com/apiary-net/hived/train/data"
)

// Score is how a version does on a split.
type Score struct {
	Loss     float64 // mean, nats; of forecasts the training loss
	Accuracy float64 // share of labels that have the highest score
	RMSE     float64 // of forecast means, in the data set's scaled units
	Samples  int
}

// Eval scores params and buffers on a split: on all samples (most 0 or enough), or
// on most samples evenly spread. Neither the loaded version nor the optimizer's
// state changes.
func (t *Trainer) Eval(ctx context.Context, params, buffers []float32, split string, most int) (Score, error) {
	s, total, right, square, terms := Score{}, 0.0, 0, 0.0, 0
	err := t.infer(ctx, params, buffers, split, most, func(b *bench, loss float64, out []float32) {
		total += loss
		s.Samples += len(b.idx)
		if b.data.Labels != nil {
			r, k := data.Right(out, b.data.Labels)
			right, terms = right+r, terms+k
			return
		}
		w := len(out) / len(b.data.Targets)
		for i, y := range b.data.Targets {
			if e := float64(out[i*w] - y); e == e {
				square += e * e
				terms++
			}
		}
	})
	if err != nil {
		return Score{}, fmt.Errorf("evaluate: %w", err)
	}
	if terms == 0 {
		return Score{}, fmt.Errorf("evaluate split %q: no sample has a target", split)
	}
	s.Loss, s.Accuracy, s.RMSE = total/float64(terms), float64(right)/float64(terms), math.Sqrt(square/float64(terms))
	return s, nil
}

// Predict returns the model's output for every sample of a split, in order: for
// each term its class scores, or a mean and its quantiles.
func (t *Trainer) Predict(ctx context.Context, params, buffers []float32, split string) ([]float32, error) {
	var all []float32
	err := t.infer(ctx, params, buffers, split, 0, func(b *bench, _ float64, out []float32) {
		all = append(all, out[:len(out)/b.batch*len(b.idx)]...)
	})
	if err != nil {
		return nil, fmt.Errorf("predict: %w", err)
	}
	return all, nil
}

// infer runs the model forward over a split and hands each batch to visit.
func (t *Trainer) infer(ctx context.Context, params, buffers []float32, split string, most int, visit func(b *bench, loss float64, out []float32)) error {
	all := t.cfg.Data.Len(split)
	n := all
	if most > 0 && most < n {
		n = most
	}
	if n == 0 {
		return fmt.Errorf("split %q has no samples", split)
	}
	if t.eval == nil {
		batch := 256
		if f := t.cfg.Data.Form(); f.Kind == "text" || f.Size() > 1<<12 {
			batch = 16
		}
		b, err := t.open(batch, true)
		if err != nil {
			return err
		}
		t.eval = b
	}
	b := t.eval
	if err := errors.Join(b.sess.Write(ops.Params, params), b.sess.Write(ops.Buffers, buffers)); err != nil {
		return err
	}
	out := make([]float32, b.out.Size())
	for lo := 0; lo < n; lo += b.batch {
		b.idx = b.idx[:0]
		for i := lo; i < min(n, lo+b.batch); i++ {
			b.idx = append(b.idx, i*all/n)
		}
		loss, err := b.step(ctx, t.cfg.Data, split)
		if err == nil {
			err = b.sess.Output(0, out)
		}
		if err != nil {
			return err
		}
		visit(b, loss, out)
	}
	return nil
}
