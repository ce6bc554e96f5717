package netsim

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apiary-net/hived/daemon/exit"
)

// An output directory is one process's and one scenario's.
func TestOutputDirectoryIsOneScenarios(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	text := []byte("name = \"small\"\n[swarm]\npeers = 3\nrounds = 2\n[model]\nparams = 64\n")
	played := 0
	sweep := func(force bool, set ...string) error {
		_, err := Sweep(t.Context(), SweepConfig{File: "small.toml", Text: text, Set: set, Seeds: []uint64{1}, Dir: dir, Force: force, Tier: TierEvent,
			Play: func(ctx context.Context, s *Scenario, o Options) (*Result, error) {
				played++
				return Simulate(ctx, s, o)
			}})
		return err
	}
	refused := func(err error, code exit.Code, says ...string) {
		t.Helper()
		for _, want := range says {
			if exit.CodeOf(err) != code || !strings.Contains(err.Error(), want) {
				t.Fatalf("refused with %d as %v, want %d and %q", exit.CodeOf(err), err, code, want)
			}
		}
	}
	s, err := ParseScenario("small.toml", text, "swarm.seed=1")
	if err != nil {
		t.Fatal(err)
	}
	lock, err := takeDir(dir, s, false)
	if err != nil {
		t.Fatal(err)
	}
	refused(sweep(false), exit.Resource, "output directory "+dir+" is in use by pid ", "choose another with --out")
	if err := errors.Join(lock.Release(), sweep(false), sweep(false)); err != nil {
		t.Fatalf("the same scenario again: %v", err)
	}
	before, err := os.ReadFile(filepath.Join(dir, EventsFile))
	if err != nil {
		t.Fatal(err)
	}
	played = 0
	refused(sweep(false, "swarm.steps=3"), exit.Usage, dir+" holds another scenario, which says steps = 0 where this one says steps = 3", "nothing was changed", "-o", "--force")
	if after, err := os.ReadFile(filepath.Join(dir, EventsFile)); err != nil || string(after) != string(before) || played != 0 {
		t.Fatalf("a refused run has changed %s or run %d times: %v", EventsFile, played, err)
	}
	if err := sweep(true, "swarm.steps=3"); err != nil || played != 1 {
		t.Fatalf("with force: %v", err)
	}
	_, err = Sweep(t.Context(), SweepConfig{File: "small.toml", Text: text, Set: []string{"swarm.steps=3"}, Seeds: []uint64{1}, Dir: dir, Tier: TierProc, Play: Simulate})
	refused(err, exit.Usage, dir+" holds a result of the tier event, not of proc", "nothing was changed")
	if err := os.Remove(filepath.Join(dir, ScenarioFile)); err != nil {
		t.Fatal(err)
	}
	refused(sweep(false), exit.Usage, "events.jsonl", "no scenario.toml")
}

// A run that is interrupted keeps its events, and may be run again.
func TestInterruptedRunKeepsItsEvents(t *testing.T) {
	dir := t.TempDir()
	s, err := ParseScenario("small.toml", []byte("name = \"small\"\n[swarm]\npeers = 3\nrounds = 50\n[model]\nparams = 64\n"))
	if err != nil {
		t.Fatal(err)
	}
	why := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	o := Options{Progress: func(p Progress) {
		if p.Round == 20 {
			cancel(why)
		}
	}}
	if _, err := simulateInto(ctx, dir, s, o); !errors.Is(err, why) {
		t.Fatalf("interrupted with %v", err)
	}
	last := uint64(0)
	if err := ReadEvents(filepath.Join(dir, EventsFile), func(e Event) error { last = max(last, e.Round); return nil }); err != nil || last < 20 {
		t.Fatalf("events up to round %d are kept: %v", last, err)
	}
	if _, err := simulateInto(t.Context(), dir, s, Options{}); err != nil {
		t.Fatalf("run again: %v", err)
	}
}
