package daemon

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/apiary-net/hived/daemon/exit"
)

// example is a file that names every key.
func example(t *testing.T) string {
	t.Helper()
	b, err := EncodeConfig(DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestExampleIsTheDefault(t *testing.T) {
	c := Config{}
	if err := DecodeConfig("config.toml", []byte(example(t)), &c); err != nil {
		t.Fatal(err)
	}
	if want := DefaultConfig(); !reflect.DeepEqual(c, want) {
		t.Errorf("the example reads as %+v, want %+v", c, want)
	}
	c.DataDir = t.TempDir()
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if n := len(ConfigKeys()); n < 15 {
		t.Errorf("%d keys", n)
	}
}

// spoil returns s with the letter at i changed, dropped or doubled.
func spoil(s string, i, how int) string {
	switch how {
	case 0:
		return s[:i] + string('a'+(s[i]-'a'+7+byte(i))%26) + s[i+1:]
	case 1:
		return s[:i] + s[i+1:]
	}
	return s[:i] + s[i:i+1] + s[i:]
}

// TestTypos changes one letter in each key of the example, at each place and in
// three ways: exit code 3, file and line, and the right guess in 95 %.
func TestTypos(t *testing.T) {
	lines := strings.Split(example(t), "\n")
	tried, right := 0, 0
	table := ""
	for n, line := range lines {
		if strings.HasPrefix(line, "[") {
			table = strings.Trim(line, "[]") + "."
		}
		key, rest, ok := strings.Cut(line, " = ")
		if !ok || strings.HasPrefix(key, "#") {
			continue
		}
		for i := range key {
			for how := range 3 {
				bad := spoil(key, i, how)
				if key[i] == '_' || bad == "" || bad == key {
					continue
				}
				file := strings.Join(append(append(append([]string{}, lines[:n]...), bad+" = "+rest), lines[n+1:]...), "\n")
				c := DefaultConfig()
				err := DecodeConfig("config.toml", []byte(file), &c)
				if exit.CodeOf(err) != exit.Config {
					t.Fatalf("%s for %s: %v with code %d, want 3", bad, key, err, exit.CodeOf(err))
				}
				if want := fmt.Sprintf("config.toml:%d: unknown key %q", n+1, table+bad); !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %s", err, want)
				}
				tried++
				if strings.Contains(err.Error(), fmt.Sprintf("did you mean %q", table+key)) {
					right++
				} else {
					t.Log(err)
				}
			}
		}
	}
	if tried < 100 || right*100 < tried*95 {
		t.Errorf("%d of %d guesses are right, want 95 %%", right, tried)
	}
}

func TestBadFiles(t *testing.T) {
	for what, c := range map[string]struct {
		file string
		want []string
	}{
		"right key, wrong table": {"[node]\nlisten = []\n", []string{":2: unknown key", "network.listen"}},
		"unknown table":          {"[netwrok]\nlisten = []\n", []string{":", "unknown key"}},
		"text for a number":      {"[network]\nmax_peers = \"10\"\n", []string{":2:"}},
		"number for text":        {"[log]\nlevel = 3\n", []string{":2:"}},
		"number for a list":      {"[network]\nlisten = 4711\n", []string{":2:"}},
		"a key twice":            {"[log]\nlevel = \"info\"\nlevel = \"warn\"\n", []string{":"}},
		"a table twice":          {"[log]\nlevel = \"info\"\n[node]\n[log]\n", []string{":"}},
		"byte order mark":        {"\xef\xbb\xbfschema = 1\n", []string{":1:", "byte order mark"}},
		"no TOML":                {"[log\n", []string{":1:"}},
		"not closed":             {"[log]\nlevel = \"info\n", []string{":2:"}},
		"bytes":                  {"\x00\x01", []string{":1:"}},
	} {
		cfg := DefaultConfig()
		err := DecodeConfig("/etc/hived/config.toml", []byte(c.file), &cfg)
		if exit.CodeOf(err) != exit.Config {
			t.Errorf("%s: %v with code %d, want 3", what, err, exit.CodeOf(err))
			continue
		}
		for _, w := range append(c.want, "/etc/hived/config.toml") {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q lacks %q", what, err, w)
			}
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: more than one line: %q", what, err)
		}
	}
	cfg := DefaultConfig()
	if err := DecodeConfig("config.toml", []byte("\t[log]\r\n\tlevel = \"warn\"\r\n"), &cfg); err != nil || cfg.Log.Level != "warn" {
		t.Errorf("tabs and CRLF, which TOML allows: %v", err)
	}
}

