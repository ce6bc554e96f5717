package data

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apiary-net/hived/train/weights"
)

// hourly is a file of two series with a daily rhythm, from the first of May 2021.
func hourly(days int) string {
	var b strings.Builder
	b.WriteString("when,hive,temp\n")
	start := time.Date(2021, 5, 1, 0, 0, 0, 0, time.UTC)
	for h := range 24 * days {
		for hive := range 2 {
			x := 20 + float64(hive)*5 + 3*math.Sin(2*math.Pi*float64(h)/24) + float64(Mix(uint64(2*h+hive))%100)/1000
			fmt.Fprintf(&b, "%s,%d,%.3f\n", start.Add(time.Duration(h)*time.Hour).Format(time.DateTime), hive, x)
		}
	}
	return b.String()
}

func seriesSpec(path string) Spec {
	return Spec{Format: "series", Path: path, Time: "when", Series: "hive", Targets: []string{"temp"}, History: 24, Horizons: []int{1, 24}}
}

// hours opens a series of so many days, in hours.
func hours(t *testing.T, days int, change func(d *Spec)) (*series, Spec) {
	t.Helper()
	spec := seriesSpec(filepath.Join(write(t, map[string]string{"s.csv": hourly(days)}), "s.csv"))
	change(&spec)
	d, err := Open(spec)
	if err != nil {
		t.Fatal(err)
	}
	return d.(*series), spec
}

// TestSeriesSplits checks that nothing that a training sample sees or is trained on
// lies after Until, that the test split is the time asked for, and that scales come
// from the past.
func TestSeriesSplits(t *testing.T) {
	s, spec := hours(t, 20, func(d *Spec) { d.Until, d.TestEnd = "2021-05-11", "2021-05-13" })
	until := time.Date(2021, 5, 11, 0, 0, 0, 0, time.UTC).Unix() / 3600
	if s.Len(Train) != 2*(10*24-24-23) || s.Len(Test) != 2*48 || s.Len(Valid) != 0 {
		t.Fatalf("%d, %d and %d samples", s.Len(Train), s.Len(Valid), s.Len(Test))
	}
	for _, m := range s.splits[Train] {
		if last := s.list[m.series].start + int64(m.at) + 24; last >= until {
			t.Fatalf("a training sample ends %d steps after until", last-until)
		}
	}
	for _, m := range s.splits[Test] {
		if now := s.list[m.series].start + int64(m.at); now < until || now >= until+48 {
			t.Fatalf("a test sample starts %d steps after until", now-until)
		}
	}
	// The future does not change what the past looks like.
	later := strings.Replace(hourly(20), "2021-05-15 00:00:00,0,", "2021-05-15 00:00:00,0,7", 1)
	spec.Path = filepath.Join(write(t, map[string]string{"s.csv": later}), "s.csv")
	e, err := Open(spec)
	if err != nil {
		t.Fatal(err)
	}
	n, f := s.Len(Train), s.Form()
	a, b := Batch{Float: make([]float32, n*f.Size()), Targets: make([]float32, n*f.Terms)}, Batch{Float: make([]float32, n*f.Size()), Targets: make([]float32, n*f.Terms)}
	idx := make([]int, n)
	for i := range idx {
		idx[i] = i
	}
	if err := errors.Join(s.Batch(Train, idx, &a), e.Batch(Train, idx, &b)); err != nil || !same(a.Float, b.Float) || !same(a.Targets, b.Targets) {
		t.Errorf("a value after until changes training samples: %v", err)
	}
	if err := s.Batch(Test, []int{96}, &a); err == nil {
		t.Error("a sample behind the last is read")
	}
}

// TestSeriesByHash holds out whole days.
func TestSeriesByHash(t *testing.T) {
	s, _ := hours(t, 60, func(d *Spec) { d.SplitSpec.Test = 0.3 })
	side := map[string]string{}
	for _, split := range []string{Train, Test} {
		for _, m := range s.splits[split] {
			day := fmt.Sprint(m.series, (s.list[m.series].start+int64(m.at))/24)
			if old, ok := side[day]; ok && old != split {
				t.Fatalf("day %s is in %s and %s", day, old, split)
			}
			side[day] = split
		}
	}
	if n := s.Len(Test); n < 300 || n > 1200 {
		t.Errorf("%d test samples", n)
	}
}

