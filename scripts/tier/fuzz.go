package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
)

// fuzzGroups makes one group for every fuzz target below the given folders. The
// budget is a count of inputs, not a time: up to Go 1.26 the end of a time can
// fail a target that found nothing (go.dev/issue/75804).
func fuzzGroups(dirs []string, inputs int) ([]group, error) {
	var out []group
	for _, dir := range dirs {
		root := strings.TrimSuffix(dir, "/...")
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if e.IsDir() && path != root && strings.HasPrefix(e.Name(), ".") {
				return fs.SkipDir
			}
			if e.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return nil
			}
			names, err := fuzzTargets(path)
			for _, n := range names {
				out = append(out, group{args: []string{"-run=^$", "-fuzz=^" + n + "$", fmt.Sprintf("-fuzztime=%dx", inputs), "-fuzzminimizetime=10x", "-parallel=2", "./" + filepath.Dir(path)}})
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no fuzz target below %v", dirs)
	}
	return out, nil
}

func fuzzTargets(path string) ([]string, error) {
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Fuzz") {
			out = append(out, fn.Name.Name)
		}
	}
	return out, nil
}
