package daemon

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestAPIPage compares docs/api.md with what there is: its table of paths with the
// routes, and its fields with those of the requests and answers.
func TestAPIPage(t *testing.T) {
	d := &Daemon{metrics: newMetrics(nil)}
	b, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	routes := d.routes()
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z]+ /[^`]*)` \\|").FindAllStringSubmatch(page, -1) {
		listed[m[1]] = true
		if routes[m[1]] == nil {
			t.Errorf("docs/api.md lists %s, which is no route", m[1])
		}
	}
	for pattern := range routes {
		if !listed[pattern] {
			t.Errorf("docs/api.md does not list %s", pattern)
		}
	}
	sections := map[string]string{}
	for _, s := range strings.Split(page, "\n### ")[1:] {
		title, text, _ := strings.Cut(s, "\n")
		sections[title] = text
		if routes[title] == nil {
			t.Errorf("docs/api.md describes %s, which is no route", title)
		}
	}
	for title, of := range map[string]any{
		"GET /api/v1/status": Status{}, "GET /api/v1/runs/{run}": RunStatus{}, "GET /api/v1/peers": PeerStatus{}, "POST /api/v1/runs": RunSpec{},
		"GET /api/v1/runs/{run}/rounds": RoundLine{}, "GET /api/v1/runs/{run}/ledger": LedgerHead{}, "GET /api/v1/runs/{run}/shards": ShardMap{},
	} {
		for _, name := range fieldsOf(reflect.TypeOf(of)) {
			if !strings.Contains(sections[title], "`"+name+"`") {
				t.Errorf("docs/api.md: %s has no field %q", title, name)
			}
		}
	}
}

// fieldsOf returns the names that JSON has for a struct's fields and for those of the
// structs in it, but for another answer's.
func fieldsOf(t reflect.Type) []string {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t.PkgPath() == "time" {
		return nil
	}
	var out []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		out = append(out, name)
		if f.Name != "Runs" {
			out = append(out, fieldsOf(f.Type)...)
		}
	}
	return out
}

// TestAPIPathsExist looks for paths in the code of clients that are no route.
func TestAPIPathsExist(t *testing.T) {
	mux := http.NewServeMux()
	for pattern, h := range (&Daemon{metrics: newMetrics(nil)}).routes() {
		mux.Handle(pattern, h)
	}
	found := 0
	for _, root := range []string{"../cmd", "../netsim", "client.go", "doctor.go"} {
		err := filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || filepath.Ext(file) != ".go" {
				return err
			}
			for _, c := range callsIn(t, file) {
				found++
				if !slices.ContainsFunc(c.methods, func(m string) bool {
					q, err := http.NewRequest(m, "http://hived"+c.path, nil)
					if err != nil {
						return false
					}
					_, pattern := mux.Handler(q)
					return pattern != ""
				}) {
					t.Errorf("%s: %s %s is no route", file, strings.Join(c.methods, " or "), c.path)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 30 {
		t.Errorf("%d paths were found", found)
	}
}

// call is a path in the code, and with which methods it may be asked for.
type call struct {
	path    string
	methods []string
}

// callsIn finds the paths of a file. What is put in at run time stands as x.
func callsIn(t *testing.T, file string) []call {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []call
	seen := map[ast.Node]bool{}
	add := func(e ast.Expr, methods ...string) {
		if p, ok := pathOf(e, seen); ok {
			out = append(out, call{p, methods})
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && (s.Sel.Name == "Get" || s.Sel.Name == "Post") {
				for _, a := range n.Args {
					add(a, strings.ToUpper(s.Sel.Name))
				}
			}
		case ast.Expr:
			if !seen[n] {
				add(n, "GET", "POST")
			}
		}
		return true
	})
	return out
}

// pathOf reads an expression that begins with a path of the API, up to a query.
func pathOf(e ast.Expr, seen map[ast.Node]bool) (string, bool) {
	text := ""
	var read func(e ast.Expr)
	read = func(e ast.Expr) {
		seen[e] = true
		switch e := e.(type) {
		case *ast.BasicLit:
			s, err := strconv.Unquote(e.Value)
			if e.Kind != token.STRING || err != nil {
				s = ""
			}
			text += regexp.MustCompile(`%[a-z]`).ReplaceAllString(s, "x")
		case *ast.BinaryExpr:
			read(e.X)
			read(e.Y)
		default:
			if text != "" && !strings.HasSuffix(text, "/") {
				text += "?" // a query, if there is one
			}
			text += "x"
		}
	}
	switch e.(type) {
	case *ast.BasicLit, *ast.BinaryExpr:
		read(e)
	}
	text, _, _ = strings.Cut(text, "?")
	return text, strings.HasPrefix(text, "/api/")
}