// TestSeriesJudge compares perfect forecasts and persistence.
func TestSeriesJudge(t *testing.T) {
	s, spec := hours(t, 20, func(d *Spec) { d.Until, d.TestEnd = "2021-05-11", "2021-05-13" })
	for _, name := range []string{"", "0", "1"} {
		s.past.Fit[name] = []Fit{{1e9, 1e9}, {1e9, 1e9}} // a past in which forecasts were right
	}
	n, f := s.Len(Test), s.Form()
	x := Batch{Float: make([]float32, n*f.Size()), Targets: make([]float32, n*f.Terms)}
	idx := make([]int, n)
	for i := range idx {
		idx[i] = i
	}
	if err := s.Batch(Test, idx, &x); err != nil {
		t.Fatal(err)
	}
	perfect, naive := make([]float32, 0, 8*n), make([]float32, 8*n)
	for _, y := range x.Targets {
		perfect = append(perfect, y, y-1, y, y+1)
	}
	m := s.Judge(Test, perfect)
	if m["temp +1 rmse"] > 1e-5 || m["temp +1 n"] != 96 || m["temp +1 0 n"] != 48 || m["temp +24 inside 80"] != 1 || m["temp +1 persistence"] < 0.2 {
		t.Errorf("perfect: %v", m)
	}
	if m := s.Judge(Test, naive); math.Abs(m["temp +1 rmse"]-m["temp +1 persistence"]) > 1e-6 || m["temp +1 inside 80"] > 0.1 {
		t.Errorf("persistence: %v", m)
	}
	dir := t.TempDir()
	if err := s.Learn(Test, perfect, dir); err != nil {
		t.Fatal(err)
	}
	known := 0.0 // outcomes a day ahead that are known when the split ends: of its first day
	b, err := os.ReadFile(filepath.Join(dir, CalibrationFile))
	var kept Calibration
	if err := errors.Join(err, json.Unmarshal(b, &kept)); err != nil {
		t.Fatal(err)
	}
	for i, m := range s.splits[Test] {
		if y := float64(x.Targets[2*i+1]); s.list[m.series].start+int64(m.at)+24 < s.end {
			known += y * y
		}
	}
	if got := kept.Fit[""][1].Square - calibrationFade*1e9; math.Abs(got-known) > 1e-3*known+1e-6 {
		t.Errorf("the calibration knows %v of outcomes a day ahead, want %v", got, known)
	}
	spec.Calibration = filepath.Join(dir, CalibrationFile)
	d, err := Open(spec)
	if err != nil {
		t.Fatal(err)
	}
	if c := d.(*series).past; math.Abs(float64(c.factor("0", 0))-1) > 0.01 || c.Width[0] >= 0 {
		t.Errorf("factor %v, width %v", c.factor("0", 0), c.Width)
	}
	spec.Horizons = []int{1}
	if _, err := Open(spec); !errors.Is(err, weights.ErrFile) {
		t.Errorf("a calibration for other horizons: %v", err)
	}
}

