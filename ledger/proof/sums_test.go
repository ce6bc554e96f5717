package proof

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/wire"
)

// TestWriteIsWholeOrNotAtAll writes a directory, reads its sums back, and writes one
// that fails half way.
func TestWriteIsWholeOrNotAtAll(t *testing.T) {
	k, run, parent := wire.NewKey(), wire.Digest{7}, t.TempDir()
	dir := filepath.Join(parent, "e")
	fill := func(put wire.Put) error {
		return errors.Join(put("a/b", []byte("one")), put("c", []byte("two")), put("c", []byte("not taken")))
	}
	if err := Write(dir, k, run, fill); err != nil {
		t.Fatal(err)
	}
	if p, err := openSums(os.DirFS(dir), run); err != nil || p != k.Peer() {
		t.Errorf("signed by %s, %v", p, err)
	}
	if err := Write(dir, k, run, fill); exit.CodeOf(err) != exit.Usage {
		t.Errorf("over another: %v", err)
	}
	bad := errors.New("the disk is full")
	if err := Write(filepath.Join(parent, "f"), k, run, func(put wire.Put) error { return errors.Join(put("a", nil), bad) }); !errors.Is(err, bad) {
		t.Errorf("failed half way: %v", err)
	}
	if es, err := os.ReadDir(parent); err != nil || len(es) != 1 {
		t.Errorf("%v is left, %v", es, err)
	}
	if _, err := openSums(os.DirFS(dir), wire.Digest{8}); err == nil || strings.Contains(err.Error(), "%!") {
		t.Errorf("sums of another run: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "more"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openSums(os.DirFS(dir), run); err == nil || !strings.Contains(err.Error(), "more: not listed") {
		t.Errorf("a file that is not listed: %v", err)
	}
	if err := errors.Join(os.Remove(filepath.Join(dir, "more")), os.Remove(filepath.Join(dir, "c"))); err != nil {
		t.Fatal(err)
	}
	if _, err := openSums(os.DirFS(dir), run); err == nil || !strings.Contains(err.Error(), "c: listed in") {
		t.Errorf("a file that is gone: %v", err)
	}
}

// TestWriteOutlivesAPowerLoss notes what is synced, and when: every file and folder while
// the directory has its other name, then the folder that it appears in.
func TestWriteOutlivesAPowerLoss(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "e")
	fill := func(put wire.Put) error { return errors.Join(put("a/b", []byte("one")), put("c", []byte("two"))) }
	var before, after []string
	err := write(dir, wire.NewKey(), wire.Digest{7}, fill, func(path string) error {
		if _, err := os.Stat(dir); err == nil {
			after = append(after, path)
			return nil
		}
		name, err := filepath.Rel(parent, path)
		_, name, _ = strings.Cut(name, "/")
		before = append(before, name)
		return err
	})
	if want := []string{"", SumsFile, SigFile, "a", "a/b", "c"}; err != nil || !slices.Equal(before, want) {
		t.Errorf("synced before: %q, want %q: %v", before, want, err)
	}
	if !slices.Equal(after, []string{parent}) {
		t.Errorf("synced after: %q", after)
	}
	bad := errors.New("the disk is gone")
	if err := write(filepath.Join(parent, "f"), wire.NewKey(), wire.Digest{7}, fill, func(string) error { return bad }); !errors.Is(err, bad) {
		t.Errorf("not synced: %v", err)
	}
	if es, err := os.ReadDir(parent); err != nil || len(es) != 1 {
		t.Errorf("%v is left, %v", es, err)
	}
}

// FuzzSums reads sums that a stranger wrote: what is taken has one form.
func FuzzSums(f *testing.F) {
	d := wire.Sum(nil)
	for _, s := range []string{"", d.String() + "  a/b\n", d.String() + "  ../a\n", d.String() + " a\n", strings.Repeat(d.String()+"  a\n", 2), "0  a\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseSums(b)
		if err == nil && !bytes.Equal(s.bytes(), b) {
			t.Errorf("%q is taken and written as %q", b, s.bytes())
		}
		for name := range s {
			if strings.HasPrefix(name, "/") || strings.Contains("/"+name+"/", "/../") {
				t.Errorf("name %q leads out of the directory", name)
			}
		}
	})
}
