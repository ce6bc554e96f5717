package daemon

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/train/data"
	"github.com/apiary-net/hived/wire"
)

// TestGuard asks as a browser would whose page came from elsewhere.
func TestGuard(t *testing.T) {
	d, _ := started(t)
	h := d.server().Handler
	for _, c := range []struct {
		method, path, host, content, body string
		code                              int
	}{
		{"GET", "/livez", "127.0.0.1:4780", "", "", 200},
		{"GET", "/livez", "localhost", "", "", 200},
		{"GET", "/livez", "[::1]:4780", "", "", 200},
		{"GET", "/livez", "hived", "", "", 200},
		{"GET", "/livez", "evil.example", "", "", 403},
		{"GET", "/api/v1/status", "evil.example:4780", "", "", 403},
		{"GET", "/livez", "192.168.0.1:4780", "", "", 403},
		{"GET", "/livez", "localhost.evil.example", "", "", 403},
		{"GET", "/livez", "", "", "", 403},
		{"POST", "/api/v1/join", "127.0.0.1", "text/plain", "{}", 415},
		{"POST", "/api/v1/join", "127.0.0.1", "", "{}", 415},
		{"POST", "/api/v1/join", "127.0.0.1", "application/x-www-form-urlencoded", "a=b", 415},
		{"POST", "/api/v1/runs", "evil.example", "application/json", "{}", 403},
		{"DELETE", "/api/v1/runs", "127.0.0.1", "application/json", "", 405},
		{"POST", "/api/v1/status", "127.0.0.1", "application/json", "{}", 405},
		{"GET", "/nothing", "127.0.0.1", "", "", 404},
		{"POST", "/api/v1/runs", "127.0.0.1", "application/json", `{"nmae":"x"}`, 422},
		{"POST", "/api/v1/runs", "127.0.0.1", "application/json", `{`, 422},
		{"POST", "/api/v1/runs", "127.0.0.1", "application/json", `{"name":"` + strings.Repeat("x", 2<<20) + `"}`, 422},
		{"POST", "/api/v1/runs/none/stop", "127.0.0.1", "application/json", "{}", 422},
		{"POST", "/api/v1/runs/none/export", "127.0.0.1", "application/json", `{"dir":"relative"}`, 422},
		{"GET", "/api/v1/runs/none/rounds", "127.0.0.1", "", "", 422},
	} {
		q := httptest.NewRequest(c.method, "http://x"+c.path, strings.NewReader(c.body))
		q.Host = c.host
		if c.content != "" {
			q.Header.Set("Content-Type", c.content)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, q)
		if w.Code != c.code {
			t.Errorf("%s %s for host %q, %s: %d, want %d", c.method, c.path, c.host, c.content, w.Code, c.code)
		}
		var e ErrorBody
		if c.code == 422 && (json.Unmarshal(w.Body.Bytes(), &e) != nil || e.Error == "" || e.Code == 0) {
			t.Errorf("%s %s: answer %q", c.method, c.path, w.Body)
		}
		if w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Error("other origins are let in")
		}
	}
}

func TestEndpoints(t *testing.T) {
	d, cl := started(t)
	var s Status
	if err := cl.Get(limited(t), "/api/v1/status", &s); err != nil || s.Schema != "hived.status/v1" || !s.Ready || s.ID != d.ID().String() || s.Runs == nil {
		t.Errorf("%+v, %v", s, err)
	}
	var ps []PeerStatus
	if err := cl.Get(limited(t), "/api/v1/peers", &ps); err != nil || ps == nil {
		t.Errorf("%v, %v", ps, err)
	}
	for path, want := range map[string]string{"/livez": "ok", "/readyz": "ok", "/version": Version, "/metrics": "hived_ready 1"} {
		resp, err := cl.open(limited(t), http.MethodGet, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%s: %q, %v", path, b, err)
		}
	}
	if st, err := os.Stat(filepath.Join(d.cfg.DataDir, "hived.sock")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the socket has mode %v, %v", st.Mode(), err)
	}
	families, err := d.metrics.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("metric %s: %s", p.Metric, p.Text)
	}
}

