package live

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/apiary-net/hived/daemon"
	"github.com/apiary-net/hived/ledger"
	"github.com/apiary-net/hived/netsim"
	"github.com/apiary-net/hived/shards"
	"github.com/apiary-net/hived/wire"
)

// treeHash is RFC 6962's MTH as the RFC writes it.
func treeHash(leaves [][]byte) [sha256.Size]byte {
	switch n := len(leaves); n {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return sha256.Sum256(append([]byte{0}, leaves[0]...))
	default:
		k := 1
		for 2*k < n {
			k *= 2
		}
		return node(treeHash(leaves[:k]), treeHash(leaves[k:]))
	}
}

func TestPrefixes(t *testing.T) {
	var p prefixes
	var leaves [][]byte
	for i := range 70 {
		if p.size != uint64(i) || p.root() != treeHash(leaves) {
			t.Fatalf("root of %d leaves is not the RFC's", i)
		}
		leaves = append(leaves, []byte{byte(i), 7})
		p.add(leaves[i])
	}
}

// files takes an export.
type files fstest.MapFS

func (f files) WriteFile(name string, b []byte) error {
	f[name] = &fstest.MapFile{Data: b, Mode: 0o644}
	return nil
}

type still struct {
	Machine
	id wire.PeerID
}

func (s still) ID() wire.PeerID { return s.id }

// A log that is not what was seen of it is found: another history, a shorter one,
// another version than others have.
func TestLogsAreHeldAgainstWhatWasSeen(t *testing.T) {
	key, run := wire.NewKey(), wire.Sum([]byte("run"))
	l, err := ledger.Open(ledger.Config{KV: shards.NewMemKV(), Key: key, Run: run})
	if err != nil {
		t.Fatal(err)
	}
	var seen []head
	for i := range uint64(9) {
		h, err := l.Append(t.Context(), []wire.EntryBody{{Kind: wire.EntryVersion, Round: i, Ref: wire.RawCID([]byte{byte(i)})}})
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, head{h.Size, h.Root.String()})
	}
	log := files{}
	if _, err := l.Export(log); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		heads   []head
		version string // of round 3, told before
		want    string
	}{
		"as it was":       {seen, "\x03", ""},
		"again":           {[]head{seen[2], seen[2], seen[8]}, "\x03", ""},
		"another history": {[]head{seen[1], {5, strings.Repeat("ab", 32)}, seen[8]}, "\x03", netsim.CheckLogs},
		"shorter":         {[]head{seen[8], {12, seen[8].root}}, "\x03", netsim.CheckLogs},
		"another version": {seen, "other", "equal-versions"},
	} {
		p := newPlayer(Config{Scenario: &netsim.Scenario{}})
		p.began = time.Now()
		books := netsim.NewBooks(&wire.Genesis{}, p.who, p.block)
		books.Version("another", 3, wire.RawCID([]byte(c.version)))
		if err := p.readLog(fstest.MapFS(log), run, &machine{Machine: still{id: key.Peer()}, heads: c.heads}, books); err != nil {
			t.Fatal(err)
		}
		got := ""
		if p.found != nil {
			got = p.found.Checker
		}
		if got != c.want {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
	}
}

// The faults of a scenario come at their rounds and times, again and again, and end.
func TestFaultsComeInTime(t *testing.T) {
	text := `name = "x"
tiers = ["proc"]
[swarm]
peers = 3
rounds = 9
[[fault]]
what = "partition"
who = "1"
at = "round 3"
[[fault]]
what = "heal"
at = "round 5"
[[fault]]
what = "partition"
who = "0,2"
at = "round 7"
every = "round 2"
`
	s, err := netsim.ParseScenario("x.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var cuts paths = map[[2]int]bool{}
	p := newPlayer(Config{Scenario: s, Network: cuts, Machines: []Machine{still{}, still{}, still{}}})
	p.began = time.Now()
	p.arm(t.Context())
	got := ""
	for r := range uint64(9) {
		p.faults.Decided(r)
		n := 0
		for _, cut := range cuts {
			if cut {
				n++
			}
		}
		got += fmt.Sprint(n)
	}
	if got != "002200222" {
		t.Errorf("paths cut after each round: %s, want 002200222", got)
	}
	partitions := 0
	for _, e := range p.events {
		if e.Kind == "partition" {
			partitions++
		}
	}
	if partitions != 3 {
		t.Errorf("%d partitions, want 3: rounds 3, 7 and 9", partitions)
	}
}

// paths is a Network that remembers.
type paths map[[2]int]bool

func (p paths) Cut(a, b int, cut bool) error {
	p[pair(a, b)] = cut
	return nil
}

// What the daemons train on is what they read.
func TestDigits(t *testing.T) {
	dir := t.TempDir()
	if err := Digits(dir); err != nil {
		t.Fatal(err)
	}
	c := daemon.DefaultConfig()
	c.DataDir, c.Data, c.Network.Listen = t.TempDir(), dir, []string{"/ip4/127.0.0.1/tcp/0"}
	d, err := daemon.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	p := newPlayer(Config{Scenario: &netsim.Scenario{Swarm: netsim.SwarmSpec{Peers: 1, Rounds: 1}}})
	sealed, _, err := d.NewGenesis(p.spec())
	if err != nil {
		t.Fatal(err)
	}
	g, _, err := wire.OpenGenesis(sealed)
	if err != nil || g.Data[0].Train != 128 || g.Data[0].Test != 64 {
		t.Fatalf("%+v, %v", g.Data, err)
	}
}
