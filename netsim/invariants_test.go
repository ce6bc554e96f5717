//go:build sim

package netsim

import (
	"testing"

	"github.com/apiary-net/hived/wire/invariants"
)

// make sim runs swarms with every assertion.
func TestInvariantsAreOn(t *testing.T) {
	if !invariants.On {
		t.Error("no assertion runs: go test -tags sim,invariants")
	}
}
