package netsim

import (
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/ledger/proof"
)

// written simulates a small run into a directory and returns it.
func written(t *testing.T, set ...string) string {
	t.Helper()
	b, err := ScenarioText("leader-dies")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rs, err := Sweep(t.Context(), SweepConfig{File: "leader-dies.toml", Text: b, Seeds: []uint64{3}, Dir: dir,
		Set: append([]string{"swarm.peers=5", "swarm.rounds=8", "model.params=400"}, set...)})
	if err != nil || len(rs) != 1 || rs[0].Violates != nil {
		t.Fatalf("%v, %d results", err, len(rs))
	}
	return dir
}

// The report stands alone: no address, script or file of elsewhere.
func TestReportStandsAlone(t *testing.T) {
	dir := written(t)
	b, err := os.ReadFile(filepath.Join(dir, ReportFile))
	if err != nil {
		t.Fatal(err)
	}
	if m := regexp.MustCompile(`https?://|src=|<script|<link|url\(|@import`).Find(b); m != nil {
		t.Fatalf("the report names %q", m)
	}
	if !strings.Contains(string(b), "leader-dies") || !strings.Contains(string(b), "peer 0 ") {
		t.Fatal("the report does not show its scenario and peers")
	}
	r, err := ReadResult(dir)
	if err != nil || r.Rounds != 8 {
		t.Fatalf("%+v %v", r, err)
	}
	csv, err := os.ReadFile(filepath.Join(dir, RoundsFile))
	if err != nil || strings.Count(string(csv), "\n") != 10 { // head and records 0 to 8
		t.Fatalf("rounds.csv:\n%s %v", csv, err)
	}
}

// The ledgers of a simulated run, of one group and of several, are those of a real
// one: its verifier finds every signature good.
func TestExportIsVerified(t *testing.T) {
	for name, set := range map[string][]string{"one group": nil, "three groups": {"swarm.group=2"}} {
		t.Run(name, func(t *testing.T) {
			dirs, err := filepath.Glob(filepath.Join(written(t, set...), ExportsFolder, "*"))
			if err != nil || len(dirs) != 1 {
				t.Fatalf("exports %v, %v", dirs, err)
			}
			v, err := proof.Ledger(os.DirFS(dirs[0]))
			if err != nil || v.Ledger.Certificates != 8 || len(v.Ledger.Logs) != 5 {
				t.Fatalf("%+v, %v", v, err)
			}
		})
	}
}

// A browser shows it: bars, curve and map are on the page in their colours.
func TestReportInBrowser(t *testing.T) {
	exe, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium; cure: make deps-test")
	}
	dir := written(t)
	shot := filepath.Join(dir, "shot.png")
	cmd := exec.CommandContext(t.Context(), exe, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--user-data-dir="+filepath.Join(dir, "profile"), "--window-size=1000,1400", "--screenshot="+shot,
		"file://"+filepath.Join(dir, ReportFile))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f, err := os.Open(shot)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[[3]uint8]int{}
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			r, g, b, _ := img.At(x, y).RGBA()
			seen[[3]uint8{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8)}]++
		}
	}
	for what, c := range map[string]struct {
		rgb   [3]uint8
		least int
	}{"counted": {[3]uint8{0x4f, 0x8f, 0x5b}, 2000}, "rounds": {[3]uint8{0x3b, 0x6f, 0xb6}, 2000}, "absent": {[3]uint8{0xc2, 0x48, 0x3d}, 100}} {
		if seen[c.rgb] < c.least {
			t.Errorf("%s: %d pixels of its colour, want %d", what, seen[c.rgb], c.least)
		}
	}
}

