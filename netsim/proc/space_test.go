package proc

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/netsim"
)

// Loopback carries what has no link of its own and is never cut.
func TestNeedsSpaces(t *testing.T) {
	const head = "name = \"x\"\ntiers = [\"proc\"]\n[swarm]\npeers = 4\nrounds = 2\n"
	for more, want := range map[string]string{
		"": "",
		"[[fault]]\nwhat = \"kill\"\nat = \"1s\"\n":                           "",
		"[[fault]]\nwhat = \"stop\"\nat = \"1s\"\n":                           "",
		"[[fault]]\nwhat = \"cut\"\nat = \"1s\"\n":                            "the fault cut",
		"[[fault]]\nwhat = \"partition\"\nat = \"1s\"\n":                      "the fault partition",
		"[link]\nlatency = \"20ms\"\n":                                        "a link",
		"[link]\nloss = 0.01\n":                                               "a link",
		"[[group]]\nname = \"g\"\ncount = 1\nspeed = 0.5\n":                   "",
		"[[group]]\nname = \"g\"\ncount = 1\n[group.link]\nup = \"10Mbit\"\n": "a link",
	} {
		s, err := netsim.ParseScenario("x.toml", []byte(head+more))
		if err != nil {
			t.Fatal(err)
		}
		if got := needsSpaces(s); (got == "") != (want == "") || !strings.HasPrefix(got, want) {
			t.Errorf("%q needs %q, want %q", more, got, want)
		}
	}
}

// Who may make no namespaces, or shape no links, is told so, and nothing is left.
func TestSpacesAreRefusedOrWork(t *testing.T) {
	links := []netsim.Link{{Latency: time.Millisecond}, {}}
	n, err := newSpaces("the fault cut", links, false)
	if err != nil {
		if exit.CodeOf(err) != exit.Resource || !strings.Contains(err.Error(), "the fault cut needs network namespaces") {
			t.Fatalf("refused as %v", err)
		}
		t.Skipf("NOT HERE: %v", err)
	}
	ping := func() error { return tool("ip", "netns", "exec", n.all[0].name, "ip", "route", "get", n.all[1].addr) }
	err = errors.Join(ping(), n.Cut(0, 1, true))
	if err == nil && ping() == nil {
		err = errors.New("a cut path still has a route")
	}
	err = errors.Join(err, n.Cut(0, 1, false), ping(), n.Close())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range append(n.all, &space{name: n.bridge}) {
		if _, err := os.Stat("/var/run/netns/" + s.name); err == nil {
			t.Errorf("namespace %s is left", s.name)
		}
	}
}
