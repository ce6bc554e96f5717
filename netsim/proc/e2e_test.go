//go:build e2e

package proc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/ledger/proof"
	"github.com/apiary-net/hived/wire"
)

// hived is the binary under test, built once.
var hived string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "hived-e2e-")
	if err != nil {
		panic(err)
	}
	hived = filepath.Join(dir, "hived")
	out, err := exec.Command("go", "build", "-o", hived, "github.com/apiary-net/hived/cmd/hived").CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "build hived: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// demoRun runs the command and reads its JSON.
func demoRun(t *testing.T, args ...string) DemoResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, hived, append([]string{"demo", "--json"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("demo %v: %v\n%s", args, err, &stderr)
	}
	var r DemoResult
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatalf("demo %v printed %s: %v", args, &stdout, err)
	}
	if len(slices.Compact(slices.Clone(r.Versions))) != 1 || r.Versions[0] == "" || !r.Ledger.Verified || r.Ledger.Certificates == 0 {
		t.Fatalf("demo %v: versions %v, ledger %+v\n%s", args, r.Versions, r.Ledger, &stderr)
	}
	return r
}

func TestDemo(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want func(r DemoResult) bool
	}{
		{"plain", nil, func(r DemoResult) bool { return r.Counted == r.Expected && *r.Accuracy >= 0.95 }},
		{"a peer is killed", []string{"--kill", "2@3"}, func(r DemoResult) bool { return len(r.Killed) == 1 && len(r.Versions) == 4 }},
		{"the bootstrap is killed", []string{"--kill", "1@2"}, func(r DemoResult) bool { return len(r.Killed) == 1 && len(r.Versions) == 4 }},
		{"a disk is lost", []string{"--lose", "1"}, func(r DemoResult) bool { return len(r.Killed) == 1 && len(r.Versions) == 4 }},
		{"every step", []string{"--preset", "ddp", "--steps", "8"}, func(r DemoResult) bool { return *r.Accuracy >= 0.8 }},
		{"every step, a peer is killed", []string{"--preset", "ddp", "--steps", "8", "--kill", "3@2"}, func(r DemoResult) bool { return len(r.Killed) == 1 }},
		{"alone", []string{"--peers", "1", "--rounds", "3"}, func(r DemoResult) bool { return len(r.Versions) == 1 }},
		{"two groups, a peer is killed", []string{"--peers", "6", "--group", "3", "--rounds", "4", "--steps", "8", "--kill", "2@2"}, func(r DemoResult) bool {
			return len(r.Killed) == 1 && len(r.Versions) == 6 && r.Counted >= r.Expected-4
		}},
		{"two", []string{"--peers", "2", "--rounds", "3"}, func(r DemoResult) bool { return len(r.Versions) == 2 }},
		{"text", []string{"--task", "text", "--rounds", "2"}, func(r DemoResult) bool { return r.Accuracy == nil && r.Gain > 0.5 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"--rounds", "8", "--steps", "20", "--seed", "7"}, c.args...)
			if r := demoRun(t, args...); !c.want(r) {
				t.Fatalf("demo %v: %+v", args, r)
			}
		})
	}
}

func TestDemoRefuses(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"--peers 4 --lose 2", "more than a third"},
		{"--kill 9@2", "peers 1 to 4"},
		{"--kill two", "PEER@ROUND"},
		{"--preset nope", "preset"},
		{"--peers 99", "1 to 32"},
	} {
		cmd := exec.Command(hived, append([]string{"demo"}, strings.Fields(c.args)...)...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		if cmd.ProcessState.ExitCode() != int(exit.Usage) || !strings.Contains(stderr.String(), c.says) || stdout.Len() > 0 {
			t.Errorf("demo %s: %v, %q", c.args, err, &stderr)
		}
	}
}

