package netsim

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A planted bug whose lines have moved plants nothing: every patch fits today's files.
func TestPlantedBugsApply(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	patches, err := filepath.Glob("testdata/bugs/*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatalf("%d patches: %v", len(patches), err)
	}
	for _, p := range patches {
		overlay(t, root, filepath.Join(root, "netsim", p), t.TempDir())
	}
}

func run(t *testing.T, dir, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil && !bytes.HasPrefix(out, []byte("{")) {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, errs.Bytes())
	}
	return out
}

// overlay applies a patch to copies of the files that it names and returns the
// name of the file that makes go build read those instead.
func overlay(t *testing.T, root, patch, tmp string) string {
	t.Helper()
	text, err := os.ReadFile(patch)
	if err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{}
	for _, l := range strings.Split(string(text), "\n") {
		name, ok := strings.CutPrefix(l, "+++ b/")
		if !ok {
			continue
		}
		to := filepath.Join(tmp, name)
		b, err := os.ReadFile(filepath.Join(root, name))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o755)
		}
		if err == nil {
			err = os.WriteFile(to, b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, name)] = to
	}
	run(t, tmp, "git", "apply", patch)
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(tmp, "overlay.json")
	if err := os.WriteFile(file, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}
