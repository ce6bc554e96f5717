package nettier

import (
	"context"
	"encoding/json"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/libp2p/go-libp2p/core/metrics"

	"github.com/apiary-net/hived/netsim"
	"github.com/apiary-net/hived/netsim/live"
)

var (
	scenarioFile = flag.String("scenario", "", "run this scenario, a file or the name of a built-in one, and print its result")
	loud         = flag.Bool("loud", false, "log what the daemons say")
)

// TestMain lets the goroutine start that libp2p keeps for ever, outside of any
// bubble.
func TestMain(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(400) // simulations make much garbage and keep little
	metrics.NewBandwidthCounter().LogSentMessage(1)
	os.Exit(m.Run())
}

// footprint is what the machines of a run take, after a collection.
type footprint struct{ heap, stacks, goroutines int64 }

func measure() footprint {
	runtime.GC()
	runtime.GC() // the first one only ages the pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return footprint{int64(m.HeapAlloc), int64(m.StackInuse), int64(runtime.NumGoroutine())}
}

// play runs a scenario in a bubble of its own. each is what a daemon takes in the
// middle of the run.
func play(t *testing.T, s *netsim.Scenario, o netsim.Options, real bool) (r *netsim.Result, each footprint) {
	t.Helper()
	root := t.TempDir()
	data, exports := filepath.Join(root, "data"), filepath.Join(root, "exports")
	if err := live.Digits(data); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(exports, 0o700); err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.DiscardHandler)
	if *loud {
		logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	synctest.Test(t, func(t *testing.T) {
		before := measure()
		n := s.Swarm.Peers + s.Swarm.Spare
		links, steps := s.Access(n)
		net := newNetwork(s.Swarm.Seed, links)
		defer net.sim.Close()
		cfg := live.Config{Scenario: s, Tier: netsim.TierNet, Network: net, Dir: exports, Data: data, Options: o, Running: func() {
			now := measure()
			k := int64(s.Swarm.Peers)
			each = footprint{(now.heap - before.heap) / k, (now.stacks - before.stacks) / k, (now.goroutines - before.goroutines) / k}
		}}
		shared := netsim.NewPool()
		for i := range n {
			k, err := netsim.KeyOf(s.Swarm.Seed, i)
			if err != nil {
				t.Fatal(err)
			}
			m := &machine{index: i, key: k, dir: machineDir(root, i), data: data, step: steps[i], net: net, log: logger}
			if !real {
				m.disk = newDisk(shared)
			}
			cfg.Machines = append(cfg.Machines, m)
		}
		var err error
		if r, err = live.Play(context.Background(), cfg); err != nil {
			t.Error(err)
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	return r, each
}

// read parses a scenario for the net tier.
func read(t *testing.T, file string, text []byte, set ...string) *netsim.Scenario {
	t.Helper()
	s, err := netsim.ParseScenario(file, text, set...)
	if err == nil {
		err = s.ForTier(file, text, netsim.TierNet)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestScenario runs the scenario of -scenario.
func TestScenario(t *testing.T) {
	if *scenarioFile == "" {
		t.Skip("short: no -scenario")
	}
	file := *scenarioFile
	text, err := os.ReadFile(file)
	if err != nil {
		if text, err = netsim.ScenarioText(file); err != nil {
			t.Fatal(err)
		}
		file += ".toml"
	}
	s := read(t, file, text)
	o := netsim.Options{Progress: func(p netsim.Progress) {
		t.Logf("round %d/%d  %d kills  virtual %v", p.Round, p.Rounds, p.Kills, p.Virtual)
	}}
	r, each := play(t, s, o, false)
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s\na daemon: %d KiB of heap, %d KiB of stacks, %d goroutines", b, each.heap>>10, each.stacks>>10, each.goroutines)
	if r.Violates != nil || r.Failure != "" {
		t.Fatalf("%v %s", r.Violates, r.Failure)
	}
}

// small is the head of a scenario that takes a second or two.
const small = `name = "small"
tiers = ["net"]
[swarm]
peers = 4
rounds = 6
steps = 4
deadline_min = "500ms"
deadline_max = "20s"
seed = 3
PRESET
[model]
step = "100ms"
[link]
latency = "5ms"
`

// Whole daemons train, decide and attest the same, and what they export verifies
// and replays; with faults too.
func TestSwarmScenarios(t *testing.T) {
	for name, c := range map[string]struct {
		preset, more string
		kills        int
		least        float64 // useful work
		real         bool    // stores on disk
	}{
		"calm":        {"", "", 0, 0.999, false},
		"real stores": {"", "", 0, 0.999, true},
		"every step":  {"ddp", "", 0, 0.999, false},
		"lossy":       {"", "loss = 0.01\nup = \"20Mbit\"\ndown = \"20Mbit\"\njitter = \"2ms\"\n", 0, 0.9, false},
		"killed":      {"", "[[fault]]\nwhat = \"kill\"\nwho = \"2\"\nat = \"round 3\"\nrestart = \"5s\"\n", 1, 0.6, false},
		"leaders":     {"", "[[fault]]\nwhat = \"kill\"\nwho = \"leader\"\nat = \"round 2\"\nevery = \"round 3\"\nrestart = \"2s\"\n", 2, 0.5, false},
		"left":        {"", "[[fault]]\nwhat = \"leave\"\nwho = \"3\"\nat = \"round 3\"\n", 0, 0.6, false},
		"split":       {"", "[[fault]]\nwhat = \"partition\"\nwho = \"3\"\nat = \"round 3\"\nfor = \"20s\"\n", 0, 0.6, false},
	} {
		t.Run(name, func(t *testing.T) {
			preset := ""
			if c.preset != "" {
				preset = "preset = \"" + c.preset + "\""
			}
			r, each := play(t, read(t, "small.toml", []byte(strings.Replace(small, "PRESET", preset, 1)+c.more)), netsim.Options{}, c.real)
			if r.Violates != nil || r.Failure != "" || r.Rounds != 6 || r.CIDs != 1 || r.Kills != c.kills || r.Useful < c.least || r.Useful > 1 || r.Digest != "" {
				t.Fatalf("%+v\n%v", r, r.Violates)
			}
			if each.goroutines < 10 {
				t.Fatalf("a daemon of %d goroutines: nothing was measured", each.goroutines)
			}
		})
	}
}

// Without two thirds nothing is decided, and nothing hangs: it is not counted.
func TestSwarmWithoutQuorumWaits(t *testing.T) {
	text := strings.Replace(small, "PRESET", "", 1) + "[[fault]]\nwhat = \"partition\"\nwho = \"0,1\"\nat = \"round 2\"\nfor = \"120s\"\n"
	r, _ := play(t, read(t, "small.toml", []byte(text)), netsim.Options{}, false)
	if r.Violates != nil || r.Failure != "" || r.Hung != 0 || r.Virtual < 120 || r.Rounds != 6 || r.CIDs != 1 {
		t.Fatalf("%+v\n%v", r, r.Violates)
	}
}
