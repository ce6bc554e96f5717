package netsim

import (
	"encoding/json"
	"os"
	"testing"
)

func TestFirst(t *testing.T) {
	for _, name := range []string{"baseline", "kill-anything-15"} {
		t.Run(name, func(t *testing.T) {
			b, err := ScenarioText(name)
			if err != nil {
				t.Fatal(err)
			}
			var set []string
			if name != "baseline" {
				set = []string{"swarm.failures=40"}
			}
			if p := os.Getenv("SETP"); p != "" && name != "baseline" {
				set = append(set, "swarm.preset="+p)
			}
			s, err := ParseScenario(name, b, set...)
			if err != nil {
				t.Fatal(err)
			}
			r, err := Simulate(t.Context(), s, Options{Trail: NewTrail(os.Stderr)})
			if err != nil {
				t.Fatal(err)
			}
			j, _ := json.MarshalIndent(r, "", " ")
			t.Logf("%s", j)
		})
	}
}