func TestBadValues(t *testing.T) {
	for want, f := range map[string]func(*Config){
		"schema":            func(c *Config) { c.Schema = 2 },
		"data_dir":          func(c *Config) { c.DataDir = "" },
		"network.max_peers": func(c *Config) { c.Network.MaxPeers = 0 },
		"access.mode":       func(c *Config) { c.Access.Mode = "invite" },
		"access.allow":      func(c *Config) { c.Access.Allow = []string{"12D3x"} },
		"access.deny":       func(c *Config) { c.Access.Deny = []string{"-"} },
		"train.threads":     func(c *Config) { c.Train.Threads = -1 },
		"train.step_ms":     func(c *Config) { c.Train.StepMs = -1 },
		"api.http":          func(c *Config) { c.API.HTTP = "0.0.0.0:4780" },
		"log.level":         func(c *Config) { c.Log.Level = "loud" },
	} {
		c := DefaultConfig()
		c.DataDir = t.TempDir()
		f(&c)
		if err := c.Validate(); exit.CodeOf(err) != exit.Config || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v with code %d", want, err, exit.CodeOf(err))
		}
	}
}

func TestLoopbackOnly(t *testing.T) {
	for addr, ok := range map[string]bool{"": true, "127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true,
		"0.0.0.0:1": false, ":1": false, "[::]:1": false, "192.168.1.2:1": false, "10.0.0.1:1": false, "127.0.0.1": false, "localhost.evil.example:1": false, "2130706433:1": false} {
		if err := checkLoopback(addr); (err == nil) != ok {
			t.Errorf("%q: %v", addr, err)
		}
	}
}

func TestEnvironment(t *testing.T) {
	c := DefaultConfig()
	err := ApplyEnv(&c, []string{"PATH=/bin", "HIVED_LOG__LEVEL=warn", "HIVED_NETWORK__MAX_PEERS=7", "HIVED_NETWORK__MDNS=false",
		"HIVED_STORE__FREE_FLOOR=0", "HIVED_NETWORK__BOOTSTRAP=a,b", "HIVED_DATA=/x", "HIVED_NETWORK__LISTEN="})
	if err != nil {
		t.Fatal(err)
	}
	if c.Log.Level != "warn" || c.Network.MaxPeers != 7 || c.Network.MDNS || c.Store.FreeFloor != 0 || len(c.Network.Bootstrap) != 2 || len(c.Network.Listen) != 0 {
		t.Errorf("%+v", c)
	}
	for env, want := range map[string]string{
		"HIVED_NETWROK__LISTEN=x":      "HIVED_NETWORK__LISTEN",
		"HIVED_NETWORK__LISTNE=x":      "HIVED_NETWORK__LISTEN",
		"HIVED_LOG__LEVLE=info":        "HIVED_LOG__LEVEL",
		"HIVED_LISTEN=x":               "HIVED_NETWORK__LISTEN",
		"HIVED_NETWORK=x":              "unknown key",
		"HIVED_NETWORK__MAX_PEERS=ten": "whole number",
		"HIVED_NETWORK__MDNS=maybe":    "true or false",
		"HIVED_STORE__FREE_FLOOR=-1":   "whole number",
	} {
		c := DefaultConfig()
		if err := ApplyEnv(&c, []string{env}); exit.CodeOf(err) != exit.Config || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v with code %d, want %s", env, err, exit.CodeOf(err), want)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte("[log]\nlevel = \"info\"\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := DefaultConfig()
		if err := DecodeConfig("config.toml", b, &c); err != nil && exit.CodeOf(err) != exit.Config {
			t.Errorf("%v with code %d", err, exit.CodeOf(err))
		}
	})
}