// What cannot be is refused by name before anything runs.
func TestScenarioRefusals(t *testing.T) {
	const head = "name = \"x\"\n[swarm]\npeers = 4\nrounds = 2\n"
	for text, want := range map[string]string{
		head + "pears = 3\n":                                                                        `x.toml:5: unknown key "swarm.pears"; did you mean "swarm.peers"`,
		"name = \"x\"\n[swarm]\npeers = 4\n":                                                        "must say when it ends",
		head + "time = \"soon\"\n":                                                                  `x.toml:5:8: toml: "soon" is not a duration`,
		head + "min_peers = 9\n":                                                                    "x.toml:5: swarm.min_peers: 9 peers begin the run, 4 are started",
		head + "preset = \"dilocco\"\n":                                                             "swarm.preset",
		head + "[link]\nup = \"fast\"\n":                                                            "not a rate",
		head + "[link]\nloss = 1.5\n":                                                               "loss",
		head + "[[group]]\nname = \"a\"\ncount = 9\n":                                               "groups of 9 machines, there are 4",
		head + "[[group]]\nname = \"a\"\ncount = 1\nlie = \"charm\"\n":                              `lie "charm" is not one of`,
		head + "[[fault]]\nwhat = \"explode\"\nat = \"1s\"\n":                                       "fault 1 (explode): what",
		head + "[[fault]]\nwhat = \"kill\"\n":                                                       "at or every must say when",
		head + "[[fault]]\nwhat = \"kill\"\nat = \"round 0\"\n":                                     "rounds begin with 1",
		head + "[[fault]]\nwhat = \"kill\"\nat = \"1s\"\nwho = \"7\"\n":                             "there is no machine 7",
		head + "[[fault]]\nwhat = \"full\"\nat = \"1s\"\nrestart = \"1s\"\n":                        "restart goes with kill",
		head + "[[fault]]\nwhat = \"kill\"\nevery = \"0s\"\n":                                       "no time passes",
		head + "[[fault]]\nwhat = \"kill\"\nat = \"1s\"\nwho = \"group:g\"\n":                       `there is no group "g"`,
		head + "[[fault]]\nwhat = \"kill\"\nat = \"1s\"\n[[fault]]\nat = \"1s\"\nwhat = \"stop\"\n": "x.toml:10: the tier event has no fault stop",
		head + "[[fault]]\nwhat = \"stop\"\nat = \"-1s\"\n":                                         "-1s is negative",
		"tiers = [\"evnt\"]\n" + head:                                                               `x.toml:1: tiers: "evnt" is not one of event, net, proc`,
		"tiers = [\"net\"]\n" + head + "[[fault]]\nwhat = \"skew\"\nby = \"1s\"\nat = \"1s\"\n":     "x.toml:7: the tier net has no fault skew",
		"tiers = [\"net\"]\n" + head + "[[group]]\nname = \"a\"\ncount = 1\nlie = \"copy\"\n":       "x.toml:6: the tier net has no lies",
		head + "[model.args]\ndim = 8\n":                                                            "x.toml:5: model.args: no tier of the scenario looks at it",
		"name = \"x\"\n[swarm]\npeers = 20000\nrounds = 2\n":                                        "swarm.peers: 20000",
		head + "[model]\nbatch = 1000000000\n":                                                      "model.batch: 1000000000",
		head + "[model]\nlr = -1.0\n":                                                               "x.toml:6: model.lr: -1 is negative",
		head + "deadline_min = \"1h\"\ndeadline_max = \"1s\"\n":                                     "x.toml:5: swarm.deadline_min: 1h0m0s is more than deadline_max, 1s",
		head + "steps = 99999999\n":                                                                 "x.toml:5: swarm.steps: 99999999, want at most",
		head + "[[fault]]\nwhat = \"kill\"\nat = \"1s\"\nevery = \"1ns\"\n":                         "x.toml:8: fault 1 (kill): every: 1ns, want at least 1ms",
		head + "[model]\nlr = nan\n":                                                                "model.lr: NaN",
		head + "[model]\nstep = \"1000000h\"\n":                                                     "model.step: 1000000h0m0s",
		head + "[[group]]\nname = \"a\"\ncount = 1\nspeed = 1e-300\n":                               "speed: 1e-300",
		"name = \"x\"\n[swarm]\npeers = 4\nspare = -3\nrounds = 2\n":                                "-3 spare",
		"name = \"x\"\n[swarm]\npeers = 4\nfailures = 2\n":                                          "must say when it ends",
		head + "[[fault]]\nwhat = \"kill\"\nat = \"1s\"\ncount=1\nshare=0.5\n":                      "share 0.5 and count 1",
	} {
		if _, err := ParseScenario("x.toml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %v, want %q", text, err, want)
		}
	}
	if _, err := ParseScenario("x.toml", []byte(head), "swarm.peers=6", "swarm.preset=ddp"); err != nil {
		t.Errorf("--set of keys that exist: %v", err)
	}
}

