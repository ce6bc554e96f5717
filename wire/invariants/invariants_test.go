package invariants_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/apiary-net/hived/wire/invariants"
)

func TestInvariantPanics(t *testing.T) {
	defer func() {
		if got := recover(); got != "broken invariant: wire: 1 of 2" {
			t.Errorf("panicked with %v", got)
		}
	}()
	invariants.Check(true, "wire: %d of %d", 2, 2)
	invariants.Check(false, "wire: %d of %d", 1, 2)
	t.Error("a broken invariant is no panic")
}

// Every go test of make sim has the tag; that of make race has it by the detector.
func TestInvariantsInMakefile(t *testing.T) {
	b, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for tier, want := range map[string]string{"sim": `-tags (sim,)?invariants`, "race": `-race`} {
		line := regexp.MustCompile(`-name ` + tier + ` -- (.*)`).FindStringSubmatch(string(b))
		if line == nil {
			t.Fatalf("the Makefile has no tier %s", tier)
		}
		for _, group := range strings.Split(line[1], "::") {
			if !regexp.MustCompile(want).MatchString(group) {
				t.Errorf("make %s: %q runs without %s", tier, strings.TrimSpace(group), want)
			}
		}
	}
}
