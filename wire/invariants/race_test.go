//go:build race

package invariants_test

import (
	"testing"

	"github.com/apiary-net/hived/wire/invariants"
)

func TestInvariantsAreOnUnderRace(t *testing.T) {
	if !invariants.On {
		t.Error("the race detector runs without them")
	}
}
