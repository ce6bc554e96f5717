package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// TestCount feeds the lines that go test -json writes and reads the last line.
func TestCount(t *testing.T) {
	pass := `{"Action":"pass","Package":"p","Test":"TestA"}`
	skip := `{"Action":"output","Package":"p","Test":"TestB","Output":"    a_test.go:12: no torch\n"}
{"Action":"skip","Package":"p","Test":"TestB"}`
	absent := `{"Action":"output","Package":"p","Test":"TestB","Output":"    a_test.go:12: NOT HERE: no GPU\n"}
{"Action":"skip","Package":"p","Test":"TestB"}`
	fail := `{"Action":"output","Package":"p","Test":"TestC","Output":"    a_test.go:9: got 1\n"}
{"Action":"fail","Package":"p","Test":"TestC"}
{"Action":"output","Package":"p","Output":"FAIL\n"}
{"Action":"fail","Package":"p"}`
	build := `{"ImportPath":"p","Action":"build-output","Output":"p.go:1: no\n"}
{"Action":"fail","Package":"p","FailedBuild":"p"}`
	hung := `{"Action":"output","Package":"p","Output":"panic: test timed out\n"}
{"Action":"fail","Package":"p"}`
	for _, c := range []struct {
		name, in string
		require  bool
		code     int
		want     []string
	}{
		{"pass", pass, true, 0, []string{"x: 1 passed, 0 failed, 0 skipped"}},
		{"nothing", ``, false, 1, []string{"x: 0 passed, 0 failed, 0 skipped"}},
		{"skip", pass + "\n" + skip, false, 0, []string{"skipped 1: no torch", "1 passed, 0 failed, 1 skipped; cure: make deps-test"}},
		{"skip refused", pass + "\n" + skip, true, 1, []string{"skipped 1: no torch"}},
		{"not here", pass + "\n" + absent, true, 0, []string{"NOT HERE: no GPU", "1 passed, 0 failed, 1 skipped\n"}},
		{"not asked for", pass + "\n" + strings.ReplaceAll(skip, "no torch", "HIVED_LONG is not set"), true, 0, []string{"not asked for, 1: HIVED_LONG is not set"}},
		{"fail", pass + "\n" + fail, false, 1, []string{"a_test.go:9: got 1", "x: 1 passed, 1 failed, 0 skipped"}},
		{"build", build, false, 1, []string{"p.go:1: no", "x: 0 passed, 1 failed, 0 skipped"}},
		{"hung", pass + "\n" + hung, false, 1, []string{"panic: test timed out", "x: 1 passed, 1 failed, 0 skipped"}},
	} {
		var out bytes.Buffer
		n := newCount(&out)
		if err := n.read(strings.NewReader(c.in)); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if code := n.report("x", c.require); code != c.code {
			t.Errorf("%s: exit code %d, want %d", c.name, code, c.code)
		}
		for _, w := range c.want {
			if !strings.Contains(out.String(), w) {
				t.Errorf("%s: no %q in:\n%s", c.name, w, out.String())
			}
		}
	}
}

func TestGroups(t *testing.T) {
	gs, err := groupsOf([]string{"-race", "./a", "::", "CGO_ENABLED=0", "-short", "-run=X", "./b/..."}, 0)
	if err != nil || len(gs) != 2 {
		t.Fatalf("%v, %v", gs, err)
	}
	if len(gs[0].env) != 0 || len(gs[0].args) != 2 || gs[1].env[0] != "CGO_ENABLED=0" || gs[1].args[1] != "-run=X" {
		t.Errorf("groups %v", gs)
	}
	if _, err := groupsOf([]string{"::"}, 0); err == nil {
		t.Error("an empty group is taken")
	}
}

// TestFuzzTargets finds the targets of a package, those of the folders below too.
func TestFuzzTargets(t *testing.T) {
	gs, err := fuzzGroups([]string{"../../ledger"}, 100)
	if err != nil || len(gs) < 5 {
		t.Fatalf("%d targets, %v", len(gs), err)
	}
	below := func(g group) bool { return slices.Contains(g.args, "./../../ledger/proof") }
	if !slices.ContainsFunc(gs, below) || slices.IndexFunc(gs, func(g group) bool { return slices.Contains(g.args, "-fuzz=^FuzzHead$") }) < 0 {
		t.Errorf("targets %v", gs)
	}
	if _, err := fuzzGroups([]string{"."}, 100); err == nil {
		t.Error("a folder without targets is taken")
	}
}
