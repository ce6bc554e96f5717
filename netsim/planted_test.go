//go:build e2e

package netsim

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// planted are bugs of the kind that people write, and the scenario whose seed
// shows them. The name of a patch is that of the checker that must find it.
var planted = []struct {
	patch, about, scenario string
	set                    []string
}{
	{"equal-versions", "who takes a version from others forgets the outer momentum", "testdata/restarts.toml", nil},
	{"no-hang", "nobody gives up on a leader that does not propose", "leader-dies", []string{"swarm.peers=6", "swarm.rounds=12"}},
	{"append-only", "log entries are acknowledged before they are on disk", "testdata/restarts.toml", nil},
	{"samples-once", "positions of late work ride and are dealt again too", "stragglers", []string{"swarm.peers=8", "swarm.rounds=12"}},
	{"no-false-charge", "a header is signed again after a restart", "testdata/restarts.toml", nil},
	{"memory", "old versions are dropped in one round of eight only", "churn", []string{"swarm.peers=8", "swarm.rounds=40"}},
}

// Each planted bug is found by its checker, from the scenario's own seed; without
// it the same run is clean.
func TestE2EPlantedBugs(t *testing.T) {
	root := copyModule(t)
	for _, p := range planted {
		t.Run(p.patch, func(t *testing.T) {
			patch, err := filepath.Abs(filepath.Join("testdata", "bugs", p.patch+".patch"))
			if err != nil {
				t.Fatal(err)
			}
			if v := checkOf(t, build(t, root), p.scenario, p.set); v != nil {
				t.Fatalf("without the bug: %v", v)
			}
			apply(t, root, patch)
			defer apply(t, root, "-R", patch)
			v := checkOf(t, build(t, root), p.scenario, p.set)
			if v == nil || v.Checker != p.patch {
				t.Fatalf("a bug (%s) is not found by %s: %v", p.about, p.patch, v)
			}
			t.Logf("%s: found as %v", p.about, v)
		})
	}
}

func run(t *testing.T, dir, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil && !bytes.HasPrefix(out, []byte("{")) {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, errs.Bytes())
	}
	return out
}

// copyModule copies the module's files to a place where they may be changed.
func copyModule(t *testing.T) string {
	t.Helper()
	from, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "hived")
	for _, dir := range []string{"cmd", "consensus", "daemon", "elastic", "gossip", "ledger", "netsim", "shards", "tensorops", "train", "wire"} {
		if err := os.CopyFS(filepath.Join(to, dir), os.DirFS(filepath.Join(from, dir))); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"go.mod", "go.sum"} {
		b, err := os.ReadFile(filepath.Join(from, f))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, f), b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func apply(t *testing.T, root string, args ...string) {
	t.Helper()
	run(t, root, "git", append([]string{"apply"}, args...)...)
}

func build(t *testing.T, root string) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "hived")
	run(t, root, "go", "build", "-buildvcs=false", "-o", exe, "./cmd/hived")
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