// TestCalibration feeds forecasts that are twice too large and intervals that are too
// narrow: the factor goes to a half and the intervals widen until four fifths hold.
func TestCalibration(t *testing.T) {
	c := &Calibration{Fit: map[string][]Fit{}, Width: make([]float64, 1)}
	inside := 0
	for week := range 30 {
		inside = 0
		c.learn(func(visit func(string, int, []float32, float32)) {
			for i := range 500 {
				u := float32(Mix(uint64(week*1000+i))>>40)/(1<<23) - 1
				noise := float32(Mix(uint64(week*1000+i)+1<<40)>>40)/(1<<23) - 1
				p, y := []float32{2 * u, 2*u - 0.2, 2 * u, 2*u + 0.2}, u+noise
				if q := c.correct("h", 0, p); y >= q[1] && y <= q[3] {
					inside++
				}
				visit("h", 0, p, y)
			}
		})
	}
	if f := c.factor("h", 0); f < 0.46 || f > 0.54 {
		t.Errorf("factor %v, want 0.5", f)
	}
	if inside < 380 || inside > 420 {
		t.Errorf("%d of 500 inside, want 400", inside)
	}
	if f := (&Calibration{Fit: map[string][]Fit{}, Width: []float64{0}}).factor("h", 0); math.Abs(float64(f)-calibrationPrior) > 1e-6 {
		t.Errorf("without a past the factor is %v", f)
	}
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "c.json")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if back, err := openCalibration(path, 1); err != nil || back.factor("h", 0) != c.factor("h", 0) {
		t.Errorf("%+v, %v", back, err)
	}
	if err := os.WriteFile(path, b[:9], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openCalibration(path, 1); !errors.Is(err, weights.ErrFile) {
		t.Errorf("a cut file: %v", err)
	}
}

func TestSeriesRefusals(t *testing.T) {
	file := func(s string) string { return filepath.Join(write(t, map[string]string{"s.csv": s}), "s.csv") }
	good := hourly(5)
	for what, c := range map[string]struct {
		text, want string
		change     func(*Spec)
	}{
		"no target":     {good, `no column "weight"`, func(d *Spec) { d.Targets = []string{"weight"} }},
		"no time":       {good, `no column "at"`, func(d *Spec) { d.Time = "at" }},
		"bad times":     {strings.ReplaceAll(good, "2021", "MMXXI"), "line 2", nil},
		"too short":     {good, "to train on", func(d *Spec) { d.History = 400 }},
		"a far time":    {good + "2199-01-01 00:00:00,0,20\n", "is a time wrong", func(d *Spec) { d.Step = "1s" }},
		"weather":       {good, "gone.csv", func(d *Spec) { d.Weather = "gone.csv" }},
		"no rows":       {"when,hive,temp\n", "no row", nil},
		"no good value": {strings.ReplaceAll(strings.ReplaceAll(good, ",2", ",9992"), ",1", ",9991"), "to train on", nil},
	} {
		d := seriesSpec(file(c.text))
		if c.change != nil {
			c.change(&d)
		}
		refuse(t, what, d, c.want)
	}
	for what, change := range map[string]func(*Spec){
		"step": func(d *Spec) { d.Step = "an hour" }, "history": func(d *Spec) { d.History = 1 }, "horizon": func(d *Spec) { d.Horizons = []int{0} },
		"until": func(d *Spec) { d.Until = "soon" }, "no targets": func(d *Spec) { d.Targets = nil },
	} {
		d := seriesSpec(file(good))
		change(&d)
		if _, err := Open(d); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

// TestWeatherIsOfItsTime gives a weather whose value is its own hour, five hours
// behind UTC: no sample sees an hour that is still to come.
func TestWeatherIsOfItsTime(t *testing.T) {
	var w strings.Builder
	w.WriteString("Date/Time (LST),hours\n")
	start := time.Date(2021, 5, 1, 0, 0, 0, 0, time.UTC)
	for h := range 20 * 24 {
		fmt.Fprintf(&w, "%s,%d\n", start.Add(time.Duration(h-5)*time.Hour).Format(time.DateTime), h)
	}
	dir := write(t, map[string]string{"s.csv": hourly(20), "w.csv": w.String()})
	spec := seriesSpec(filepath.Join(dir, "s.csv"))
	spec.Weather, spec.WeatherShift = filepath.Join(dir, "w.csv"), "5h"
	d, err := Open(spec)
	if err != nil {
		t.Fatal(err)
	}
	s := d.(*series)
	for _, g := range s.list {
		for i := range g.n {
			if got := s.at(&g, i, 1); got != float32(i) {
				t.Fatalf("hour %d has the weather of hour %v", i, got)
			}
		}
	}
	spec.WeatherShift = "90m"
	if _, err := Open(spec); err == nil {
		t.Error("a shift between steps is taken")
	}
}

// same compares bits: values that are missing are equal too.
func same(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}
