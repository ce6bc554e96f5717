package exit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// Lock holds a directory for one process.
type Lock struct {
	f    *flock.Flock
	info string
}

// LockDir takes dir, or says who holds it. name is what people call it, cure what
// the second of two does.
func LockDir(dir, name, cure string) (*Lock, error) {
	l := &Lock{f: flock.New(filepath.Join(dir, "lock")), info: filepath.Join(dir, "holder")}
	ok, err := l.f.TryLock()
	if err != nil {
		return nil, Fail(Resource, err, "lock %s %s", name, dir)
	}
	if !ok {
		holder, _ := os.ReadFile(l.info)
		who := strings.TrimSpace(string(holder))
		if who == "" {
			who = "another process"
		}
		return nil, Fail(Resource, nil, "%s %s is in use by %s; %s", name, dir, who, cure)
	}
	exe, _ := os.Executable()
	if err := os.WriteFile(l.info, fmt.Appendf(nil, "pid %d (%s)\n", os.Getpid(), filepath.Base(exe)), 0o600); err != nil {
		return nil, Fail(Resource, err, "write %s", l.info)
	}
	return l, nil
}

// Release gives the directory back.
func (l *Lock) Release() error {
	_ = os.Remove(l.info) // the lock alone decides
	return l.f.Unlock()
}
