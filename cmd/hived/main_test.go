package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// childEnv makes the test binary behave as hived: its value is the command line.
const childEnv = "HIVED_LONG" // a name that configuration does not know as a key

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "child" {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// result is what one command did.
type result struct {
	out, err string
	code     int
}

// hived runs a command line in a process of its own whose standard streams are
// pipes, with an empty home.
func hived(t *testing.T, env []string, args ...string) result {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, args...)
	home := t.TempDir()
	cmd.Env = append([]string{childEnv + "=child", "HOME=" + home, "PATH=" + os.Getenv("PATH"), "TERM=xterm-256color", "XDG_CONFIG_HOME=" + home + "/c", "XDG_DATA_HOME=" + home + "/d"}, env...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	r := result{out.String(), errOut.String(), cmd.ProcessState.ExitCode()}
	if strings.ContainsRune(r.out+r.err, 0x1b) {
		t.Errorf("hived %v writes an escape into a pipe: %q", args, r.out+r.err)
	}
	return r
}

// TestWrong types what is wrong: the right code, one line that helps on standard
// error, nothing on standard output.
func TestWrong(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	typo := file("typo.toml", "schema = 1\n[network]\nlistne = []\n")
	value := file("value.toml", "[api]\nhttp = \"0.0.0.0:80\"\n")
	for _, c := range []struct {
		args []string
		env  []string
		code int
		want string
	}{
		{[]string{"statsu"}, nil, 2, "status"},
		{[]string{"--frobnicate"}, nil, 2, "frobnicate"},
		{[]string{"status", "--jsno"}, nil, 2, "jsno"},
		{[]string{"status", "extra"}, nil, 2, "extra"},
		{[]string{"status", "--timeout", "soon"}, nil, 2, "soon"},
		{[]string{"run", "strat", "x"}, nil, 2, "start"},
		{[]string{"run", "new"}, nil, 2, "arg"},
		{[]string{"run", "new", "a", "b"}, nil, 2, "arg"},
		{[]string{"join"}, nil, 2, "arg"},
		{[]string{"ledger", "haed", "x"}, nil, 2, "head"},
		{[]string{"model", "verify"}, nil, 2, "arg"},
		{[]string{"model", "verify", dir}, nil, 2, "holds no export"},
		{[]string{"ledger", "verify", dir}, nil, 2, "holds no export"},
		{[]string{"demo", "--peers", "0"}, nil, 2, "want 1 to 32"},
		{[]string{"demo", "--kill", "x"}, nil, 2, "PEER@ROUND"},
		{[]string{"demo", "--kill", "9@1"}, nil, 2, "peers 1 to"},
		{[]string{"demo", "--lose", "3"}, nil, 2, "third"},
		{[]string{"demo", "more"}, nil, 2, "more"},
		{[]string{"status", "--api", "ftp://x"}, nil, 2, "ftp://x"},
		{[]string{"daemon", "--config", typo}, nil, 3, "typo.toml:3: unknown key \"network.listne\"; did you mean \"network.listen\"?"},
		{[]string{"daemon", "--config", filepath.Join(dir, "none.toml")}, nil, 3, "none.toml"},
		{[]string{"daemon", "--config", value}, nil, 3, "loopback"},
		{[]string{"daemon", "--http", "0.0.0.0:1"}, nil, 3, "loopback"},
		{[]string{"daemon", "--log-level", "loud"}, nil, 3, "loud"},
		{[]string{"daemon"}, []string{"HIVED_NETWROK__LISTEN=x"}, 3, "HIVED_NETWORK__LISTEN"},
		{[]string{"status"}, nil, 4, "hived daemon"},
		{[]string{"peers"}, nil, 4, "hived daemon"},
		{[]string{"run", "ls"}, nil, 4, "hived daemon"},
		{[]string{"run", "log", "x"}, nil, 4, "hived daemon"},
		{[]string{"join", "/ip4/127.0.0.1/tcp/1"}, nil, 4, "hived daemon"},
		{[]string{"id"}, nil, 1, "hived init"},
	} {
		r := hived(t, c.env, c.args...)
		name := "hived " + strings.Join(c.args, " ")
		if r.code != c.code {
			t.Errorf("%s: code %d, want %d; %q", name, r.code, c.code, r.err)
		}
		if r.out != "" {
			t.Errorf("%s: writes %q to standard output", name, r.out)
		}
		lines := strings.Split(strings.TrimSuffix(r.err, "\n"), "\n")
		last := lines[len(lines)-1]
		if !strings.HasPrefix(last, "hived: ") || !strings.Contains(last, c.want) {
			t.Errorf("%s: says %q, want %q in it", name, r.err, c.want)
		}
		if len(lines) > 2 || len(lines) == 2 && !strings.Contains(lines[0], "gives up after") {
			t.Errorf("%s: %d lines: %q", name, len(lines), r.err)
		}
	}
}

func TestJSON(t *testing.T) {
	dir := t.TempDir()
	if r := hived(t, nil, "init", "--data-dir", dir, "--name", "barn"); r.code != 0 || r.out != "" || !strings.Contains(r.err, "Next: hived daemon") {
		t.Fatalf("%+v", r)
	}
	for _, args := range [][]string{{"id", "--json", "--data-dir", dir}, {"run", "presets", "--json"}} {
		r := hived(t, nil, args...)
		var v any
		if err := json.Unmarshal([]byte(r.out), &v); err != nil || r.code != 0 || r.err != "" {
			t.Errorf("%v: %v; %+v", args, err, r)
		}
	}
	again := hived(t, nil, "init", "--data-dir", dir)
	if again.code != 0 || !strings.Contains(again.err, "Kept the identity") {
		t.Errorf("a second init: %+v", again)
	}
	if r := hived(t, nil, "daemon", "--config", filepath.Join(dir, "config.toml"), "--http", "nonsense"); r.code != 3 {
		t.Errorf("the file that init wrote: %+v", r)
	}
	if err := os.Chmod(filepath.Join(dir, "identity.pem"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := hived(t, nil, "id", "--data-dir", dir); r.code != 8 || !strings.Contains(r.err, "chmod 600") {
		t.Errorf("an identity that others can read: %+v", r)
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"help", "run"}, {"run", "new", "--help"}, {"run"}, {"version"}, {"--version"}, {"help", "exit-codes"}} {
		if r := hived(t, nil, args...); r.code != 0 || r.out == "" || r.err != "" {
			t.Errorf("%v: %+v", args, r)
		}
	}
	if r := hived(t, nil, "help", "exit-codes"); !strings.Contains(r.out, "143") || !strings.Contains(r.out, "config refused") {
		t.Errorf("exit codes: %q", r.out)
	}
}

// TestDocumentedCommands finds each `hived ...` of the documents in the command
// tree, with its flags.
func TestDocumentedCommands(t *testing.T) {
	seen := 0
	for _, name := range []string{"README.md", "ARCHITECTURE.md", "SECURITY.md", "CONTRIBUTING.md", "docs/guide.md", "RESULTS.md"} {
		b, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, m := range regexp.MustCompile("(?m)(?:^|[`$ (]|bin/)hived ([a-z][^`\n#|;&]*)").FindAllStringSubmatch(string(b), -1) {
			// In running prose "hived" is a name; a command stands in code.
			line := strings.TrimSpace(m[0])
			if !strings.HasPrefix(line, "`") && !strings.HasPrefix(line, "$") && !strings.Contains(line, "bin/") {
				continue
			}
			seen++
			if err := inTree(strings.Fields(m[1])); err != nil {
				t.Errorf("%s: hived %s: %v", name, m[1], err)
			}
		}
	}
	if seen < 10 {
		t.Errorf("%d commands in the documents", seen)
	}
}

func inTree(words []string) error {
	c := (&app{}).root()
	c.InitDefaultHelpCmd()
	for i, w := range words {
		if name, ok := strings.CutPrefix(w, "--"); ok {
			name, _, _ = strings.Cut(name, "=")
			if c.Flags().Lookup(name) == nil && c.InheritedFlags().Lookup(name) == nil {
				return fmt.Errorf("no flag --%s", name)
			}
			continue
		}
		if short, ok := strings.CutPrefix(w, "-"); ok && len(short) == 1 {
			if c.Flags().ShorthandLookup(short) == nil {
				return fmt.Errorf("no flag -%s", short)
			}
			continue
		}
		sub := find(c, w)
		if sub == nil && (i == 0 || c.HasSubCommands()) {
			return fmt.Errorf("no command %s", w)
		}
		if sub == nil {
			continue // an argument
		}
		c = sub
	}
	return nil
}

func find(c *cobra.Command, name string) *cobra.Command {
	for _, s := range c.Commands() {
		if s.Name() == name || s.HasAlias(name) {
			return s
		}
	}
	return nil
}
