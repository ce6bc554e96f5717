package data

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"

	"github.com/apiary-net/hived/train/weights"
)

// CalibrationFile is written beside the model of a forecast.
const CalibrationFile = "calibration.json"

// Calibration is what earlier forecasts were worth once their outcomes were known.
// It corrects later ones: means are multiplied by the least squares factor of the
// past, and intervals widened or narrowed by how often they held (adaptive
// conformal inference, Gibbs and Candès 2021). Older weeks count less.
type Calibration struct {
	// Fit has, by series ("" for all) and term, sums of outcome times forecast and
	// of forecasts squared, in units of the usual change.
	Fit map[string][]Fit `json:"fit"`
	// Width has the logarithm of each term's factor of intervals.
	Width []float64 `json:"width"`
}

// Fit are the sums of a regression through zero.
type Fit struct {
	Cross  float64 `json:"cross"`
	Square float64 `json:"square"`
}

// Constants of the correction: how fast the past fades, what the factor is before
// there is a past and how many squares that belief is worth, and how fast intervals
// follow.
const (
	calibrationFade  = 0.8
	calibrationPrior = 0.9
	calibrationTrust = 20
	calibrationStep  = 1.5
	maxCalibration   = 64 << 20
)

// openCalibration reads the file; an empty path is no past.
func openCalibration(path string, terms int) (*Calibration, error) {
	c := &Calibration{Fit: map[string][]Fit{}, Width: make([]float64, terms)}
	if path == "" {
		return c, nil
	}
	b, err := weights.ReadBounded(path, maxCalibration)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, c); err != nil {
		return nil, fmt.Errorf("read calibration: %s: %w: %w", path, err, weights.ErrFile)
	}
	bad := len(c.Width) != terms
	for _, f := range c.Fit {
		bad = bad || len(f) != terms
	}
	if bad {
		return nil, fmt.Errorf("read calibration: %s is for other targets or horizons: %w", path, weights.ErrFile)
	}
	return c, nil
}

// save writes the file into dir.
func (c *Calibration) save(dir string) error {
	return weights.ReplaceFile(filepath.Join(dir, CalibrationFile), func(w io.Writer) error { return json.NewEncoder(w).Encode(c) })
}

// factor of the mean of a series' term.
func (c *Calibration) factor(series string, term int) float32 {
	shrunk := func(name string, prior float64) float64 {
		f := Fit{}
		if all := c.Fit[name]; all != nil {
			f = all[term]
		}
		return (f.Cross + prior*calibrationTrust) / (f.Square + calibrationTrust)
	}
	return float32(min(1.2, max(0, shrunk(series, shrunk("", calibrationPrior)))))
}

// correct applies the past to one forecast: mean, then quantiles whose middle is
// the median.
func (c *Calibration) correct(series string, term int, p []float32) []float32 {
	out := make([]float32, len(p))
	out[0] = p[0] * c.factor(series, term)
	middle, width := p[0], float32(math.Exp(c.Width[term]))
	if len(p)%2 == 0 {
		middle = p[len(p)/2]
	}
	for i := 1; i < len(p); i++ {
		out[i] = out[0] + (p[i]-middle)*width
	}
	return out
}

// learn adds a round of forecasts and outcomes: each calls visit with the series,
// the term, the uncorrected forecast and the outcome.
func (c *Calibration) learn(each func(visit func(series string, term int, p []float32, y float32))) {
	inside, all := make([]float64, len(c.Width)), make([]float64, len(c.Width))
	news := map[string][]Fit{}
	each(func(series string, term int, p []float32, y float32) {
		q := c.correct(series, term, p)
		if all[term]++; len(q) == 4 && y >= q[1] && y <= q[3] {
			inside[term]++
		}
		for _, name := range []string{"", series} {
			if news[name] == nil {
				news[name] = make([]Fit, len(c.Width))
			}
			f := &news[name][term]
			f.Cross += float64(p[0]) * float64(y)
			f.Square += float64(p[0]) * float64(p[0])
			if series == "" {
				break
			}
		}
	})
	for name, fs := range news {
		old := c.Fit[name]
		if old == nil {
			old = make([]Fit, len(c.Width))
			c.Fit[name] = old
		}
		for i, f := range fs {
			old[i] = Fit{calibrationFade*old[i].Cross + f.Cross, calibrationFade*old[i].Square + f.Square}
		}
	}
	for i := range c.Width {
		if all[i] > 0 {
			c.Width[i] = min(2, max(-2, c.Width[i]+calibrationStep*(0.8-inside[i]/all[i])))
		}
	}
}
