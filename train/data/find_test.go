package data

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apiary-net/hived/train/weights"
)

// bare is an environment with a home and nothing else.
func bare(t *testing.T) (home string) {
	t.Helper()
	home = t.TempDir()
	for _, k := range []string{"GOMODCACHE", "GOPATH", "GOENV", "GOROOT", "XDG_DATA_HOME", "XDG_CONFIG_HOME"} {
		t.Setenv(k, "")
	}
	t.Setenv("HOME", home)
	return home
}

// TestMNISTIsFound puts the digits into each place where they may lie, without a go
// command to ask.
func TestMNISTIsFound(t *testing.T) {
	for what, place := range map[string]func(t *testing.T, home string) string{
		"default cache": func(_ *testing.T, home string) string { return filepath.Join(home, "go", "pkg", "mod") },
		"GOPATH": func(t *testing.T, home string) string {
			t.Setenv("GOPATH", filepath.Join(home, "none")+string(filepath.ListSeparator)+filepath.Join(home, "p"))
			return filepath.Join(home, "p", "pkg", "mod")
		},
		"GOMODCACHE": func(t *testing.T, home string) string {
			t.Setenv("GOMODCACHE", filepath.Join(home, "c"))
			return filepath.Join(home, "c")
		},
		"go env -w": func(t *testing.T, home string) string {
			file := filepath.Join(home, "env")
			t.Setenv("GOENV", file)
			if err := os.WriteFile(file, []byte("GOFLAGS=-x\nGOMODCACHE="+filepath.Join(home, "w")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(home, "w")
		},
		"own data": func(t *testing.T, home string) string {
			t.Setenv("XDG_DATA_HOME", home)
			return ""
		},
	} {
		t.Run(what, func(t *testing.T) {
			home := bare(t)
			t.Setenv("PATH", home)
			to := filepath.Join(home, "hived", "mnist")
			if cache := place(t, home); cache != "" {
				to = filepath.Join(cache, "github.com", "petar", "!go!m!n!i!s!t@v0.0.0-2015", "data")
			}
			if _, err := openMNIST(""); !errors.Is(err, weights.ErrFile) || !strings.Contains(err.Error(), "make build") {
				t.Errorf("before: %v", err)
			}
			if err := os.CopyFS(to, os.DirFS(writeMNIST(t, 3, nil))); err != nil {
				t.Fatal(err)
			}
			if s, err := openMNIST(""); err != nil || s.Len(Train) != 3 {
				t.Errorf("in %s: %v", to, err)
			}
		})
	}
}

// TestGoSourcesAreFound names them by GOROOT, then by a go that a link in PATH leads to.
func TestGoSourcesAreFound(t *testing.T) {
	home := bare(t)
	t.Setenv("PATH", home)
	if err := os.MkdirAll(filepath.Join(home, "sdk", "src", "fmt"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOROOT", filepath.Join(home, "sdk"))
	if got := goSources(); got != filepath.Join(home, "sdk", "src") {
		t.Errorf("found %q by GOROOT", got)
	}
	t.Setenv("GOROOT", "")
	bin := filepath.Join(home, "sdk", "bin")
	if err := errors.Join(os.MkdirAll(bin, 0o700), os.WriteFile(filepath.Join(bin, "go"), nil, 0o700), os.Symlink(filepath.Join(bin, "go"), filepath.Join(home, "go"))); err != nil {
		t.Fatal(err)
	}
	if got := goSources(); got != filepath.Join(home, "sdk", "src") {
		t.Errorf("found %q by PATH", got)
	}
}

// TestNoHome looks for files where the environment names no folder at all.
func TestNoHome(t *testing.T) {
	bare(t)
	t.Setenv("HOME", "")
	if got := moduleCaches(); len(got) != 0 || userData() != "" {
		t.Errorf("caches %v, data %q", got, userData())
	}
	t.Setenv("GOPATH", "/a")
	if got := moduleCaches(); !slices.Equal(got, []string{"/a/pkg/mod"}) {
		t.Errorf("caches %v", got)
	}
}
