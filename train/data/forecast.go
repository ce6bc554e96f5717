package data

import (
	"fmt"
	"math"
	"time"

	"github.com/apiary-net/hived/train/weights"
)

// Channels of a sample: for each column its value, its change since the last step,
// whether it is missing, and how far the step's last reading lies from its mean;
// then the hour and the day of the year as points on circles.
const (
	columnChannels = 4
	clockChannels  = 4
)

func (s *series) Form() Form {
	return Form{Kind: "series", Dims: []int{s.d.History, columnChannels*len(s.inputs) + clockChannels}, Terms: len(s.targets) * len(s.horizons)}
}

// sample finds the moments that can be forecast, measures the usual changes before
// Until, and assigns splits: by time where Until says so, else whole days by hash.
func (s *series) sample() error {
	until, end := int64(math.MaxInt64), int64(math.MaxInt64)
	defer func() { s.end = end }()
	for _, p := range []struct {
		key, text string
		to        *int64
	}{{"until", s.d.Until, &until}, {"test_until", s.d.TestEnd, &end}} {
		if p.text == "" {
			continue
		}
		t, err := (&stamps{}).parse(p.text)
		if err != nil {
			return fmt.Errorf("series %s: %w", p.key, err)
		}
		*p.to = t.UnixNano() / int64(s.step)
	}
	sp, err := newSplitter(s.d.SplitSpec)
	if err != nil {
		return err
	}
	for i := range s.list {
		g := &s.list[i]
		s.measure(g, until)
		for at := s.d.History - 1; at < g.n; at++ {
			if !s.usable(g, at) {
				continue
			}
			last := g.start + int64(at+s.farthest())
			now := g.start + int64(at)
			switch {
			case s.d.Until == "":
				day := now * int64(s.step) / int64(24*time.Hour)
				split := sp.of("", fmt.Sprint(g.name, day), contentDigest(floatBytes([]float32{float32(at)}), g.name))
				s.splits[named(split, Train)] = append(s.splits[named(split, Train)], moment{i, at})
			case last < until: // all that it is trained on lies before
				s.splits[Train] = append(s.splits[Train], moment{i, at})
			case now >= until && now < end:
				s.splits[Test] = append(s.splits[Test], moment{i, at})
			}
		}
	}
	if len(s.splits[Train]) == 0 {
		return fmt.Errorf("series: %s has no %d steps with values to train on: %w", s.d.Path, s.d.History, weights.ErrFile)
	}
	return nil
}

func (s *series) farthest() int {
	far := 0
	for _, h := range s.horizons {
		far = max(far, h)
	}
	return far
}

// at returns the value of a column, NaN outside.
func (s *series) at(g *grid, i, column int) float32 {
	if i < 0 || i >= g.n {
		return Absent
	}
	return g.value[i*len(s.inputs)+column]
}

// usable needs the last value of each target and at least one value to come.
func (s *series) usable(g *grid, at int) bool {
	ahead := false
	for _, c := range s.targets {
		if x := s.at(g, at, c); x != x {
			return false
		}
		for _, h := range s.horizons {
			x := s.at(g, at+h, c)
			ahead = ahead || x == x
		}
	}
	return ahead
}

// measure takes means, deviations and the root mean square of changes from what
// lies before until.
func (s *series) measure(g *grid, until int64) {
	n := int(min(int64(g.n), max(0, until-g.start)))
	root := func(sum, count float64) float32 {
		if count == 0 || sum <= 0 {
			return 1
		}
		return float32(math.Sqrt(sum / count))
	}
	for c := range s.inputs {
		sum, square, k := 0.0, 0.0, 0.0
		for i := range n {
			if x := float64(s.at(g, i, c)); x == x {
				sum, square, k = sum+x, square+float64(x*x), k+1
			}
		}
		m := sum / max(1, k)
		g.mean = append(g.mean, float32(m))
		g.level = append(g.level, max(1e-3, root(square-float64(k*float64(m*m)), k)))
	}
	for _, c := range s.targets {
		for _, h := range s.horizons {
			sum, k := 0.0, 0.0
			for i := range n - h {
				if d := float64(s.at(g, i+h, c) - s.at(g, i, c)); d == d {
					sum, k = sum+float64(d*d), k+1
				}
			}
			g.scale = append(g.scale, max(1e-3, root(sum, k)))
		}
	}
}

// Batch writes the channels of each step, scaled; for a missing value the one before
// it stands in.
func (s *series) Batch(split string, idx []int, dst *Batch) error {
	if err := checkIndex(split, idx, s.Len(split)); err != nil {
		return err
	}
	for k, i := range idx {
		s.write(s.splits[split][i], dst, k)
	}
	return nil
}

