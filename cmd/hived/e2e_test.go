//go:build e2e

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apiary-net/hived/daemon"
	"github.com/apiary-net/hived/ledger/proof"
)

// process makes a command of the real environment, in which data are found.
func process(ctx context.Context, t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, exe, args...)
	cmd.Env = append(os.Environ(), childEnv+"=child", "HIVED_NETWORK__MDNS=false", "HIVED_NETWORK__NAT=false", "HIVED_STORE__FREE_FLOOR=0")
	return cmd
}

// must runs a command to its end and returns its standard output.
func must(ctx context.Context, t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := process(ctx, t, args...)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("hived %s: %v\n%s", strings.Join(args, " "), err, errOut.String())
	}
	return out
}

func minutes(t *testing.T, n int) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(n)*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// host is one machine of the README: a directory and a daemon.
type host struct {
	dir string
	cmd *exec.Cmd
	err bytes.Buffer
}

func (h *host) start(ctx context.Context, t *testing.T, args ...string) {
	t.Helper()
	h.cmd = process(ctx, t, append([]string{"daemon", "--data-dir", h.dir, "--config", filepath.Join(h.dir, "config.toml"), "--listen", "/ip4/127.0.0.1/tcp/0", "--threads", "1"}, args...)...)
	h.cmd.Stderr = &h.err
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cl, err := daemon.NewClient("unix://" + filepath.Join(h.dir, "hived.sock"))
	if err == nil {
		wctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		err = cl.WaitReady(wctx)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// stop ends the daemon with a signal and wants its code; the socket is gone then.
func (h *host) stop(t *testing.T, s syscall.Signal, code int) {
	t.Helper()
	began := time.Now()
	if err := h.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	_ = h.cmd.Wait() // the code tells
	if got := h.cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("code %d after %v, want %d\n%s", got, s, code, h.err.String())
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("%v took %v, want 10 s", s, took)
	}
	if _, err := os.Stat(filepath.Join(h.dir, "hived.sock")); err == nil {
		t.Error("the socket is still there")
	}
}

// TestE2ETwoHosts types what the README tells for two hosts.
func TestE2ETwoHosts(t *testing.T) {
	ctx := minutes(t, 4)
	hosts := []*host{{}, {}}
	for i, h := range hosts {
		var err error
		if h.dir, err = os.MkdirTemp("", "hived-e2e"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(h.dir) })
		must(ctx, t, "init", "--data-dir", h.dir, "--name", []string{"barn", "shed"}[i])
	}
	barn, shed := hosts[0], hosts[1]
	on := func(h *host, args ...string) []byte {
		t.Helper()
		return must(ctx, t, append(args, "--data-dir", h.dir)...)
	}
	barn.start(ctx, t)
	var s daemon.Status
	if err := json.Unmarshal(on(barn, "status", "--json"), &s); err != nil || len(s.Addrs) == 0 || s.Name != "barn" {
		t.Fatalf("%+v, %v", s, err)
	}
	shed.start(ctx, t, "--bootstrap", s.Addrs[0])
	on(shed, "join", s.Addrs[0])
	on(barn, "run", "new", "digits", "--task", "mnist", "--min-peers", "2", "--rounds", "3", "--steps", "4")
	on(shed, "run", "start", "digits")
	for _, h := range hosts {
		if log := string(on(h, "run", "log", "-f", "digits")); strings.Count(log, "\n") != 3 || !strings.Contains(log, "round 3  ") {
			t.Errorf("log %q", log)
		}
	}
	for _, args := range [][]string{{"run", "ls", "--json"}, {"run", "show", "digits", "--json"}, {"peers", "--json"}, {"ledger", "head", "digits", "--json"}, {"ledger", "tail", "digits", "--json"}, {"status", "--json"}} {
		var v any
		if out := on(shed, args...); json.Unmarshal(out, &v) != nil {
			t.Errorf("hived %v prints %q", args, out)
		}
	}
	export := filepath.Join(t.TempDir(), "digits")
	on(shed, "run", "export", "digits", export)
	var v proof.Result
	if err := json.Unmarshal(must(ctx, t, "model", "verify", export, "--json"), &v); err != nil || v.Replayed != 3 || v.Accuracy == nil {
		t.Errorf("%+v, %v", v, err)
	}
	must(ctx, t, "ledger", "verify", export)
	barn.stop(t, syscall.SIGTERM, 143)
	barn.start(ctx, t) // a new start works at once
	barn.stop(t, syscall.SIGINT, 130)
	shed.stop(t, syscall.SIGTERM, 143)
}
