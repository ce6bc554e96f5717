package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/elastic/rules/rulestest"
	"github.com/apiary-net/hived/train"
	"github.com/apiary-net/hived/wire"
)

// Names need not be unique: who means one of two runs has to say which.
func TestAmbiguousRun(t *testing.T) {
	d := &Daemon{runs: map[wire.RunID]*run{}}
	ids := []wire.RunID{wire.Sum([]byte("a")), wire.Sum([]byte("b")), wire.Sum([]byte("c"))}
	for i, name := range []string{"two", "two", ids[0].String()} { // a name may look like an id
		d.runs[ids[i]] = &run{id: ids[i], genesis: wire.Genesis{Name: name}}
	}
	for range 20 { // whatever the order of the map
		for s, want := range map[string]wire.RunID{ids[0].String(): ids[0], ids[1].String()[:8]: ids[1], ids[2].String()[:8]: ids[2]} {
			if r, err := d.find(s); err != nil || r.id != want {
				t.Fatalf("find %q: %v", s, err)
			}
		}
		_, err := d.find("two")
		refusedWith(t, err, ids[:2])
	}
	if _, err := d.find("none"); exit.CodeOf(err) != exit.Usage {
		t.Errorf("no run: %v", err)
	}
}

// Also of runs that this peer took part in before.
func TestAmbiguousStart(t *testing.T) {
	d := &Daemon{cfg: Config{DataDir: t.TempDir()}}
	want := wire.GenesisQuery{Name: rulestest.Genesis().Name}
	var ids []wire.RunID
	for i := range 2 {
		g := rulestest.Genesis()
		g.Seed, g.Replay, g.Admission.Allow = uint64(i), wire.ReplayFull, []wire.PeerID{}
		taskDefaults(g, train.Default("mnist"), 0)
		k := wire.NewKey()
		g.Creator = k.Peer()
		b := wire.Seal(k, wire.KindGenesis, wire.RunID{}, 0, g).Bytes()
		if _, err := d.knownGenesis(want); (err == nil) != (i == 1) || i == 0 && !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%d known: %v", i, err)
		}
		if _, _, err := wire.OpenGenesis(b); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(d.cfg.DataDir, "runs", wire.Sum(b).String())
		err := os.MkdirAll(dir, 0o700)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "genesis"), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, wire.Sum(b))
	}
	_, err := d.knownGenesis(want)
	refusedWith(t, err, ids)
	if _, err := d.knownGenesis(wire.GenesisQuery{Run: ids[1]}); err != nil {
		t.Error(err)
	}
}

func refusedWith(t *testing.T, err error, ids []wire.RunID) {
	t.Helper()
	if exit.CodeOf(err) != exit.Usage {
		t.Fatalf("%v with code %d, want 2", err, exit.CodeOf(err))
	}
	for _, id := range ids {
		if !strings.Contains(err.Error(), id.String()) {
			t.Fatalf("%q does not name %s", err, id)
		}
	}
}
