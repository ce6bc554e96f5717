package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/apiary-net/hived/shards"
	"github.com/apiary-net/hived/tensorops/cpu"
	"github.com/apiary-net/hived/train"
	"github.com/apiary-net/hived/wire"
)

// Check is one line of `hived doctor`.
type Check struct {
	ID     string `json:"id"`
	Result string `json:"result"` // ok, warn or fail
	Value  string `json:"value"`  // what was measured
	Next   string `json:"next,omitempty"`
}

func ok(id, format string, args ...any) Check {
	return Check{ID: id, Result: "ok", Value: fmt.Sprintf(format, args...)}
}

func warn(id, next, format string, args ...any) Check {
	return Check{ID: id, Result: "warn", Value: fmt.Sprintf(format, args...), Next: next}
}

func fail(id, next, format string, args ...any) Check {
	return Check{ID: id, Result: "fail", Value: fmt.Sprintf(format, args...), Next: next}
}

// Doctor runs the checks; those of a running daemon only if there is one.
func Doctor(ctx context.Context, c Config, client *Client) []Check {
	out := []Check{checkConfig(&c), checkIdentity(c), checkHolder(c)}
	out = append(out, checkDisk(c)...)
	out = append(out, checkFiles(), checkCPU())
	for _, task := range []string{"mnist", "text"} {
		out = append(out, checkData(task, c.Data))
	}
	return append(out, checkDaemon(ctx, client)...)
}

func checkConfig(c *Config) Check {
	if err := c.Validate(); err != nil {
		return fail("config", "hived init writes one with defaults", "%v", err)
	}
	return ok("config", "%d keys", len(ConfigKeys()))
}

func checkIdentity(c Config) Check {
	k, err := LoadIdentity(c.DataDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return warn("identity", "hived init", "none in %s yet", c.DataDir)
	case err != nil:
		return fail("identity", "", "%v", err)
	}
	return ok("identity", "%s", k.Peer())
}

func checkHolder(c Config) Check {
	if _, err := os.Stat(filepath.Join(c.DataDir, "lock")); errors.Is(err, fs.ErrNotExist) {
		return ok("holder", "no daemon has run on %s yet", c.DataDir)
	}
	l := flock.New(filepath.Join(c.DataDir, "lock"))
	got, err := l.TryLock()
	if err != nil {
		return warn("holder", "", "%v", err)
	}
	if got {
		return errCheck("holder", l.Unlock(), "no daemon runs on %s", c.DataDir)
	}
	who, _ := os.ReadFile(filepath.Join(c.DataDir, "holder"))
	return ok("holder", "%s", strings.TrimSpace(string(who)))
}

func errCheck(id string, err error, format string, args ...any) Check {
	if err != nil {
		return fail(id, "", "%v", err)
	}
	return ok(id, format, args...)
}

// checkDisk measures free space against the floor, and one fsync.
func checkDisk(c Config) []Check {
	if _, err := os.Stat(c.DataDir); errors.Is(err, fs.ErrNotExist) {
		return []Check{warn("disk", "hived init", "%s does not exist yet", c.DataDir)}
	}
	free, err := shards.FreeBytes(c.DataDir)
	if err != nil {
		return []Check{fail("disk", "hived init", "%v", err)}
	}
	space := ok("disk", "%d MiB free, floor %d MiB", free>>20, c.Store.FreeFloor>>20)
	if free < c.Store.FreeFloor {
		space = fail("disk", "free space, or lower store.free_floor", "%d MiB free, floor %d MiB: writes are refused", free>>20, c.Store.FreeFloor>>20)
	}
	f, err := os.CreateTemp(c.DataDir, ".doctor-")
	if err != nil {
		return []Check{space, fail("write", "", "%v", err)}
	}
	defer os.Remove(f.Name()) // nothing is kept of it
	began := time.Now()
	_, err = f.Write(make([]byte, 4096))
	err = errors.Join(err, f.Sync(), f.Close())
	took := time.Since(began)
	if err == nil && took > 100*time.Millisecond {
		return []Check{space, warn("write", "", "a synced write took %d ms: votes and records wait for it", took.Milliseconds())}
	}
	return []Check{space, errCheck("write", err, "a synced write took %.1f ms", float64(took.Microseconds())/1000)}
}

func checkFiles() Check {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return warn("files", "", "%v", err)
	}
	if r.Cur < 4096 {
		return warn("files", "ulimit -n 65536", "limit %d, wanted 4096", r.Cur)
	}
	return ok("files", "limit %d", r.Cur)
}

func checkCPU() Check {
	isas := cpu.ISAs()
	if len(isas) < 2 {
		return warn("cpu", "", "only %v: local training will be slow", isas)
	}
	return ok("cpu", "%s", strings.Join(isas, " "))
}

func checkData(task, dir string) Check {
	d, err := train.OpenDataOf(wire.DataContract{Name: task}, dir)
	if err != nil {
		return warn("data-"+task, "", "%v", err)
	}
	return ok("data-"+task, "%d training samples", d.Len("train"))
}

func checkDaemon(ctx context.Context, client *Client) []Check {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var s Status
	if err := client.Get(ctx, "/api/v1/status", &s); err != nil {
		return []Check{warn("daemon", "hived daemon", "%v", err)}
	}
	out := []Check{ok("daemon", "up %.0f s, %d peers", s.Seconds, s.Peers)}
	if s.Peers == 0 {
		out[0] = warn("daemon", "hived join ADDRESS", "up %.0f s, alone: %s", s.Seconds, strings.Join(s.Reasons, "; "))
	}
	for _, b := range s.Bootstrap {
		if b.Connected {
			out = append(out, ok("bootstrap", "%s", b.Addr))
		} else {
			out = append(out, warn("bootstrap", "check the address on the other host: hived status", "%s: %s", b.Addr, b.LastErr))
		}
	}
	return out
}
