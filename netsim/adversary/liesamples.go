package adversary

import (
	"slices"

	"github.com/apiary-net/hived/wire"
)

type lieSamples struct{}

func (lieSamples) About() string {
	return "claims samples that it was not dealt"
}

func (lieSamples) Forge(h *wire.Header, _ int) bool {
	if len(h.Spans) == 0 {
		return false
	}
	h.Spans = slices.Clone(h.Spans)
	h.Spans[len(h.Spans)-1].Hi += 1000
	return true
}