func (s *series) write(m moment, dst *Batch, k int) {
	g, form := &s.list[m.series], s.Form()
	w, n := form.Dims[1], len(s.inputs)
	x := dst.Float[k*form.Size():][:form.Size()]
	for c := range s.inputs {
		last := s.at(g, m.at, c)
		unit := g.level[c]
		if c < len(s.targets) { // changes of targets by their usual change
			unit = g.scale[c*len(s.horizons)]
		}
		held := g.mean[c]
		for t := range s.d.History {
			i := m.at - s.d.History + 1 + t
			row := x[t*w:]
			v := s.at(g, i, c)
			if v != v {
				row[2*n+c] = 1
				v = held
			} else {
				row[2*n+c] = 0
			}
			held = v
			row[c] = clip((v-g.mean[c])/g.level[c], 5)
			row[n+c] = 0
			if last == last {
				row[n+c] = clip((v-last)/unit, 10)
			}
			row[3*n+c] = 0
			if row[2*n+c] == 0 {
				row[3*n+c] = clip((g.final[i*n+c]-v)/unit, 10)
			}
		}
	}
	perDay := float64(24*time.Hour) / float64(s.step)
	for t := range s.d.History {
		i := float64(g.start + int64(m.at-s.d.History+1+t))
		row := x[t*w+columnChannels*n:]
		row[0], row[1] = circle(i / perDay)
		row[2], row[3] = circle(i / perDay / 365.25)
	}
	for c := range s.targets {
		for h, ahead := range s.horizons {
			j := c*len(s.horizons) + h
			dst.Targets[k*form.Terms+j] = (s.at(g, m.at+ahead, c) - s.at(g, m.at, c)) / g.scale[j]
		}
	}
}

func clip(x, most float32) float32 { return min(most, max(-most, x)) }

// circle is the point after x turns.
func circle(x float64) (cos, sin float32) {
	x -= math.Floor(x)
	return float32(cosTurn(x)), float32(cosTurn(math.Mod(x+0.75, 1)))
}

// each calls f with the outcome and the forecast of every term of a split that has
// an outcome, in units of the usual change; at is the step of the outcome.
func (s *series) each(split string, out []float32, f func(g *grid, column, at, term int, p []float32, y float32)) {
	terms := s.Form().Terms
	w := len(out) / max(1, s.Len(split)*terms)
	for k, m := range s.splits[split] {
		g := &s.list[m.series]
		for c, col := range s.targets {
			for h, ahead := range s.horizons {
				j := c*len(s.horizons) + h
				if y := (s.at(g, m.at+ahead, col) - s.at(g, m.at, col)) / g.scale[j]; y == y {
					f(g, col, m.at+ahead, j, out[(k*terms+j)*w:][:w], y)
				}
			}
		}
	}
}

// learn keeps what the forecasts of a split were worth, as far as their outcome is
// known when the split ends.
func (s *series) Learn(split string, out []float32, dir string) error {
	s.past.learn(func(visit func(series string, term int, p []float32, y float32)) {
		s.each(split, out, func(g *grid, _ int, at, term int, p []float32, y float32) {
			if g.start+int64(at) < s.end {
				visit(g.name, term, p, y)
			}
		})
	})
	return s.past.save(dir)
}

// judge compares forecasts, corrected by the past and in the data's units, with
// persistence (which a day ahead is the seasonal one): for each target and horizon,
// over all series and for each, root mean square errors and numbers; and, where
// there are quantiles 0.1 and 0.9, how many values lie between them.
func (s *series) Judge(split string, out []float32) map[string]float64 {
	type tally struct{ n, model, naive, inside float64 }
	sums, quantiles := map[string]*tally{}, false
	s.each(split, out, func(g *grid, column, _, term int, p []float32, y float32) {
		ahead := s.horizons[term%len(s.horizons)]
		q, unit := s.past.correct(g.name, term, p), float64(g.scale[term])
		quantiles = len(q) == 4
		d, e := unit*float64(y), unit*float64(y-q[0])
		names := []string{"", " " + g.name}
		if g.name == "" {
			names = names[:1]
		}
		for _, name := range names {
			key := fmt.Sprintf("%s +%d%s", s.inputs[column], ahead, name)
			if sums[key] == nil {
				sums[key] = &tally{}
			}
			t := sums[key]
			t.n++
			t.model += e * e
			t.naive += d * d
			if quantiles && y >= q[1] && y <= q[3] {
				t.inside++
			}
		}
	})
	measures := map[string]float64{}
	for k, t := range sums {
		measures[k+" rmse"], measures[k+" persistence"], measures[k+" n"] = math.Sqrt(t.model/t.n), math.Sqrt(t.naive/t.n), t.n
		if quantiles {
			measures[k+" inside 80"] = t.inside / t.n
		}
	}
	return measures
}
