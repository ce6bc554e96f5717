package data

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/apiary-net/hived/train/weights"
	"github.com/apiary-net/hived/wire"
)

// Limits of time series.
const (
	maxGrid   = 1 << 22 // steps of one series
	maxSeries = 1 << 12
)

// series are sensor values on a grid of steps, one grid a series, and samples that
// forecast them: from History steps the values Horizons steps ahead. What is
// forecast is the change since the last seen value, over its usual size: a forecast
// of 0 is persistence.
type series struct {
	d        Spec
	step     time.Duration
	inputs   []string // columns
	targets  []int    // of inputs
	horizons []int
	list     []grid
	splits   map[string][]moment
	Dropped  Dropped
	past     *Calibration
	end      int64 // the step before which the test split's last forecast is made
	digest   func() wire.Digest
}

// Dropped counts rows that were left out, by reason.
type Dropped struct {
	Time, Cells, Copies, Faults, Headers int
}

// grid is one series: values [steps, columns], NaN where there is none.
type grid struct {
	name  string
	start int64 // in steps since 1970
	n     int
	value []float32
	final []float32 // the last reading of each step, laid out like value
	scale []float32 // usual change over each horizon [targets, horizons]
	level []float32 // usual size of each column
	mean  []float32
}

// moment is a sample: a series and its last seen step.
type moment struct{ series, at int }

func openSeries(d Spec) (Set, error) {
	s := &series{d: d, horizons: d.Horizons, splits: map[string][]moment{}}
	if err := s.settings(); err != nil {
		return nil, err
	}
	t, err := readTable(d.Path, true)
	if err != nil {
		return nil, err
	}
	s.Dropped.Cells, s.Dropped.Headers = t.odd, t.again
	if err := s.columns(t); err != nil {
		return nil, err
	}
	if err := s.readGrids(t); err != nil {
		return nil, err
	}
	if err := s.readWeather(); err != nil {
		return nil, err
	}
	if err := s.sample(); err != nil {
		return nil, err
	}
	if s.past, err = openCalibration(s.d.Calibration, s.Form().Terms); err != nil {
		return nil, err
	}
	s.digest = sync.OnceValue(s.root)
	return s, nil
}

func (s *series) settings() error {
	var err error
	if s.step, err = time.ParseDuration(named(s.d.Step, "1h")); err != nil || s.step < time.Second || s.step > 31*24*time.Hour {
		return fmt.Errorf("series: step %q, want a duration from 1s to 744h", s.d.Step)
	}
	if s.d.History == 0 {
		s.d.History = 72
	}
	if len(s.horizons) == 0 {
		s.horizons = []int{1}
	}
	if s.d.History < 2 || s.d.History > 4096 || len(s.horizons) > 64 || slices.Min(s.horizons) < 1 || slices.Max(s.horizons) > 4096 {
		return fmt.Errorf("series: history %d, horizons %v, want 2 to 4096 and up to 64 of 1 to 4096", s.d.History, s.horizons)
	}
	if s.d.Time == "" || len(s.d.Targets) == 0 {
		return fmt.Errorf("series: time %q, targets %q: name the columns", s.d.Time, s.d.Targets)
	}
	return nil
}

// columns chooses the inputs: targets first.
func (s *series) columns(t *table) error {
	s.inputs = slices.Clone(s.d.Targets)
	for _, c := range s.d.Columns {
		if !slices.Contains(s.inputs, c) {
			s.inputs = append(s.inputs, c)
		}
	}
	for _, c := range append(slices.Clone(s.inputs), s.d.Time) {
		if _, err := t.column(c); err != nil {
			return fmt.Errorf("series: %w", err)
		}
	}
	for i := range s.d.Targets {
		s.targets = append(s.targets, i)
	}
	return nil
}

