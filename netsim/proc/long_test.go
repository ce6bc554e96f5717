//go:build e2e && long

package proc

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Thirty runs with a random peer killed after a random round: each ends with one
// version everywhere and an export that verifies. HIVED_LONG_SEED repeats one.
func TestLongRandomKills(t *testing.T) {
	first, runs := uint64(1), uint64(30)
	if s := os.Getenv("HIVED_LONG_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, runs = n, 1
	}
	const rounds = 8
	for seed := first; seed < first+runs; seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			peer, at := RandomKill(rand.New(rand.NewPCG(seed, 30)), 4, rounds)
			preset := []string{"diloco", "ddp"}[seed%2]
			r := demoRun(t, "--rounds", fmt.Sprint(rounds), "--steps", "12", "--seed", fmt.Sprint(seed), "--preset", preset, "--kill", fmt.Sprintf("%d@%d", peer, at))
			if len(r.Versions) != 4 || len(r.Killed) != 1 {
				t.Fatalf("kill %d@%d: %d versions, %d killed", peer, at, len(r.Versions), len(r.Killed))
			}
			t.Logf("kill %d@%d, %s: %d of %d counted, %.0f s", peer, at, preset, r.Counted, r.Expected, r.Seconds)
		})
	}
}
