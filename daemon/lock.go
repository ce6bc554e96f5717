package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// lock holds a data directory for one process.
type lock struct {
	f    *flock.Flock
	info string
}

// lockDir takes dir, or says who holds it.
func lockDir(dir string) (*lock, error) {
	l := &lock{f: flock.New(filepath.Join(dir, "lock")), info: filepath.Join(dir, "holder")}
	ok, err := l.f.TryLock()
	if err != nil {
		return nil, Fail(ExitResource, err, "lock data directory %s", dir)
	}
	if !ok {
		holder, _ := os.ReadFile(l.info)
		who := strings.TrimSpace(string(holder))
		if who == "" {
			who = "another process"
		}
		return nil, Fail(ExitResource, nil, "data directory %s is in use by %s; stop it or choose another --data-dir", dir, who)
	}
	exe, _ := os.Executable()
	if err := os.WriteFile(l.info, fmt.Appendf(nil, "pid %d (%s)\n", os.Getpid(), filepath.Base(exe)), 0o600); err != nil {
		return nil, Fail(ExitResource, err, "write %s", l.info)
	}
	return l, nil
}

func (l *lock) release() error {
	_ = os.Remove(l.info) // the lock alone decides
	return l.f.Unlock()
}
