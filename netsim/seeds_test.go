//go:build long

package netsim

import (
	"os"
	"strconv"
	"testing"
)

// TestLongScenarios runs every scenario with many seeds: a thousand, or
// HIVED_SEEDS.
func TestLongScenarios(t *testing.T) {
	seeds := 1000
	if n, err := strconv.Atoi(os.Getenv("HIVED_SEEDS")); err == nil && n > 0 {
		seeds = n
	}
	for _, name := range Scenarios() {
		text, err := ScenarioText(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range seeds {
				s, err := ParseScenario(name+".toml", text, "swarm.seed="+strconv.Itoa(seed+1))
				if err != nil {
					t.Fatal(err)
				}
				r, err := Simulate(t.Context(), s, Options{})
				if err != nil {
					t.Fatal(err)
				}
				if r.Violates != nil {
					t.Errorf("seed %d, commit %s: %v", r.Seed, r.Commit, r.Violates)
				} else if r.Failure != "" {
					t.Errorf("seed %d, commit %s: %s", r.Seed, r.Commit, r.Failure)
				}
			}
		})
	}
}
