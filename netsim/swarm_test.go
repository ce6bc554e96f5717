package netsim

import (
	"fmt"
	"testing"
	"time"
)

func TestFirst(t *testing.T) {
	for _, peers := range []int{30} {
		for _, preset := range []string{"diloco", "ddp"} {
			t.Run(fmt.Sprint(preset, peers), func(t *testing.T) {
				began := time.Now()
				sw, err := NewSwarm(SwarmConfig{Peers: peers, Rounds: 5, Steps: 5, Seed: 3, Preset: preset, Logger: nil})
				if err != nil {
					t.Fatal(err)
				}
				if err := sw.Start(); err != nil {
					t.Fatal(err)
				}
				if err := sw.Until(2*time.Minute, "all finish", func() bool { return len(sw.check.ends) == peers }); err != nil {
					t.Fatal(err)
				}
				sw.check.end()
				if sw.check.found != nil {
					t.Fatal(sw.check.found)
				}
				if err := sw.Close(); err != nil {
					t.Fatal(err)
				}
				t.Log(sw.Loop.Steps, sw.trail.Digest(), time.Since(began), sw.Loop.Since())
			})
		}
	}
}
