package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/apiary-net/hived/daemon/exit"
)

// started runs a daemon on loopback until the test ends and returns it with a
// client.
func started(t *testing.T, bootstrap ...string) (*Daemon, *Client) {
	t.Helper()
	dir, err := os.MkdirTemp("", "hived-t") // a socket's path is at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	c := DefaultConfig()
	c.DataDir, c.Store.FreeFloor, c.Train.Threads = dir, 0, 1
	c.Network.Listen, c.Network.Bootstrap, c.Network.MDNS, c.Network.NAT = []string{"/ip4/127.0.0.1/tcp/0"}, bootstrap, false, false
	d, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("run: %v", err)
			}
		case <-time.After(30 * time.Second):
			t.Error("the daemon did not stop within 30 s")
			return
		}
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if _, err := os.Stat(filepath.Join(dir, "hived.sock")); err == nil {
			t.Error("the socket is still there")
		}
	})
	cl, err := NewClient("unix://" + filepath.Join(dir, "hived.sock"))
	if err != nil {
		t.Fatal(err)
	}
	wctx, wcancel := context.WithTimeout(ctx, 30*time.Second)
	defer wcancel()
	if err := cl.WaitReady(wctx); err != nil {
		t.Fatal(err)
	}
	return d, cl
}

// limited is a context that ends before the package's time does.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// Whoever asks for a run several times at once, or while it is resumed, gets it
// once.
func TestStartRunAtOnce(t *testing.T) {
	mnist(t)
	d, cl := started(t)
	sealed, id, err := d.NewGenesis(RunSpec{Name: "once", Task: "mnist", Rounds: 1000, Steps: 1, MinPeers: 2})
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, 8)
	for range cap(errs) {
		go func() {
			got, err := d.StartRun(sealed)
			if err == nil && got != id {
				err = fmt.Errorf("run %s, want %s", got.Short(), id.Short())
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if n := len(d.allRuns()); n != 1 {
		t.Errorf("%d runs are in progress", n)
	}
	// One whose runner has ended is opened anew, not taken for one that goes on.
	was, err := d.runOf(id)
	if err != nil {
		t.Fatal(err)
	}
	was.stop()
	if _, err := d.StartRun(sealed); err != nil {
		t.Fatal(err)
	}
	now, err := d.runOf(id)
	if err != nil || now == was {
		t.Fatalf("the stopped run was not opened anew (%v)", err)
	}
	if _, err := now.runner.Status(limited(t)); err != nil {
		t.Fatal(err)
	}
	// A request that says something else than it may does nothing.
	if err := cl.Post(limited(t), "/api/v1/runs/once/stop", map[string]int{"x": 1}, nil); exit.CodeOf(err) != exit.Usage {
		t.Errorf("a stop with an unknown field: %v", err)
	}
	if err := cl.Get(limited(t), "/api/v1/runs/once/rounds?from=abc", nil); exit.CodeOf(err) != exit.Usage {
		t.Errorf("rounds from abc: %v", err)
	}
	// What cannot be written down is not done by half.
	whole := d.kv
	d.kv = fullKV{whole}
	if err := d.StopRun(limited(t), id); exit.CodeOf(err) != exit.Resource {
		t.Errorf("a stop that cannot be written down: %v", err)
	}
	if r, err := d.runOf(id); err != nil || r != now {
		t.Errorf("the run that could not be stopped is gone (%v)", err)
	}
	d.kv = whole
	if err := d.StopRun(limited(t), id); err != nil {
		t.Error(err)
	}
}

// fullKV is a store on a full disk.
type fullKV struct{ KV }

func (fullKV) Apply([][2][]byte, [][]byte, bool) error { return syscall.ENOSPC }