// TestSecondDaemon opens a directory that another daemon has.
func TestSecondDaemon(t *testing.T) {
	d, _ := started(t)
	c := DefaultConfig()
	c.DataDir = d.cfg.DataDir
	if _, err := Open(c); exit.CodeOf(err) != exit.Resource || !strings.Contains(err.Error(), "is in use by pid ") {
		t.Errorf("%v with code %d, want 10 and the holder", err, exit.CodeOf(err))
	}
}

func TestNoDaemon(t *testing.T) {
	cl, err := NewClient("unix://" + filepath.Join(t.TempDir(), "none.sock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := cl.Get(limited(t), "/api/v1/status", nil); exit.CodeOf(err) != exit.NoDaemon || !strings.Contains(err.Error(), "hived daemon") {
		t.Errorf("%v with code %d, want 4 and the next command", err, exit.CodeOf(err))
	}
	if _, err := NewClient("ftp://x"); exit.CodeOf(err) != exit.Usage {
		t.Errorf("another scheme: %v", err)
	}
}

func TestJoinNobody(t *testing.T) {
	_, cl := started(t)
	for _, addr := range []string{"nonsense", "/ip4/127.0.0.1/tcp/1", "/ip4/127.0.0.1/tcp/1/p2p/" + wire.NewKey().Peer().String()} {
		err := cl.Post(limited(t), "/api/v1/join", map[string]any{"address": addr, "seconds": 2}, nil)
		if exit.CodeOf(err) != exit.NoPeer && exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), addr) {
			t.Errorf("join %s: %v with code %d", addr, err, exit.CodeOf(err))
		}
	}
}

// mnist skips a test where the data set cannot be found.
func mnist(t *testing.T) {
	t.Helper()
	if _, err := data.Open(data.Spec{Format: "mnist"}); err != nil {
		t.Skipf("NOT HERE: %v", err)
	}
}

// TestMismatch takes part in runs of another model, other data and other code:
// the refusal has code 11 and names both sides.
func TestMismatch(t *testing.T) {
	mnist(t)
	d, _ := started(t)
	good, err := d.genesis(RunSpec{Name: "m", Task: "mnist"})
	if err != nil {
		t.Fatal(err)
	}
	other := wire.Sum([]byte("other"))
	for what, c := range map[string]struct {
		change func(*wire.Genesis)
		want   []string
	}{
		"schema": {func(g *wire.Genesis) { g.Schema = other }, []string{other.Short(), good.Schema.Short(), "schema"}},
		"data":   {func(g *wire.Genesis) { g.Data[0].Root = other }, []string{other.Short(), good.Data[0].Root.Short(), "mnist"}},
		"task":   {func(g *wire.Genesis) { g.Data[0].Name = "birds" }, []string{"birds"}},
		"model":  {func(g *wire.Genesis) { g.Model.Name = "oracle" }, []string{"oracle"}},
		"shape":  {func(g *wire.Genesis) { g.Model.Args = append(g.Model.Args, wire.Arg{Key: "wings", Value: 4}) }, []string{"wings"}},
	} {
		g := *good
		g.Data = append([]wire.DataContract{}, good.Data...)
		g.Model.Args = append([]wire.Arg{}, good.Model.Args...)
		c.change(&g)
		_, err := d.StartRun(wire.Seal(d.key, wire.KindGenesis, wire.RunID{}, 0, &g).Bytes())
		if exit.CodeOf(err) != exit.Incompatible {
			t.Errorf("another %s: %v with code %d, want 11", what, err, exit.CodeOf(err))
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("another %s: %q lacks %q", what, err, w)
			}
		}
	}
	if _, err := d.StartRun([]byte("no genesis")); exit.CodeOf(err) != exit.Integrity {
		t.Errorf("no genesis: code %d, want 9", exit.CodeOf(err))
	}
	if len(d.allRuns()) != 0 {
		t.Error("a refused run is in progress")
	}
}
