package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/netsim"
)

// What is no scenario is refused at once, also a pipe that nobody writes to.
func TestNetsimRefusals(t *testing.T) {
	dir := t.TempDir()
	pipe, garbage := filepath.Join(dir, "pipe.toml"), filepath.Join(dir, "garbage.toml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(garbage, []byte("\x00\xff\xfe{{{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for arg, want := range map[string]exit.Code{
		pipe: exit.Config, dir: exit.Config, garbage: exit.Config, filepath.Join(dir, "missing.toml"): exit.Config, "/dev/zero": exit.Config, "nosuch": exit.Usage,
	} {
		if got := exit.Code(run([]string{"netsim", "run", arg})); got != want {
			t.Errorf("netsim run %s exits with %d, want %d", arg, got, want)
		}
	}
	for _, args := range [][]string{{"--seeds", "5"}, {"--jobs", "0"}, {"--sed", "3"}} {
		if got := exit.Code(run(append([]string{"netsim", "run", "baseline"}, args...))); got != exit.Usage {
			t.Errorf("netsim run baseline %v exits with %d", args, got)
		}
	}
}

// Ctrl-C says what was saved and the command that goes on.
func TestNetsimInterrupted(t *testing.T) {
	dir := t.TempDir()
	for _, seed := range []string{"seed-2", "seed-3"} {
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, seed), 0o700), os.WriteFile(filepath.Join(dir, seed, netsim.ResultFile), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	a := &app{args: []string{"netsim", "run", "churn", "--set", `tiers=["event"]`}}
	const again = "\n  hived netsim run churn --set 'tiers=[\"event\"]'"
	for _, c := range []struct {
		cfg  netsim.SweepConfig
		want string
	}{
		{netsim.SweepConfig{Seeds: []uint64{1}}, "nothing was saved"},
		{netsim.SweepConfig{Seeds: []uint64{1}, Dir: dir}, "events so far are in " + filepath.Join(dir, netsim.EventsFile)},
		{netsim.SweepConfig{Seeds: []uint64{1, 2, 3}, Dir: dir}, "2 of 3 seeds are saved in " + dir + "; go on with" + again},
	} {
		err := a.runFailed(fmt.Errorf("seed 1: %w", signalled{os.Interrupt}), c.cfg)
		if exit.CodeOf(err) != exit.Interrupted || !strings.Contains(err.Error(), c.want) || !strings.HasSuffix(err.Error(), again) {
			t.Errorf("%v, want %q and the command", err, c.want)
		}
	}
}

// A scenario runs in the tiers that it names, and the tier net is a go test.
func TestNetsimTiers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "net.toml")
	if err := os.WriteFile(file, []byte("name = \"x\"\ntiers = [\"net\"]\n[swarm]\npeers = 4\nrounds = 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		want exit.Code
	}{
		{"--tier net", exit.OK}, {"--tier net --peers 5", exit.Usage}, {"--tier net --seeds 1..2", exit.Usage},
		{"--tier proc", exit.Config}, {"--tier event", exit.Config}, {"", exit.Config}, {"--tier moon", exit.Usage},
		{"--tier proc --set tiers=[\"proc\"] --jobs 2", exit.Usage},
	} {
		if got := exit.Code(run(append([]string{"netsim", "run", file}, strings.Fields(c.args)...))); got != c.want {
			t.Errorf("netsim run FILE %s exits with %d, want %d", c.args, got, c.want)
		}
	}
}

// A run writes its files; report, compare and replay read them; the same seeds
// into the same directory give the same digests.
func TestNetsimRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	args := []string{"netsim", "run", "baseline", "--peers", "3", "--rounds", "3", "--set", "model.params=300", "--seeds", "4..5", "--jobs", "2", "-o", dir}
	digests := map[string]string{}
	for range 2 {
		if code := run(args); code != 0 {
			t.Fatalf("exit %d", code)
		}
		for _, seed := range []string{"seed-4", "seed-5"} {
			b, err := os.ReadFile(filepath.Join(dir, seed, netsim.ResultFile))
			if err != nil {
				t.Fatal(err)
			}
			var r netsim.Result
			if err := json.Unmarshal(b, &r); err != nil || r.Rounds != 3 || r.CIDs != 1 {
				t.Fatalf("%+v %v", r, err)
			}
			if old := digests[seed]; old != "" && old != r.Digest {
				t.Fatalf("%s: %s, then %s", seed, old, r.Digest)
			}
			digests[seed] = r.Digest
		}
	}
	a, b := filepath.Join(dir, "seed-4"), filepath.Join(dir, "seed-5")
	for _, args := range [][]string{{"compare", a, b}, {"report", a}, {"replay", b}, {"replay", filepath.Join(b, netsim.EventsFile), "--from", "2"}, {"scenarios"}, {"show", "churn"}} {
		if code := run(append([]string{"netsim"}, args...)); code != 0 {
			t.Errorf("netsim %v exits with %d", args, code)
		}
	}
	if code := run([]string{"netsim", "compare", a, dir}); exit.Code(code) != exit.Usage {
		t.Errorf("a folder without a result is compared: exit %d", code)
	}
}
