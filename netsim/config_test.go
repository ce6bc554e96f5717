package netsim

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/apiary-net/hived/wire"
)

// Every key of [swarm] and [model] changes what is simulated.
func TestEveryKeyReachesTheSwarm(t *testing.T) {
	const text = "name = \"x\"\n[swarm]\npeers = 8\nrounds = 4\n"
	sight := func(set ...string) string {
		s, err := ParseScenario("x.toml", []byte(text), set...)
		if err != nil {
			t.Fatal(err)
		}
		c := s.config()
		var g wire.Genesis
		c.Change(&g)
		c.Change = nil
		return fmt.Sprintf("%+v %+v %v %v", c, g.Preset, s.Swarm.Time, s.Swarm.Failures)
	}
	values := map[string]string{"peers": "9", "spare": "1", "rounds": "5", "time": "9m", "failures": "3", "seed": "7", "preset": "ddp", "codec": "int8", "topology": "butterfly",
		"aggregator": "clip-median", "steps": "7", "group": "4", "min_peers": "3", "deadline_min": "77ms", "deadline_max": "77s", "detect": "3s",
		"kind": "cost", "params": "77", "batch": "3", "lr": "0.5", "step": "77ms", "floor": "0.7", "scale": "0.7", "power": "0.7"}
	plain := sight()
	for table, of := range map[string]reflect.Type{"swarm": reflect.TypeFor[SwarmSpec](), "model": reflect.TypeFor[ModelSpec]()} {
		for i := range of.NumField() {
			key := of.Field(i).Tag.Get("toml")
			if key == "args" { // of whole daemons
				continue
			}
			set := []string{table + "." + key + "=" + values[key]}
			if key == "failures" {
				set = append(set, "swarm.time=10m")
			}
			if got := sight(set...); got == plain {
				t.Errorf("%s changes nothing", set[0])
			}
		}
	}
}
