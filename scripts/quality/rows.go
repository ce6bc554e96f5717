package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// row is a claim of quality.
type row struct {
	name    string
	data    string // folder of the test data that it needs
	measure func(b *bench, seed int) ([]value, error)
}

var rows = []row{
	{"mnist", "", func(b *bench, seed int) ([]value, error) {
		r, err := b.train("digits.toml", seed)
		return []value{{what: "accuracy", x: r.Accuracy, goal: 0.992, note: fmt.Sprintf("%d test images, %.0f cpu-s", r.Samples, r.CPU)}}, err
	}},
	{"shakespeare", "tinyshakespeare", func(b *bench, seed int) ([]value, error) {
		r, err := b.train("shakespeare.toml", seed, b.path("data.path", "tinyshakespeare/input.txt.gz"))
		return []value{{what: "validation nats", x: r.Loss, goal: 1.60, lowerIsFit: true, note: fmt.Sprintf("last tenth, %d windows", r.Samples)},
			{what: "cpu-minutes", x: r.CPU / 60, goal: 20, lowerIsFit: true}}, err
	}},
	{"pollen", "pollen-bees", func(b *bench, seed int) ([]value, error) {
		mean, note, err := b.folds("pollen.toml", seed, 5, b.path("data.path", "pollen-bees/images.zip"), b.path("data.labels", "pollen-bees/labels.csv"))
		return []value{{what: "accuracy, mean of 5 folds by frame", x: mean, goal: 0.92, note: note}}, err
	}},
	{"queen", "smartbee-queen-status", queen},
	{"spoken", "fsdd-spoken-digits", func(b *bench, seed int) ([]value, error) {
		r, err := b.train("spoken.toml", seed, b.path("data.path", "fsdd-spoken-digits"))
		return []value{{what: "accuracy, official split", x: r.Accuracy, goal: 0.985, note: fmt.Sprintf("%d recordings, %.0f cpu-s", r.Samples, r.CPU)}}, err
	}},
	{"hive", "urban-hive-sensors", prequential},
}

// folds trains with each part held out and returns the mean accuracy over samples.
func (b *bench) folds(file string, seed, n int, set ...string) (mean float64, note string, err error) {
	right, all, cpu := 0.0, 0.0, 0.0
	var each []string
	for f := range n {
		r, err := b.train(file, seed, append(slices.Clone(set), fmt.Sprintf("data.folds=%d", n), fmt.Sprintf("data.fold=%d", f))...)
		if err != nil {
			return 0, "", err
		}
		right += r.Accuracy * float64(r.Samples)
		all += float64(r.Samples)
		cpu += r.CPU
		each = append(each, fmt.Sprintf("%.3f", r.Accuracy))
	}
	return right / all, fmt.Sprintf("%s; %.0f samples, %.0f cpu-s", strings.Join(each, " "), all, cpu), nil
}

// queen splits by recording, and reports each hive that was left out whole.
func queen(b *bench, seed int) ([]value, error) {
	path := b.path("data.path", "smartbee-queen-status/mfcc50_train.csv.gz")
	mean, note, err := b.folds("queen.toml", seed, 5, path)
	if err != nil {
		return nil, err
	}
	out := []value{{what: "accuracy, mean of 5 folds by recording", x: mean, goal: 0.85, note: note}}
	for _, hive := range []string{"1", "3", "5"} {
		r, err := b.train("queen.toml", seed, path, b.path("data.labels", "smartbee-queen-status/metadata.csv"), "data.file=file name", "data.group_from=hive number",
			"data.folds=0", fmt.Sprintf("data.test_groups=[%q]", hive))
		if err != nil {
			return nil, err
		}
		out = append(out, value{what: "accuracy on hive " + hive + ", trained on the others", x: r.Accuracy, note: fmt.Sprintf("%d samples", r.Samples)})
	}
	return out, nil
}

