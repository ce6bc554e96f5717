package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apiary-net/hived/wire"
)

// Preset is a synchronisation method with its defaults. The local optimizer is
// the task's.
type Preset struct {
	Name   string
	About  string
	Source string // paper
	Rounds uint64 // default length of a run
	wire.Preset
}

// Presets lists what `run presets` prints, by name.
var Presets = []Preset{
	{Name: "ddp", About: "gradients averaged at every step, in windows of fixed members", Source: "Li et al. 2020, arXiv 2006.15704", Rounds: 24,
		Preset: wire.Preset{Label: "ddp", Cadence: wire.Cadence{Window: true, Steps: 24}, Codec: "bf16", Merged: "bf16",
			Topology: "butterfly", Aggregator: "mean", Inner: wire.Inner{Decay: 0.1}}},
	{Name: "diloco", About: "many local steps, then one outer step on the averaged delta", Source: "Douillard et al. 2023, arXiv 2311.08105", Rounds: 12,
		Preset: wire.Preset{Label: "diloco", Cadence: wire.Cadence{Steps: 80}, Codec: "none", Merged: "none",
			Topology: "allgather", Aggregator: "clip-median", Inner: wire.Inner{Decay: 0.1},
			Outer: wire.Outer{Rule: "nesterov", LR: 0.7, Momentum: 0.5}}},
}

// PresetNamed returns a preset; the empty name is diloco.
func PresetNamed(name string) (Preset, error) {
	if name == "" {
		name = "diloco"
	}
	i := slices.IndexFunc(Presets, func(p Preset) bool { return p.Name == name })
	if i < 0 {
		var names []string
		for _, p := range Presets {
			names = append(names, p.Name)
		}
		return Preset{}, fmt.Errorf("preset %q is not one of %s", name, strings.Join(names, ", "))
	}
	return Presets[i], nil
}
