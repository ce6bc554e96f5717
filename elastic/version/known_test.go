package version

import (
	"strings"
	"testing"

	"github.com/apiary-net/hived/tensorops/codec"
	"github.com/apiary-net/hived/tensorops/merge"
	"github.com/apiary-net/hived/wire"
)

// TestKnown takes all that there is, and refuses what there is not by its name.
func TestKnown(t *testing.T) {
	var g wire.Genesis
	for _, c := range codec.Names() {
		for _, r := range merge.Names() {
			for _, o := range merge.OuterNames() {
				g.Preset.Codec, g.Preset.Aggregator, g.Preset.Outer.Rule = c, r, o
				if err := Known(&g); err != nil {
					t.Error(err)
				}
			}
		}
	}
	good := g
	for what, f := range map[string]func(*wire.Preset){
		"topk":    func(p *wire.Preset) { p.Codec = "topk" },
		"krum":    func(p *wire.Preset) { p.Aggregator = "krum" },
		"elastic": func(p *wire.Preset) { p.Outer.Rule = "elastic" },
	} {
		g = good
		f(&g.Preset)
		if err := Known(&g); err == nil || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "is not one of") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