// A fault that would do nothing is refused with its line: who wrote it meant
// something else.
func TestIdleFaultsAreRefused(t *testing.T) {
	const head = "name = \"x\"\n[swarm]\npeers = 4\nrounds = 5\ntime = \"60s\"\n"
	kill := "[[fault]]\nwhat = \"kill\"\nat = \"1s\"\n"
	for text, want := range map[string]string{
		"what = \"kill\"\nat = \"60s\"":                                    "x.toml:8: fault 1 (kill): at: it would happen at 1m0s, the run ends at 1m0s",
		"what = \"kill\"\nevery = \"90s\"":                                 "x.toml:8: fault 1 (kill): every: it would happen at 1m30s, the run ends at 1m0s",
		"what = \"kill\"\nat = \"round 6\"":                                "x.toml:8: fault 1 (kill): at: it would happen in round 6, the run has 5",
		"what = \"kill\"\nat = \"9s\"\nevery = \"1s\"\nuntil = \"8s\"":     "x.toml:10: fault 1 (kill): until: it would be over at 8s, before it happens at 9s",
		"what = \"kill\"\nat = \"9s\"\nwho = \"4\"":                        "x.toml:9: fault 1 (kill): who: there is no machine 4",
		"what = \"kill\"\nat = \"9s\"\nwho = \"down\"":                     "x.toml:9: fault 1 (kill): who: kill is for machines that run",
		"what = \"kill\"\nat = \"9s\"\nshare = 0.1":                        "x.toml:9: fault 1 (kill): share: 0.1 of at most 4 machines is nobody",
		"what = \"cut\"\nat = \"9s\"\nfor = \"0s\"":                        "x.toml:9: fault 1 (cut): for: it would last no time",
		"what = \"skew\"\nat = \"9s\"\nby = \"0s\"":                        "x.toml:9: fault 1 (skew): by: no time is no change",
		"what = \"kill\"\nat = \"0s\"\nuntil = \"0s\"":                     "x.toml:9: fault 1 (kill): until: it would be over",
		"what = \"partition\"\nat = \"9s\"\nwho = \"0-3\"":                 "x.toml:9: fault 1 (partition): who: all 4 machines are on one side",
		"what = \"partition\"\nat = \"9s\"\nwho = \"all\"":                 "x.toml:9: fault 1 (partition): who: all 4 machines are on one side",
		"what = \"heal\"\nat = \"9s\"":                                     "x.toml:7: fault 1 (heal): what: nothing is there to heal without a fault cut or partition",
		"what = \"free\"\nat = \"9s\"":                                     "nothing is there to free without a fault full",
		"what = \"start\"\nat = \"9s\"\nwho = \"1\"":                       "x.toml:9: fault 1 (start): who: no machine is ever down",
		"what = \"wipe\"\nat = \"9s\"\n" + kill:                            "x.toml:6: fault 1 (wipe): who: wipe is for machines that do not run; say down or indexes",
		"what = \"start\"\nat = \"9s\"\nwho = \"1\"\n" + kill:              "",
		"what = \"kill\"\nat = \"59s\"":                                    "",
		"what = \"kill\"\nat = \"round 5\"\nrestart = \"0s\"":              "",
		"what = \"partition\"\nat = \"9s\"\nwho = \"all\"\nshare = 0.5":    "",
		"what = \"cut\"\nat = \"9s\"\n[[fault]]\nwhat=\"heal\"\nat=\"9s\"": "",
	} {
		_, err := ParseScenario("x.toml", []byte(head+"[[fault]]\n"+text+"\n"))
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || exit.CodeOf(err) != exit.Config) {
			t.Errorf("%q gives %v, want %q", text, err, want)
		}
	}
	if _, err := ParseScenario("x.toml", []byte(head+"[[fault]]\nwhat = \"kill\"\nat = \"round 5\"\n"), "swarm.rounds=3"); err != nil {
		t.Errorf("a run that was cut short: %v", err)
	}
}

// A scenario runs in the tiers that it names alone.
func TestScenarioNamesItsTiers(t *testing.T) {
	text := []byte("name = \"x\"\ntiers = [\"net\", \"proc\"]\n[swarm]\npeers = 4\nrounds = 2\n")
	s, err := ParseScenario("x.toml", text)
	if err != nil {
		t.Fatal(err)
	}
	for tier, want := range map[string]string{"net": "", "proc": "", "event": "x.toml:2: tiers: the scenario is for net, proc, not for event", "moon": `tier "moon" is not one of`} {
		err := s.ForTier("x.toml", text, tier)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", tier, err, want)
		}
	}
	text = text[:0]
	if s, err = ParseScenario("y.toml", append(text, "name = \"y\"\n[swarm]\npeers = 4\nrounds = 2\n"...)); err != nil {
		t.Fatal(err)
	}
	if s.ForTier("y.toml", text, "event") != nil || s.ForTier("y.toml", text, "net") == nil {
		t.Error("a scenario without tiers is for the event tier alone")
	}
}

func FuzzScenario(f *testing.F) {
	for _, name := range Scenarios() {
		b, err := ScenarioText(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := ParseScenario("x.toml", b); err == nil {
			s.config() // must not panic
		}
	})
}