// The weeks that are forecast; each from what lies before it.
var (
	firstWeek = time.Date(2021, 7, 17, 0, 0, 0, 0, time.UTC)
	lastWeek  = time.Date(2021, 10, 30, 0, 0, 0, 0, time.UTC)
)

// prequential forecasts week after week and pools squared errors over weeks and
// hives. Each week's training starts from the weights of the week before, and its
// forecasts are corrected by what those of the weeks before were worth.
func prequential(b *bench, seed int) ([]value, error) {
	sums, cpu, before := map[string]float64{}, 0.0, ""
	for week := firstWeek; week.Before(lastWeek); week = week.AddDate(0, 0, 7) {
		set := []string{b.path("data.path", "urban-hive-sensors/sensor_2021.csv.gz"), b.path("data.weather", "urban-hive-sensors/weather_2021_2022.csv.gz"),
			"data.until=" + week.Format(time.DateOnly), "data.test_until=" + week.AddDate(0, 0, 7).Format(time.DateOnly)}
		if before != "" {
			set = append(set, "model.start="+before+"/model.safetensors", "data.calibration="+before+"/calibration.json")
		}
		r, err := b.train("hive.toml", seed, set...)
		if err != nil {
			return nil, fmt.Errorf("week of %s: %w", week.Format(time.DateOnly), err)
		}
		cpu += r.CPU
		for k, v := range r.Measures {
			key, what := cut(k)
			n := r.Measures[key+" n"]
			switch what {
			case "n":
				sums[k] += v
			case "inside 80":
				sums[k] += v * n
			default:
				sums[k] += v * v * n
			}
		}
		before = r.Dir
	}
	return pooled(sums, cpu), nil
}

// cut splits "temperature +1 3627 rmse" before what is measured.
func cut(k string) (key, what string) {
	for _, w := range []string{" rmse", " persistence", " inside 80", " n"} {
		if s, ok := strings.CutSuffix(k, w); ok {
			return s, w[1:]
		}
	}
	return k, ""
}

func pooled(sums map[string]float64, cpu float64) []value {
	ratio := func(key string) float64 { return math.Sqrt(sums[key+" rmse"] / sums[key+" persistence"]) }
	worst, name := 0.0, ""
	var hives []string
	for k := range sums {
		key, what := cut(k)
		hive, ok := strings.CutPrefix(key, "temperature +1 ")
		if what != "rmse" || !ok {
			continue
		}
		r := ratio(key)
		hives = append(hives, fmt.Sprintf("%s %.3f", hive, r))
		if r > worst {
			worst, name = r, hive
		}
	}
	slices.Sort(hives)
	rmse := func(key string) string {
		return fmt.Sprintf("RMSE %.4f, persistence %.4f, %.0f forecasts", math.Sqrt(sums[key+" rmse"]/sums[key+" n"]), math.Sqrt(sums[key+" persistence"]/sums[key+" n"]), sums[key+" n"])
	}
	day := "temperature +24"
	inside := sums[day+" inside 80"] / sums[day+" n"]
	return []value{
		{what: "temperature in 1 h over persistence", x: ratio("temperature +1"), goal: 0.88, lowerIsFit: true, note: rmse("temperature +1")},
		{what: "the worst hive over persistence", x: worst, goal: 1.05, lowerIsFit: true, note: name + "; " + strings.Join(hives, ", ")},
		{what: "temperature in 24 h over persistence", x: ratio(day), goal: 1, lowerIsFit: true, note: rmse(day)},
		{what: "inside the 80 % interval, 24 h, off by", x: math.Abs(inside - 0.80), goal: 0.05, lowerIsFit: true, note: fmt.Sprintf("%.3f inside; 1 h: %.3f", inside, sums["temperature +1 inside 80"]/sums["temperature +1 n"])},
		{what: "humidity in 1 h over persistence", x: ratio("humidity +1"), note: rmse("humidity +1")},
		{what: "humidity in 24 h over persistence", x: ratio("humidity +24"), note: rmse("humidity +24")},
		{what: "cpu-seconds of all weeks", x: cpu},
	}
}
