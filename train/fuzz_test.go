package train

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/apiary-net/hived/daemon/exit"
)

// FuzzRunFile reads run files as `hived train` does. One that is refused says so as a
// matter of configuration, and none trains on data that are not there.
func FuzzRunFile(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("..", "docs", "examples", "*.toml"))
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	base := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		var r RunFile
		if err := exit.DecodeFile("run.toml", b, &r); err != nil {
			if exit.CodeOf(err) != exit.Config {
				t.Errorf("%v with code %d", err, exit.CodeOf(err))
			}
			return
		}
		if r.Data.Format == "mnist" || r.Data.Format == "sources" {
			return // found elsewhere
		}
		r.Data.Path = "not-there"
		if _, err := r.Open(base); err == nil {
			t.Error("a training on nothing")
		}
	})
}
