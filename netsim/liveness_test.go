package netsim

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// tooks runs a scenario file's text and returns how long each round took.
func tooks(t *testing.T, text string) []time.Duration {
	t.Helper()
	s, err := ParseScenario("x.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	r, err := simulateInto(t.Context(), dir, s, Options{})
	if err != nil || r.Violates != nil || r.Failure != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	var out []time.Duration
	err = ReadEvents(filepath.Join(dir, EventsFile), func(e Event) error {
		if e.Kind == "decided" {
			out = append(out, time.Duration(e.TookMs)*time.Millisecond)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const fewVoters = `name = "few"
[swarm]
peers = 5
rounds = 6
steps = 24
deadline_min = "1s"
deadline_max = "20s"
seed = 1
[model]
kind = "quadratic"
params = 64
step = "100ms"
`

// Of three voters one is gone and one has no part in the round: the word of both
// others is needed for what counts.
func TestVoterWithoutAPartMayHaveBodies(t *testing.T) {
	const faults = "[[fault]]\nwhat = \"kill\"\nwho = \"2\"\nat = \"round 3\"\nrestart = \"3s\"\n[[fault]]\nwhat = \"kill\"\nwho = \"1\"\nat = \"round 4\"\n"
	for i, took := range tooks(t, strings.Replace(fewVoters, "peers = 5", "peers = 3", 1)+faults) {
		if took > 3500*time.Millisecond {
			t.Errorf("round %d took %v", i, took)
		}
	}
}

// A voter that is back in the middle of a round may have no bodies before the
// deadline, but the others do not wait for that if its word makes the quorum.
func TestVoterThatIsBackDoesNotHoldUpTheRound(t *testing.T) {
	for name, faults := range map[string]string{
		"not planned for": "[[fault]]\nwhat = \"kill\"\nwho = \"3\"\nat = \"round 3\"\nrestart = \"3s\"\n[[fault]]\nwhat = \"kill\"\nwho = \"4\"\nat = \"round 4\"\n",
		"begins anew":     "[[fault]]\nwhat = \"kill\"\nwho = \"4\"\nat = \"round 3\"\n[[fault]]\nwhat = \"kill\"\nwho = \"3\"\nat = \"round 4\"\nrestart = \"2200ms\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			for i, took := range tooks(t, fewVoters+faults) {
				// A local round takes 2.4 s, the deadline is at three times that.
				if took > 3500*time.Millisecond {
					t.Errorf("round %d took %v", i, took)
				}
			}
		})
	}
}

// A rate that is too large leaves nothing to decide: that is what is said, and not
// that a round hangs.
func TestDivergedModelIsNoHang(t *testing.T) {
	for _, more := range []string{"", "time = \"20s\"\n"} {
		text := "name = \"x\"\n[swarm]\npeers = 3\nrounds = 5\nsteps = 8\ndeadline_max = \"5s\"\n" + more + "[model]\nparams = 64\nlr = 1e9\n"
		s, err := ParseScenario("x.toml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		r, err := Simulate(t.Context(), s, Options{})
		if err != nil || r.Violates != nil || r.Hung != 0 || !strings.Contains(r.Failure, "training diverged in round 1") || !strings.Contains(r.Failure, "model.lr = 1e+09 is too large") {
			t.Errorf("%q: %+v, %v", more, r, err)
		}
	}
}
