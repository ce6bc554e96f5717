package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apiary-net/hived/daemon/exit"
)

func TestIdentity(t *testing.T) {
	dir := t.TempDir()
	if _, err := LoadIdentity(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no identity gives %v", err)
	}
	k, err := MakeIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := LoadIdentity(dir)
	if err != nil || got.Peer() != k.Peer() {
		t.Fatalf("%v, %v", got.Peer(), err)
	}
	if _, err := MakeIdentity(dir); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second identity over the first: %v", err)
	}
	path := filepath.Join(dir, identityFile)
	for _, mode := range []fs.FileMode{0o644, 0o640, 0o604, 0o660} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadIdentity(dir); exit.CodeOf(err) != exit.Refused || !strings.Contains(err.Error(), "chmod 600 "+path) {
			t.Errorf("mode %o: %v with code %d, want 8 and the chmod to type", mode, err, exit.CodeOf(err))
		}
	}
	for what, text := range map[string]string{"nothing": "", "another file": "hello", "another key": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
		"a short seed": "-----BEGIN " + identityType + "-----\nAAAA\n-----END " + identityType + "-----\n"} {
		if err := errors.Join(os.Remove(path), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadIdentity(dir); exit.CodeOf(err) != exit.Integrity {
			t.Errorf("%s: %v with code %d, want 9", what, err, exit.CodeOf(err))
		}
	}
}

func TestLockNamesItsHolder(t *testing.T) {
	dir := t.TempDir()
	l, err := exit.LockDir(dir, "data directory", "stop it or choose another --data-dir")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exit.LockDir(dir, "data directory", "stop it or choose another --data-dir"); exit.CodeOf(err) != exit.Resource || !strings.Contains(err.Error(), "pid ") {
		t.Errorf("%v with code %d, want 10 and the holder", err, exit.CodeOf(err))
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	l, err = exit.LockDir(dir, "data directory", "stop it or choose another --data-dir")
	if err != nil {
		t.Fatalf("after release: %v", err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}
