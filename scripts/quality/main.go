// Command quality trains the rows of the quality table with bin/hived and compares
// what comes out with the goals. It prints a line a row:
//
//	VALUE name value goal reached|open details
//
// A row whose data are absent is printed as SKIP with the reason.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() { os.Exit(run()) }

func run() int {
	b := &bench{}
	only := flag.String("row", "", "run this row only")
	flag.StringVar(&b.bin, "bin", "bin/hived", "the hived to train with")
	flag.StringVar(&b.data, "data", defaultData(), "folder of the test data")
	flag.IntVar(&b.seeds, "seeds", 1, "seeds of each row")
	flag.IntVar(&b.threads, "threads", 2, "threads of a training")
	var set list
	flag.Var(&set, "set", "KEY=VALUE for every training, for trials; may be repeated")
	flag.Parse()
	b.set = set
	dir, err := os.MkdirTemp("", "quality")
	if err != nil {
		fmt.Fprintln(os.Stderr, "quality:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	b.dir = dir
	passed, failed := 0, 0
	for _, r := range rows {
		if *only != "" && r.name != *only {
			continue
		}
		if r.data != "" {
			if _, err := os.Stat(filepath.Join(b.data, r.data)); err != nil {
				fmt.Printf("SKIP %s: no %s in %s; HIVED_TEST_DATA names the folder\n", r.name, r.data, b.data)
				continue
			}
		}
		ok := true
		for seed := 1; seed <= b.seeds; seed++ {
			values, err := r.measure(b, seed)
			if err != nil {
				fmt.Printf("FAIL %s seed %d: %v\n", r.name, seed, err)
				ok = false
				continue
			}
			for _, v := range values {
				fmt.Printf("VALUE %s seed %d: %s\n", r.name, seed, v)
				ok = ok && v.reached()
			}
		}
		if ok {
			passed++
		} else {
			failed++
		}
	}
	fmt.Printf("quality: %d passed, %d failed\n", passed, failed)
	if failed > 0 {
		return 1
	}
	return 0
}

func defaultData() string {
	if d := os.Getenv("HIVED_TEST_DATA"); d != "" {
		return d
	}
	return filepath.Join("..", "shared", "data")
}

type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

// bench is where trainings run.
type bench struct {
	bin, data, dir string
	seeds, threads int
	set            []string
	trained        int
}

// report is what `hived train --json` prints.
type report struct {
	Samples  int                `json:"samples"`
	Loss     float64            `json:"loss"`
	Accuracy float64            `json:"accuracy"`
	Measures map[string]float64 `json:"measures"`
	CPU      float64            `json:"cpu_seconds"`
	Dir      string             `json:"dir"`
}

// train runs one run file of docs/examples with changes.
func (b *bench) train(file string, seed int, set ...string) (report, error) {
	b.trained++
	args := []string{"train", filepath.Join("docs", "examples", file), "--json", "--threads", fmt.Sprint(b.threads), "--seed", fmt.Sprint(seed), "--out", filepath.Join(b.dir, fmt.Sprint(b.trained))}
	for _, s := range append(set, b.set...) {
		args = append(args, "--set", s)
	}
	var r report
	cmd := exec.Command(b.bin, args...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		lines := strings.Split(strings.TrimSpace(string(exit.Stderr)), "\n")
		return r, fmt.Errorf("%s: %w: %s", file, err, lines[len(lines)-1])
	}
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(out, &r)
}

// path is a --set for a key that names a file of the test data.
func (b *bench) path(key, name string) string {
	abs, err := filepath.Abs(filepath.Join(b.data, name))
	if err != nil {
		abs = filepath.Join(b.data, name)
	}
	return key + "=" + abs
}

// value is one measured number with its goal; a goal of 0 is none.
type value struct {
	what       string
	x          float64
	goal       float64
	lowerIsFit bool
	note       string
}

func (v value) reached() bool {
	return v.goal == 0 || v.lowerIsFit && v.x <= v.goal || !v.lowerIsFit && v.x >= v.goal
}

func (v value) String() string {
	s := fmt.Sprintf("%s %.4f", v.what, v.x)
	if v.goal != 0 {
		sign, state := ">=", "reached"
		if v.lowerIsFit {
			sign = "<="
		}
		if !v.reached() {
			state = "open"
		}
		s += fmt.Sprintf(" goal %s %.4f %s", sign, v.goal, state)
	}
	if v.note != "" {
		s += " (" + v.note + ")"
	}
	return s
}
