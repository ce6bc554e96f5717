package netsim

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/apiary-net/hived/elastic"
)

var update = flag.Bool("update", false, "write golden files")

// scenario reads a built-in scenario.
func scenario(t *testing.T, name string, set ...string) *Scenario {
	t.Helper()
	b, err := ScenarioText(name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ParseScenario(name+".toml", b, set...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func simulate(t *testing.T, s *Scenario, o Options) *Result {
	t.Helper()
	r, err := Simulate(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A ddp swarm loses a step, not a window, when a peer is killed.
func TestSwarmWindowSurvivesAKill(t *testing.T) {
	r := simulate(t, scenario(t, "kill-anything-60", "swarm.preset=ddp", "swarm.peers=8", "swarm.failures=4", "expect.useful=0.93"), Options{})
	// A step takes a second: who waits for the dead makes fewer.
	if r.Violates != nil || r.Failure != "" || r.Rate < 0.9 {
		t.Fatalf("%v steps a second, useful %v, %v %v", r.Rate, r.Useful, r.Failure, r.Violates)
	}
}

// The same seed gives the same trail, byte for byte: again, with one processor,
// and (by the golden file) on other processors and without cgo. Another seed
// gives another.
func TestDigestPinned(t *testing.T) {
	golden := filepath.Join("testdata", "digests.txt")
	lines := ""
	for _, c := range [][]string{{"baseline"}, {"leader-dies", "swarm.rounds=8"}, {"baseline", "swarm.preset=ddp", "swarm.rounds=4"}} {
		var first *Result
		for i := range 3 {
			procs := runtime.GOMAXPROCS(1 + i%2)
			r := simulate(t, scenario(t, c[0], append(c[1:], "swarm.seed=7", "swarm.peers=4", "swarm.min_peers=4", "model.params=500")...), Options{})
			runtime.GOMAXPROCS(procs)
			if r.Violates != nil {
				t.Fatal(r.Violates)
			}
			if first == nil {
				first = r
			} else if r.Digest != first.Digest {
				t.Fatalf("%v: run %d gave %s, run 0 gave %s", c, i, r.Digest, first.Digest)
			}
		}
		lines += fmt.Sprintf("%s %s\n", strings.Join(c, " "), first.Digest)
		other := simulate(t, scenario(t, c[0], append(c[1:], "swarm.seed=8", "swarm.peers=4", "swarm.min_peers=4", "model.params=500")...), Options{})
		if other.Digest == first.Digest {
			t.Fatalf("%v: seeds 7 and 8 give the same trail", c)
		}
	}
	if *update {
		if err := os.WriteFile(golden, []byte(lines), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if lines != string(want) {
		t.Fatalf("trails differ from %s; if the protocol was changed on purpose, run this test with -update\n got:\n%swant:\n%s", golden, lines, want)
	}
}

// A task that reads anything but the loop's order would show in a longer run.
func TestSwarmSameDigestAgainAndAgain(t *testing.T) {
	digest := ""
	for range 20 {
		r := simulate(t, scenario(t, "leader-dies", "swarm.peers=6", "swarm.rounds=8", "model.params=300"), Options{})
		if digest != "" && r.Digest != digest {
			t.Fatalf("trails %s and %s of one seed", r.Digest, digest)
		}
		digest = r.Digest
	}
}

// The loop: order by time then insertion, waits with a limit, signals, contexts.
func TestLoop(t *testing.T) {
	l := NewLoop()
	var got []string
	say := func(s string) { got = append(got, fmt.Sprintf("%v %s", l.Since(), s)) }
	sig := l.NewSignal()
	root, cancel := l.Context(context.Background(), elastic.Forever)
	l.Go(func() {
		say("waits")
		if err := l.Wait(root, time.Second, sig); err != elastic.ErrTimeout {
			t.Errorf("a wait without a signal ended with %v", err)
		}
		say("timed out")
		if err := l.Wait(root, time.Minute, sig); err != nil {
			t.Errorf("a wait for a signal ended with %v", err)
		}
		say("raised")
		if err := l.Sleep(root, time.Hour); err == nil {
			t.Error("a sleep outlived its context")
		}
		say("cancelled")
	})
	l.After(3*time.Second, func() { say("b"); cancel() })
	l.After(2*time.Second, func() { say("a1"); sig.Raise() })
	l.After(2*time.Second, func() { say("a2") })
	if err := l.Run(epoch.Add(time.Minute)); err != nil || l.Tasks() != 0 {
		t.Fatalf("%v, %d tasks are left", err, l.Tasks())
	}
	want := "0s waits, 1s timed out, 2s a1, 2s raised, 2s a2, 3s b, 3s cancelled"
	if s := strings.Join(got, ", "); s != want {
		t.Fatalf("got  %s\nwant %s", s, want)
	}
	l.Go(func() { panic("at last") })
	if err := l.Run(epoch.Add(2 * time.Minute)); err == nil || !strings.Contains(err.Error(), "at last") {
		t.Fatalf("a panic of a task gives %v", err)
	}
}