// faulty says that a value cannot be: outside Low and High, or, where these are not
// given, outside what a column of that name can hold, or a code that broken
// sensors send.
func (s *series) faulty(column string, x float32) bool {
	if s.d.Low != 0 || s.d.High != 0 {
		return float64(x) < s.d.Low || s.d.High != 0 && float64(x) > s.d.High
	}
	c := strings.ToLower(column)
	switch {
	case strings.Contains(c, "hum"):
		return x < 0 || x > 100
	case strings.Contains(c, "temp"):
		return x < -60 || x > 80 || x == -127 || x == 85 // DS18B20: disconnected, power-on
	}
	return math.Abs(float64(x)) > 1e9
}

// reading is one row's values at a time.
type reading struct {
	at     int64 // nanoseconds
	values []float32
}

// readGrids sorts rows by series and time and averages them over steps. Rows with
// an unreadable time are left out and counted; of rows with one time the first
// counts.
func (s *series) readGrids(t *table) error {
	timeAt, err := t.column(s.d.Time)
	if err != nil {
		return err
	}
	nameAt := -1
	if s.d.Series != "" {
		if nameAt, err = t.column(s.d.Series); err != nil {
			return err
		}
	}
	var cols []int
	for _, c := range s.inputs {
		i, err := t.column(c)
		if err != nil {
			return err
		}
		cols = append(cols, i)
	}
	by, firstBad, err := s.readings(t, timeAt, nameAt, cols)
	if err != nil {
		return err
	}
	if s.Dropped.Time*2 > len(t.rows) {
		return fmt.Errorf("series: %s: %d of %d times cannot be read, the first: %w: %w", t.path, s.Dropped.Time, len(t.rows), firstBad, weights.ErrFile)
	}
	names := make([]string, 0, len(by))
	for n := range by {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		g, err := s.grid(n, by[n])
		if err != nil {
			return fmt.Errorf("series: %s: %w", t.path, err)
		}
		s.list = append(s.list, g)
	}
	return nil
}

func (s *series) readings(t *table, timeAt, nameAt int, cols []int) (by map[string][]reading, firstBad, err error) {
	var st stamps
	for _, row := range t.rows {
		st.learn(row[timeAt])
	}
	by = map[string][]reading{}
	type key struct {
		name string
		at   int64
	}
	seen := map[key]bool{}
	for i, row := range t.rows {
		at, err := st.parse(row[timeAt])
		if err != nil {
			if s.Dropped.Time++; firstBad == nil {
				firstBad = fmt.Errorf("line %d: %w", t.lines[i], err)
			}
			continue
		}
		name := ""
		if nameAt >= 0 {
			name = strings.TrimSpace(row[nameAt])
		}
		k := key{name, at.UnixNano()}
		if seen[k] {
			s.Dropped.Copies++
			continue
		}
		seen[k] = true
		r := reading{at.UnixNano(), make([]float32, len(cols))}
		for j, c := range cols {
			x, missing, ok := t.number(row[c])
			if ok && !missing {
				x = unit(s.inputs[j])(x)
			}
			if !ok || !missing && s.faulty(s.inputs[j], x) {
				s.Dropped.Faults++
				x = Absent
			}
			r.values[j] = x
		}
		if by[name] = append(by[name], r); len(by) > maxSeries {
			return nil, nil, fmt.Errorf("series: %s: more than %d series in column %q: %w", t.path, maxSeries, s.d.Series, weights.ErrFile)
		}
	}
	return by, firstBad, nil
}

// grid averages readings, sorted by time, over steps.
func (s *series) grid(name string, rs []reading) (grid, error) {
	slices.SortStableFunc(rs, func(a, b reading) int { return int(min(1, max(-1, a.at-b.at))) })
	w := int64(s.step)
	g := grid{name: name, start: rs[0].at / w}
	n := rs[len(rs)-1].at/w - g.start + 1
	if n > maxGrid {
		return g, fmt.Errorf("series %q spans %d steps, limit %d: is a time wrong?: %w", name, n, maxGrid, weights.ErrFile)
	}
	g.n = int(n)
	c := len(s.inputs)
	g.value, g.final = make([]float32, g.n*c), make([]float32, g.n*c)
	sum, count := make([]float64, g.n*c), make([]float64, g.n*c)
	for _, r := range rs {
		at := int(r.at/w-g.start) * c
		for j, x := range r.values {
			if x == x {
				sum[at+j] += float64(x)
				count[at+j]++
				g.final[at+j] = x
			}
		}
	}
	for i := range g.value {
		if count[i] == 0 {
			g.value[i], g.final[i] = Absent, Absent
			continue
		}
		g.value[i] = float32(sum[i] / count[i])
	}
	return g, nil
}

