package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/apiary-net/hived/netsim"
	"github.com/apiary-net/hived/tensorops/codec"
	"github.com/apiary-net/hived/tensorops/merge"
	"github.com/apiary-net/hived/train"
	"github.com/apiary-net/hived/train/data"
	"github.com/apiary-net/hived/wire"
)

// TestNamesAreDocumented finds each name that a table of the code has on the pages
// that list such names.
func TestNamesAreDocumented(t *testing.T) {
	for page, lists := range map[string][][]string{
		"format/genesis.md":  {codec.Names(), merge.Names(), merge.OuterNames(), wire.Topologies(), wire.MergedCodecs(), train.Optimizers()},
		"format/header.md":   {codec.Names()},
		"format/numerics.md": {codec.Names(), merge.Names(), merge.OuterNames()},
		"netsim.md":          {netsim.Adversaries(), netsim.ModelKinds(), keysOf(reflect.TypeFor[netsim.Scenario]())},
		"train.md":           {train.Optimizers()},
	} {
		b, err := os.ReadFile(filepath.Join("..", "..", "docs", filepath.FromSlash(page)))
		if err != nil {
			t.Fatal(err)
		}
		for _, names := range lists {
			if len(names) < 2 {
				t.Errorf("%s: a list of %d names", page, len(names))
			}
			for _, n := range names {
				if !regexp.MustCompile(`(^|[^\w-])` + regexp.QuoteMeta(n) + `([^\w-]|$)`).Match(b) {
					t.Errorf("docs/%s does not name %s", page, n)
				}
			}
		}
	}
}

// TestCommentsOfKeysNameAll: the comments of a printed run file list names too.
func TestCommentsOfKeysNameAll(t *testing.T) {
	for _, c := range []struct {
		of    reflect.Type
		field string
		names []string
	}{{reflect.TypeFor[data.Spec](), "Format", data.Formats()}, {reflect.TypeFor[train.OptimizerSpec](), "Rule", train.Optimizers()}} {
		f, ok := c.of.FieldByName(c.field)
		for _, n := range c.names {
			if !ok || !strings.Contains(f.Tag.Get("comment"), n) {
				t.Errorf("the comment of %s.%s does not name %s", c.of, c.field, n)
			}
		}
	}
}

// keysOf returns the TOML keys of a struct and of those in it.
func keysOf(t reflect.Type) []string {
	var out []string
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if key := f.Tag.Get("toml"); key != "" && key != "-" {
			out = append(out, key)
		}
		out = append(out, keysOf(f.Type)...)
	}
	return out
}
