package data

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// userData returns the folder of the user's own data sets, or "" without a home.
func userData() string {
	if d := os.Getenv("XDG_DATA_HOME"); d != "" {
		return filepath.Join(d, "hived")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local", "share", "hived")
}

// goEnv returns a setting as the go command sees it, without asking the command: from
// the environment, else from the file that `go env -w` writes.
func goEnv(name string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	file := os.Getenv("GOENV")
	if file == "" {
		dir, err := os.UserConfigDir()
		if err != nil {
			return ""
		}
		file = filepath.Join(dir, "go", "env")
	}
	b, err := os.ReadFile(file) // none, or GOENV=off: nothing is set
	if err != nil {
		return ""
	}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		if k, v, ok := strings.Cut(s.Text(), "="); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// moduleCaches returns the folders that may be the go command's module cache, in the
// order in which it looks.
func moduleCaches() []string {
	if d := goEnv("GOMODCACHE"); d != "" {
		return []string{d}
	}
	paths := filepath.SplitList(goEnv("GOPATH"))
	if home, err := os.UserHomeDir(); err == nil {
		paths = append(paths, filepath.Join(home, "go"))
	}
	var out []string
	for _, p := range paths {
		out = append(out, filepath.Join(p, "pkg", "mod"))
	}
	return out
}

// moduleDirs returns the unpacked versions of a module in the cache, newest first.
// path is as the cache writes it: capitals are small letters behind an exclamation
// mark.
func moduleDirs(path string) []string {
	var out []string
	for _, c := range moduleCaches() {
		found, _ := filepath.Glob(filepath.Join(c, filepath.FromSlash(path)+"@*"))
		slices.Reverse(found)
		out = append(out, found...)
	}
	return out
}

// goSources returns the folder with the sources of the go command, or "".
func goSources() string {
	roots := []string{os.Getenv("GOROOT")}
	if exe, err := exec.LookPath("go"); err == nil {
		if exe, err = filepath.EvalSymlinks(exe); err == nil {
			roots = append(roots, filepath.Dir(filepath.Dir(exe)))
		}
	}
	for _, r := range append(roots, "/usr/local/go", "/usr/lib/go") {
		if r == "" {
			continue
		}
		src, err := filepath.EvalSymlinks(filepath.Join(r, "src"))
		if err != nil {
			continue
		}
		if st, err := os.Stat(filepath.Join(src, "fmt")); err == nil && st.IsDir() {
			return src
		}
	}
	return ""
}
