package hived

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestResults holds RESULTS.md to its own rule: a row is reached only with a value,
// the machine and the commit, and a test that a row names is there.
func TestResults(t *testing.T) {
	b, err := os.ReadFile("RESULTS.md")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	for _, s := range sources(t) {
		if s.test {
			tests.WriteString(s.text)
		}
	}
	var machines, columns []string
	rows := 0
	commit := regexp.MustCompile(`^[0-9a-f]{7,}(\.\.[0-9a-f]{7,})?$`)
	for _, line := range strings.Split(string(b), "\n") {
		if !strings.HasPrefix(line, "| ") {
			if line == "" {
				columns = nil
			}
			continue
		}
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "| "), " |"), " | ")
		switch {
		case columns == nil:
			columns = cells
		case columns[0] == "machine":
			machines = append(machines, cells[0])
		case columns[0] != "claim":
		case len(cells) != len(columns):
			t.Errorf("%s: %d columns, want %d", cells[0], len(cells), len(columns))
		default:
			rows++
			cell := func(name string) string { return cells[slices.Index(columns, name)] }
			reached := cell("state") == "reached"
			if !reached && cell("state") != "open" {
				t.Errorf("%s: state %q", cells[0], cell("state"))
			}
			if known := slices.Contains(machines, cell("machine")); !known && (reached || cell("machine") != "not recorded") {
				t.Errorf("%s: machine %q", cells[0], cell("machine"))
			}
			if !commit.MatchString(cell("commit")) && (reached || cell("commit") != "not recorded") {
				t.Errorf("%s: commit %q", cells[0], cell("commit"))
			}
			if reached && cell("value") == "" {
				t.Errorf("%s: reached without a value", cells[0])
			}
			for _, name := range regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(cell("command"), -1) {
				if !strings.Contains(tests.String(), "func "+name) {
					t.Errorf("%s: there is no %s", cells[0], name)
				}
			}
		}
	}
	if rows < 30 || len(machines) < 3 {
		t.Errorf("%d rows, %d machines", rows, len(machines))
	}
}

// TestContributingNamesFiles: the files that an extension touches are there, and hold
// the table that is named with them.
func TestContributingNamesFiles(t *testing.T) {
	b, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(b), "## Where an extension goes")
	if !ok {
		t.Fatal("no list of extensions")
	}
	files := 0
	for _, m := range regexp.MustCompile("`([\\w./-]+/[\\w.-]*)`").FindAllStringSubmatch(after, -1) {
		if _, err := os.Stat(strings.Split(m[1], "NEW")[0]); err != nil {
			t.Error(err)
		}
		files++
	}
	for _, m := range regexp.MustCompile("`(\\w+)`, `([\\w./-]+\\.go)`").FindAllStringSubmatch(after, -1) {
		if text, err := os.ReadFile(m[2]); err != nil || !regexp.MustCompile(`\b`+m[1]+`\b`).Match(text) {
			t.Errorf("%s has no %s: %v", m[2], m[1], err)
		}
	}
	if files < 15 {
		t.Errorf("only %d files are named", files)
	}
}
