package nets

import (
	"strings"
	"testing"

	"github.com/apiary-net/hived/train/data"
)

func TestModelArguments(t *testing.T) {
	for _, m := range Names() {
		for _, p := range append(Presets(m), "") {
			if _, err := New(Spec{Name: m, Preset: p}); err != nil {
				t.Errorf("%s %s: %v", m, p, err)
			}
		}
	}
	for what, c := range map[string]struct {
		model string
		args  map[string]int64
		want  string
	}{
		"unknown":  {"lstm", nil, "have convnet"},
		"argument": {"mlp", map[string]int64{"depth": 3}, `no argument "depth"`},
		"too many": {"mlp", map[string]int64{"hidden": 1 << 20}, "want 1 to"},
		"negative": {"mlp", map[string]int64{"hidden": -1}, "want 1 to"},
		"depth":    {"resnet", map[string]int64{"depth": 12}, "8 or 18"},
		"heads":    {"resnet", map[string]int64{"filters": 4, "attention": 5}, "no multiple"},
		"pool":     {"resnet", map[string]int64{"height": 4, "width": 4, "stem_stride": 4, "stem_pool": 1}, "leaves one row or column"},
		"groups":   {"resnet", map[string]int64{"filters": 6}, "multiple of groups"},
		"levels":   {"seq", map[string]int64{"quantiles": 2}, "1, 3 or 5"},
		"kv":       {"gpt", map[string]int64{"heads": 4, "kv_heads": 3, "style": 2}, "kv_heads"},
		"kv gpt2":  {"gpt", map[string]int64{"heads": 4, "kv_heads": 2}, "style 2"},
		"odd head": {"gpt", map[string]int64{"dim": 12, "heads": 4, "style": 2}, "halves"},
	} {
		m, err := SpecOf(c.model, c.args)
		if err == nil {
			_, err = New(m)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
	if _, err := New(Spec{Name: "gpt", Preset: "giant"}); err == nil {
		t.Error("an unknown preset is taken")
	}
	table := data.Form{Kind: "table", Dims: []int{5}, Classes: 3, Terms: 1}
	for what, f := range map[string]data.Form{
		"kind": {Kind: "text", Dims: []int{5}, Classes: 3, Terms: 5}, "size": {Kind: "table", Dims: []int{6}, Classes: 3, Terms: 1},
		"classes": {Kind: "table", Dims: []int{5}, Classes: 4, Terms: 1}, "terms": {Kind: "table", Dims: []int{5}, Classes: 3, Terms: 2}, "targets": {Kind: "table", Dims: []int{5}, Terms: 1},
	} {
		if Fits(table, f) == nil {
			t.Errorf("%s: data that do not fit are taken", what)
		}
	}
	if err := Fits(table, table); err != nil {
		t.Error(err)
	}
}