// readWeather appends the columns of a second file, whose times are the first
// column with a name that holds "time" or "date", to every series.
func (s *series) readWeather() error {
	if s.d.Weather == "" {
		return nil
	}
	t, err := readTable(s.d.Weather, true)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(t.header, func(h string) bool {
		h = strings.ToLower(h)
		return strings.Contains(h, "time") || strings.Contains(h, "date")
	})
	if at < 0 {
		return fmt.Errorf("series: %s has no column of times among %s: %w", t.path, strings.Join(t.header, ", "), weights.ErrFile)
	}
	w := &series{d: Spec{Time: t.header[at]}, step: s.step}
	for i, h := range t.header {
		if _, err := t.numbers(h); err == nil && i != at {
			w.inputs = append(w.inputs, h)
		}
	}
	if err := w.readGrids(t); err != nil {
		return err
	}
	shift, err := time.ParseDuration(named(s.d.WeatherShift, "0s"))
	if err != nil || shift%s.step != 0 {
		return fmt.Errorf("series: weather_shift %q, want a duration of whole steps of %v (%v)", s.d.WeatherShift, s.step, err)
	}
	w.list[0].start += int64(shift / s.step)
	g, old, more := w.list[0], len(s.inputs), len(w.inputs)
	s.inputs = append(s.inputs, w.inputs...)
	for i := range s.list {
		q := &s.list[i]
		widen := func(own, added []float32) []float32 {
			wide := make([]float32, 0, q.n*(old+more))
			for r := range q.n {
				wide = append(wide, own[r*old:][:old]...)
				if at := int(q.start) + r - int(g.start); at >= 0 && at < g.n {
					wide = append(wide, added[at*more:][:more]...)
					continue
				}
				for range more {
					wide = append(wide, Absent)
				}
			}
			return wide
		}
		q.value, q.final = widen(q.value, g.value), widen(q.final, g.final)
	}
	return nil
}

func (s *series) root() wire.Digest {
	var leaves []wire.Digest
	for _, split := range []string{Train, Valid, Test} {
		for _, m := range s.splits[split] {
			x := Batch{Float: make([]float32, s.Form().Size()), Targets: make([]float32, s.Form().Terms)}
			s.write(m, &x, 0)
			leaves = append(leaves, wire.Sum(floatBytes(append(x.Float, x.Targets...))))
		}
	}
	return wire.MerkleRoot(leaves)
}

func floatBytes(x []float32) []byte {
	ints := make([]int32, len(x))
	for i, f := range x {
		ints[i] = int32(math.Float32bits(f))
	}
	return int32Bytes(ints)
}

// Notes says which rows and values were left out.
func (s *series) Notes() []string {
	out := []string{fmt.Sprintf("%d series, inputs %s", len(s.list), strings.Join(s.inputs, ", "))}
	d := s.Dropped
	for _, p := range []struct {
		n    int
		what string
	}{{d.Copies, "rows left out: their series has that time already"}, {d.Time, "rows left out: their time cannot be read"}, {d.Cells, "rows left out: too few or too many cells"},
		{d.Headers, "rows left out: the header again"}, {d.Faults, "values taken as missing: no number, or none that can be"}} {
		if p.n > 0 {
			out = append(out, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return out
}

func (s *series) Name() string                 { return "series" }
func (s *series) Len(split string) int         { return len(s.splits[split]) }
func (s *series) Digest() (wire.Digest, error) { return s.digest(), nil }
