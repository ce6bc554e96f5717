package train

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/apiary-net/hived/train/data"
)

// Measurement is a score with what else a data set can say of predictions.
type Measurement struct {
	Score
	Measures map[string]float64
	out      []float32
}

// Lines returns the measures in name order.
func (m Measurement) Lines() []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m.Measures)) {
		out = append(out, fmt.Sprintf("%-40s %.4f", k, m.Measures[k]))
	}
	return out
}

// Measure scores parameters on a split.
func Measure(ctx context.Context, c Config, params, buffers []float32, split string) (m Measurement, err error) {
	t, err := New(c)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	if m.Score, err = t.Eval(ctx, params, buffers, split, 0); err != nil {
		return m, err
	}
	if j, ok := c.Data.(data.Judge); ok {
		out, err := t.Predict(ctx, params, buffers, split)
		if err != nil {
			return m, err
		}
		m.Measures, m.out = j.Judge(split, out), out
	}
	return m, nil
}

// KeepCalibration keeps what the measured forecasts were worth beside the model, for
// data that are forecasts.
func (m *Measurement) KeepCalibration(set data.Set, split, dir string) error {
	l, ok := set.(data.Improver)
	if !ok || dir == "" || m.out == nil {
		return nil
	}
	return l.Learn(split, m.out, dir)
}
