package hived

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// decoder tells functions that make something of bytes by their names; decodes tells
// the others by what they call.
var decoder = regexp.MustCompile(`^(?i:open|parse|decode|read|load|unmarshal)([A-Z].*)?$`)

// unfuzzed are decoders that no fuzz target calls, with the reason.
var unfuzzed = map[string]string{
	"wire.UnmarshalText":     "called by encoding/json; FuzzText calls what it calls",
	"wire.UnmarshalCBOR":     "called by the decoder of CBOR; FuzzNouns holds CIDs",
	"netsim.UnmarshalText":   "called by the decoder of TOML; see FuzzScenario",
	"netsim/live.readExport": "reads exports that ledger/proof has verified just before",
	"netsim/live.readLog":    "reads exports that ledger/proof has verified just before",
	"scripts/tier.read":      "reads what `go test -json` prints",
	"elastic.Answer":         "needs a runner; wire.FuzzQueries decodes what it decodes",
}

// takesBytes reports whether a parameter of fn is bytes or where they come from.
func takesBytes(fn *ast.FuncDecl) bool {
	for _, p := range fn.Type.Params.List {
		switch typ := p.Type.(type) {
		case *ast.ArrayType:
			if id, ok := typ.Elt.(*ast.Ident); ok && typ.Len == nil && id.Name == "byte" {
				return true
			}
		case *ast.SelectorExpr:
			if x, ok := typ.X.(*ast.Ident); ok && slices.Contains([]string{"io.Reader", "io.ReaderAt", "fs.FS"}, x.Name+"."+typ.Sel.Name) {
				return true
			}
		}
	}
	return false
}

func decodes(fn *ast.FuncDecl) bool {
	found := false
	ast.Inspect(fn, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && (id.Name == "Unmarshal" || id.Name == "UnmarshalAny")
		return true
	})
	return found
}

// callGraph is which names the functions of each folder hold, methods under their
// bare name: what may be called, and a little more.
type callGraph map[string][]string

func (g callGraph) add(folder string, fn *ast.FuncDecl) {
	from := folder + "." + fn.Name.Name
	if _, ok := g[from]; !ok {
		g[from] = nil
	}
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			g[from] = append(g[from], folder+"."+n.Sel.Name)
			if x, ok := n.X.(*ast.Ident); ok {
				g[from] = append(g[from], "*/"+x.Name+"."+n.Sel.Name)
			}
		case *ast.Ident:
			g[from] = append(g[from], folder+"."+n.Name)
		}
		return true
	})
}

// reached returns all functions that some fuzz target may call.
func (g callGraph) reached() map[string]bool {
	elsewhere := map[string][]string{} // "*/wire.Open" is wire.Open, of whatever folder
	for name := range g {
		folder, fn, _ := strings.Cut(name, ".")
		key := "*/" + path.Base(folder) + "." + fn
		elsewhere[key] = append(elsewhere[key], name)
	}
	seen := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		for _, n := range append(elsewhere[name], name) {
			if calls, ok := g[n]; ok && !seen[n] {
				seen[n] = true
				for _, c := range calls {
					visit(c)
				}
			}
		}
	}
	for name := range g {
		if strings.Contains(name, ".Fuzz") {
			visit(name)
		}
	}
	return seen
}

// TestDecodersAreFuzzed wants each function that opens, parses, decodes, reads or
// loads bytes, or calls what does, to be called by a fuzz target, directly or by a function that one
// calls.
func TestDecodersAreFuzzed(t *testing.T) {
	g, decoders := callGraph{}, []string{}
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || s.test && strings.HasPrefix(fn.Name.Name, "Test") {
				continue
			}
			g.add(s.folder, fn)
			if !s.test && takesBytes(fn) && (decoder.MatchString(fn.Name.Name) || decodes(fn)) {
				decoders = append(decoders, s.folder+"."+fn.Name.Name)
			}
		}
	}
	reached, used := g.reached(), map[string]bool{}
	for _, d := range decoders {
		if why := unfuzzed[d]; why != "" {
			used[d] = true
			if reached[d] {
				t.Errorf("%s is excepted without need", d)
			}
		} else if !reached[d] {
			t.Errorf("%s is called by no fuzz target", d)
		}
	}
	for d := range unfuzzed {
		if !used[d] {
			t.Errorf("%s is excepted and not there", d)
		}
	}
	if len(decoders) < 30 {
		t.Errorf("only %d decoders found", len(decoders))
	}
}