// load reads an export into memory.
func load(t *testing.T, dir string) fstest.MapFS {
	t.Helper()
	out := fstest.MapFS{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		out[name] = &fstest.MapFile{Data: b, Mode: 0o644}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// flip returns a copy of the export with one bit changed in name.
func flip(m fstest.MapFS, name string, bit int) fstest.MapFS {
	out := fstest.MapFS{}
	for k, v := range m {
		out[k] = v
	}
	b := bytes.Clone(m[name].Data)
	b[bit/8] ^= 1 << (bit % 8)
	out[name] = &fstest.MapFile{Data: b, Mode: 0o644}
	return out
}

// resum makes the sums of a changed export good again, signed by a stranger.
func resum(t *testing.T, m fstest.MapFS, run wire.RunID) {
	t.Helper()
	var names []string
	for n := range m {
		if n != "SHA256SUMS" && n != "SHA256SUMS.sig" {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	var b bytes.Buffer
	for _, n := range names {
		fmt.Fprintf(&b, "%s  %s\n", wire.Sum(m[n].Data), n)
	}
	d := wire.Sum(b.Bytes())
	m["SHA256SUMS"] = &fstest.MapFile{Data: b.Bytes(), Mode: 0o644}
	m["SHA256SUMS.sig"] = &fstest.MapFile{Data: wire.Seal(wire.NewKey(), wire.KindSums, run, 0, d[:]).Bytes(), Mode: 0o644}
}

// Each of 200 random single-bit changes is found, and the file is named. So is
// each of 40 whose sums were made good again: the sums are only a convenience.
func TestBitFlipsAreFound(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kept")
	demoRun(t, "--rounds", "3", "--steps", "3", "--keep", dir)
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(filepath.Join(dir, "export"))); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"ledger", "model"} {
		if out, err := exec.Command(hived, what, "verify", copied).CombinedOutput(); err != nil {
			t.Fatalf("%s verify: %v\n%s", what, err, out)
		}
	}
	m := load(t, copied)
	_, run, err := wire.OpenGenesis(m["genesis"].Data)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for n, f := range m {
		if len(f.Data) > 0 {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 240 {
		name := names[rng.IntN(len(names))]
		bit := rng.IntN(8 * len(m[name].Data))
		changed := flip(m, name, bit)
		if i >= 200 {
			if strings.HasPrefix(name, "SHA256SUMS") {
				continue
			}
			resum(t, changed, run)
		}
		_, err := proof.Model(t.Context(), changed, "")
		if exit.CodeOf(err) != exit.Integrity {
			t.Fatalf("bit %d of %s: not found (%v)", bit, name, err)
		}
		base := name
		if strings.HasPrefix(name, "logs/") {
			base = strings.Join(strings.Split(name, "/")[:2], "/")
		}
		if i < 200 && !strings.Contains(err.Error(), base) && !strings.Contains(err.Error(), "SHA256SUMS") && name != "genesis" {
			t.Fatalf("bit %d of %s: found, but not named: %v", bit, name, err)
		}
	}
}

// U7: nothing of a demo is left after Ctrl-C.
func TestInterruptLeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kept")
	cmd := exec.Command(hived, "demo", "--keep", dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	wait(t, time.Minute, "the first round", func() bool {
		b, _ := os.ReadFile(filepath.Join(dir, "peer-1", "log"))
		return bytes.Contains(b, []byte("round 1 "))
	})
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_ = cmd.Wait() // the code is checked below
	if took := time.Since(began); took > 12*time.Second {
		t.Fatalf("the demo took %v to stop", took)
	}
	if code := cmd.ProcessState.ExitCode(); code != int(exit.Interrupted) {
		t.Fatalf("exit code %d after Ctrl-C\n%s", code, &stderr)
	}
	socks, err := filepath.Glob(filepath.Join(dir, "peer-*", "hived.sock"))
	if err != nil || len(socks) > 0 {
		t.Fatalf("sockets are left: %v (%v)", socks, err)
	}
	out, _ := exec.Command("pgrep", "-f", dir).Output()
	if len(bytes.TrimSpace(out)) > 0 {
		t.Fatalf("processes are left: %s", out)
	}
}

// wait polls for a condition of another process.
func wait(t *testing.T, limit time.Duration, what string, done func() bool) {
	t.Helper()
	end := time.Now().Add(limit)
	for !done() {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
		<-time.After(50 * time.Millisecond)
	}
}
