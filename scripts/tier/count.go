package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is one line of `go test -json`; see `go doc test2json`.
type event struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

// count adds up events. Tests and subtests count alike.
type count struct {
	out     io.Writer
	passed  int
	failed  int
	skipped int
	reasons map[string]int      // of skips
	output  map[string][]string // by package and test, until it ends
}

const (
	slowPackage = 60.0 // seconds that a package's tests may take
	notHere     = "NOT HERE:"
)

// unasked starts the reasons of tests that did not run because nobody asked for
// them, or that cannot concern this build. They are no failure in CI.
var unasked = []string{"HIVED_", "short:", "built without cgo"}

func newCount(out io.Writer) *count {
	return &count{out: out, reasons: map[string]int{}, output: map[string][]string{}}
}

func (c *count) read(r io.Reader) error {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		var e event
		if err := json.Unmarshal(sc.Bytes(), &e); err != nil {
			fmt.Fprintln(c.out, sc.Text()) // not from a test
			continue
		}
		c.event(e)
	}
	return sc.Err()
}

func (c *count) event(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		fmt.Fprint(c.out, e.Output)
	case "output":
		c.output[key] = append(c.output[key], e.Output)
	case "pass", "skip", "fail":
		if e.Test == "" {
			c.pkg(e)
		} else {
			c.test(e, c.output[key])
		}
		delete(c.output, key)
	}
}

func (c *count) test(e event, output []string) {
	switch e.Action {
	case "pass":
		c.passed++
	case "skip":
		c.skipped++
		c.reasons[reason(output)]++
	case "fail":
		c.fail(e.Package+" "+e.Test, strings.Join(output, ""))
	}
}

// pkg books a package's end. A package that failed without a failed test did not
// build, panicked or leaked.
func (c *count) pkg(e event) {
	if e.Action != "fail" {
		if e.Elapsed > slowPackage {
			fmt.Fprintf(c.out, "slow: %s took %.0f s, limit %.0f s\n", e.Package, e.Elapsed, slowPackage)
		}
		return
	}
	fmt.Fprintf(c.out, "FAIL %s (%.1f s)\n", e.Package, e.Elapsed)
	if out := strings.Join(c.output[e.Package+" "], ""); e.FailedBuild != "" || strings.Contains(out, "panic") || !strings.Contains(out, "FAIL\n") {
		c.fail(e.Package, out)
		return
	}
	for key, out := range c.output { // tests that never ended
		if strings.HasPrefix(key, e.Package+" ") && !strings.HasSuffix(key, " ") {
			c.fail(key, strings.Join(out, ""))
			delete(c.output, key)
		}
	}
}

func (c *count) fail(what, output string) {
	c.failed++
	fmt.Fprintf(c.out, "FAIL %s\n%s", what, output)
	if output != "" && !strings.HasSuffix(output, "\n") {
		fmt.Fprintln(c.out)
	}
}

// reason is the last line that a skipped test wrote, without its place.
func reason(output []string) string {
	for _, line := range slices.Backward(output) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "--- SKIP") || strings.HasPrefix(line, "=== ") {
			continue
		}
		if _, rest, ok := strings.Cut(line, ".go:"); ok {
			if _, why, ok := strings.Cut(rest, ": "); ok {
				return why
			}
		}
		return line
	}
	return "no reason given"
}

// report prints the reasons of skips and the last line, and returns the exit
// code.
func (c *count) report(name string, require bool) int {
	missing := 0
	for _, why := range slices.Sorted(maps.Keys(c.reasons)) {
		if strings.HasPrefix(why, notHere) {
			fmt.Fprintln(c.out, why)
			continue
		}
		if slices.ContainsFunc(unasked, func(p string) bool { return strings.HasPrefix(why, p) }) {
			fmt.Fprintf(c.out, "not asked for, %d: %s\n", c.reasons[why], why)
			continue
		}
		missing += c.reasons[why]
		fmt.Fprintf(c.out, "skipped %d: %s\n", c.reasons[why], why)
	}
	cure := ""
	if missing > 0 {
		cure = "; cure: make deps-test"
	}
	fmt.Fprintf(c.out, "%s: %d passed, %d failed, %d skipped%s\n", name, c.passed, c.failed, c.skipped, cure)
	switch {
	case c.failed > 0 || require && missing > 0 || c.passed+c.skipped == 0:
		return 1
	}
	return 0
}
