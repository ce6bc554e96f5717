//go:build sim

package netsim

import (
	"encoding/json"
	"testing"
)

// long are the scenarios that take more than a few seconds whole.
var long = map[string]bool{"kill-anything-15": true, "kill-anything-60": true, "diurnal": true, "voters-drain": true, "churn": true, "preemption": true,
	"flash-crowd": true, "stragglers": true, "leader-dies": true, "wan": true, "partition": true, "rolling-upgrade": true, "disk-full": true, "thousand": true}

// Every fast scenario keeps its promise and no checker finds anything.
func TestSwarmScenarios(t *testing.T) {
	for _, name := range Scenarios() {
		if long[name] {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := simulate(t, scenario(t, name), Options{})
			if r.Violates != nil || r.Failure != "" || r.CIDs != 1 || r.Hung != 0 {
				b, err := json.MarshalIndent(r, "", " ")
				t.Fatalf("%s %v", b, err)
			}
		})
	}
}

// The slow ones, shortened: what they are about happens in the first rounds.
func TestSwarmShortened(t *testing.T) {
	for name, set := range map[string][]string{
		"churn":            {"swarm.peers=10", "swarm.rounds=12", "swarm.group=5"},
		"thousand":         {"swarm.peers=100", "swarm.rounds=5", "swarm.min_peers=0"},
		"wan":              {"swarm.peers=6", "swarm.rounds=6"},
		"partition":        {"swarm.rounds=16"},
		"rolling-upgrade":  {"swarm.peers=6", "swarm.rounds=12"},
		"disk-full":        {"swarm.peers=9", "swarm.rounds=16"},
		"preemption":       {"swarm.rounds=12"},
		"flash-crowd":      {"swarm.rounds=10"},
		"stragglers":       {"swarm.peers=8", "swarm.rounds=12"},
		"leader-dies":      {"swarm.peers=8", "swarm.rounds=15"},
		"kill-anything-15": {"swarm.peers=12", "swarm.failures=10", "expect.useful=0"},
		"voters-drain":     {"swarm.peers=9", "swarm.rounds=20"},
		"diurnal":          {"swarm.peers=15", "swarm.time=100m"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := simulate(t, scenario(t, name, set...), Options{})
			if r.Violates != nil || r.Failure != "" || r.CIDs != 1 || r.Hung != 0 {
				b, err := json.MarshalIndent(r, "", " ")
				t.Fatalf("%s %v", b, err)
			}
		})
	}
}
