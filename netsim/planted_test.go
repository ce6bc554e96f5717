//go:build e2e

package netsim

import (
	"encoding/json"
	"path/filepath"
	"testing"
)

// planted are bugs of the kind that people write, and the scenario whose seed
// shows them to a checker.
var planted = []struct {
	patch, checker, about, scenario string
	set                             []string
}{
	{"equal-versions", checkVersions, "who takes a version from others forgets the outer momentum", "testdata/restarts.toml", nil},
	{"no-hang", CheckHang, "nobody gives up on a leader that does not propose", "testdata/leader-gone.toml", nil},
	{"append-only", CheckLogs, "log entries are acknowledged before they are on disk", "testdata/restarts.toml", nil},
	{"samples-once", CheckSamples, "half of the positions that counted are dealt again", "baseline", []string{"swarm.rounds=6"}},
	{"no-false-charge", checkHonest, "a header is signed again after a restart", "testdata/held-up.toml", nil},
	{"memory", checkMemory, "old versions are dropped in one round of eight only", "testdata/away.toml", nil},
	{"slots", checkMemory, "sign-once slots are never deleted", "testdata/away.toml", []string{"swarm.rounds=200", "swarm.steps=1"}},
	{"durable", checkDurable, "a version is named before its blocks are on disk", "testdata/restarts.toml", nil},
}

// Each planted bug is found by its checker, from the scenario's own seed; without
// it the same run is clean.
func TestE2EPlantedBugs(t *testing.T) {
	clean := build(t, "")
	for _, p := range planted {
		t.Run(p.patch, func(t *testing.T) {
			if v := checkOf(t, clean, p.scenario, p.set); v != nil {
				t.Fatalf("without the bug: %v", v)
			}
			v := checkOf(t, build(t, p.patch), p.scenario, p.set)
			if v == nil || v.Checker != p.checker {
				t.Fatalf("a bug (%s) is not found by %s: %v", p.about, p.checker, v)
			}
			t.Logf("%s: found as %v", p.about, v)
		})
	}
}

// build builds hived with a patch, if it is named, over this tree's files, which
// stay as they are.
func build(t *testing.T, patch string) string {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	exe := filepath.Join(tmp, "hived")
	args := []string{"build", "-buildvcs=false", "-o", exe}
	if patch != "" {
		args = append(args, "-overlay", overlay(t, root, filepath.Join(root, "netsim", "testdata", "bugs", patch+".patch"), tmp))
	}
	run(t, root, "go", append(args, "./cmd/hived")...)
	return exe
}

// checkOf runs a scenario in a fresh process and returns what a checker found.
func checkOf(t *testing.T, exe, scenario string, set []string) *Violation {
	t.Helper()
	args := []string{"netsim", "run", scenario, "--json"}
	for _, s := range set {
		args = append(args, "--set", s)
	}
	var r Result
	if err := json.Unmarshal(run(t, ".", exe, args...), &r); err != nil {
		t.Fatal(err)
	}
	return r.Violates
}
