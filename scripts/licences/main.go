package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

func main() {
	s, err := page("go.mod")
	if err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
	fmt.Print(s)
}

// page returns the text of THIRD_PARTY.md for a go.mod file.
func page(gomod string) (string, error) {
	b, err := os.ReadFile(gomod)
	if err != nil {
		return "", err
	}
	f, err := modfile.Parse(gomod, b, nil)
	if err != nil {
		return "", err
	}
	// Modules that nothing here links yet are not in a fresh cache.
	for _, r := range f.Require {
		if r.Indirect {
			continue
		}
		if out, err := exec.Command("go", "mod", "download", r.Mod.Path).CombinedOutput(); err != nil {
			return "", fmt.Errorf("download %s: %w: %s", r.Mod.Path, err, out)
		}
	}
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		return "", fmt.Errorf("find the module cache: %w", err)
	}
	var out strings.Builder
	out.WriteString("# Third party\n\nModules that go.mod requires directly, with the licence of the file named. Written by\n`go run ./scripts/licences`; a test checks that it is current.\n\n| module | version | licence | file |\n|---|---|---|---|\n")
	for _, r := range f.Require {
		if r.Indirect {
			continue
		}
		licence, file, err := licenceOf(strings.TrimSpace(string(cache)), r.Mod)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", r.Mod.Path, r.Mod.Version, licence, file)
	}
	return out.String(), nil
}

// licenceOf names the licence of a module in the cache and the file that says so.
func licenceOf(cache string, m module.Version) (licence, file string, err error) {
	path, err := module.EscapePath(m.Path)
	if err != nil {
		return "", "", err
	}
	version, err := module.EscapeVersion(m.Version)
	if err != nil {
		return "", "", err
	}
	dir := filepath.Join(cache, filepath.FromSlash(path)+"@"+version)
	var found []string
	for _, name := range []string{"LICENSE", "LICENSE.txt", "License.txt", "LICENSE.md", "LICENCE", "COPYING", "UNLICENSE", "LICENSE-MIT", "LICENSE-APACHE", "LICENSE-APACHE-2.0", "license.txt"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", "", err
		}
		names := classify(string(b))
		if len(names) == 0 {
			names = []string{"unknown"}
		}
		for _, n := range names {
			if !slices.Contains(found, n) {
				found = append(found, n)
			}
		}
		file += " " + name
	}
	if len(found) == 0 {
		if _, err := os.Stat(dir); err != nil {
			return "", "", fmt.Errorf("%s is not in the module cache; go mod download: %w", m, err)
		}
		return "unknown", "-", nil
	}
	return strings.Join(found, ", "), strings.TrimSpace(file), nil
}

// classify names every licence that a text holds, by sentences that only they
// have.
func classify(text string) []string {
	text = strings.Join(strings.Fields(text), " ")
	var out []string
	for _, l := range []struct{ sentence, name string }{
		{"Apache License Version 2.0", "Apache-2.0"},
		{"apache.org/licenses/LICENSE-2.0", "Apache-2.0"},
		{"dual MIT/Apache-2.0", "Apache-2.0"},
		{"dual MIT/Apache-2.0", "MIT"},
		{"Mozilla Public License", "MPL-2.0"},
		{"This is free and unencumbered software", "Unlicense"},
		{"Permission is hereby granted, free of charge", "MIT"},
		{"Redistributions in binary form must reproduce", "BSD-3-Clause"},
	} {
		name := l.name
		if name == "BSD-3-Clause" && !strings.Contains(text, "Neither the name") && !strings.Contains(text, "nor the names of") {
			name = "BSD-2-Clause"
		}
		if strings.Contains(text, l.sentence) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}
