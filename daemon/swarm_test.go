package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/ledger"
	"github.com/apiary-net/hived/ledger/proof"
	"github.com/apiary-net/hived/shards"
	"github.com/apiary-net/hived/wire"
)

// TestSwarmOfTwo trains with two daemons in this process, exports, verifies the
// export, and damages it.
func TestSwarmOfTwo(t *testing.T) {
	if testing.Short() {
		t.Skip("short: no training")
	}
	mnist(t)
	ctx := limited(t)
	a, ca := started(t)
	b, cb := started(t, a.node.Addrs()[0])
	var run struct {
		ID string `json:"id"`
	}
	if err := ca.Post(ctx, "/api/v1/runs", RunSpec{Name: "two", Task: "mnist", Rounds: 2, Steps: 2, Batch: 16, MinPeers: 2, Seed: 5}, &run); err != nil {
		t.Fatal(err)
	}
	if err := cb.Post(ctx, "/api/v1/runs/two/start", map[string]any{"seconds": 20}, nil); err != nil {
		t.Fatal(err)
	}
	versions := map[string]bool{}
	for _, cl := range []*Client{ca, cb} {
		last := uint64(0)
		err := cl.Rounds(ctx, "two", 1, true, func(l RoundLine) {
			if l.Round != last+1 || l.Counted < 1 || l.Expected > 2 || !strings.HasPrefix(l.Text, "round ") {
				t.Errorf("line after round %d: %+v", last, l)
			}
			last = l.Round
		})
		if err != nil || last != 2 {
			t.Fatalf("%d rounds, %v", last, err)
		}
		for s := (RunStatus{}); s.State != "finished"; {
			if err := cl.Get(ctx, "/api/v1/runs/"+run.ID, &s); err != nil {
				t.Fatal(err)
			}
			if s.State == "finished" {
				versions[s.Version] = true
			}
		}
	}
	if len(versions) != 1 {
		t.Fatalf("the peers ended with versions %v", versions)
	}
	for _, cl := range []*Client{ca, cb} { // a cosignature comes back a moment after its head
		for h := (LedgerHead{}); len(h.Cosigned) != 1; {
			if err := cl.Get(ctx, "/api/v1/runs/two/ledger", &h); err != nil || len(h.Convicted) != 0 {
				t.Fatal(h.Convicted, err)
			}
		}
	}
	dir := filepath.Join(t.TempDir(), "export")
	if err := cb.Post(ctx, "/api/v1/runs/two/export", map[string]string{"dir": dir}, nil); err != nil {
		t.Fatal(err)
	}
	if err := cb.Post(ctx, "/api/v1/runs/two/export", map[string]string{"dir": dir}, nil); exit.CodeOf(err) != exit.Usage {
		t.Errorf("a second export over the first: %v", err)
	}
	v, err := proof.Model(ctx, os.DirFS(dir), "")
	if err != nil || !versions[v.Version] || v.Replayed != 2 || v.Ledger.Certificates != 2 || v.Ledger.Cosigned != 1 || len(v.Ledger.Witnessed) != 1 || v.Ledger.Witnessed[0].Log != b.ID().String() ||
		v.Ledger.Witnessed[0].Seen > v.Ledger.Witnessed[0].Of || !strings.Contains(v.Summary(), fmt.Sprintf("who saw the first %d of its %d entries", v.Ledger.Witnessed[0].Seen, v.Ledger.Witnessed[0].Of)) || v.Ledger.Convicted != nil {
		t.Fatalf("%+v, %v", v, err)
	}
	id, err := wire.ParseDigest(run.ID)
	if err != nil {
		t.Fatal(err)
	}
	damage(t, dir, id)
	forkedLog(limited(t), t, a, b, cb, id)
}

// forkedLog lets a show b another history of its log: b's status, log and export say
// so, and an export that hides it does not verify.
func forkedLog(ctx context.Context, t *testing.T, a, b *Daemon, cb *Client, run wire.Digest) {
	t.Helper()
	r, err := a.runOf(run)
	if err != nil {
		t.Fatal(err)
	}
	liar, err := ledger.Open(ledger.Config{KV: shards.NewMemKV(), Key: a.key, Run: run})
	if err != nil {
		t.Fatal(err)
	}
	for range r.log.Head().Size {
		if _, err := liar.Append(ctx, []wire.EntryBody{{Kind: wire.EntryRecord}}); err != nil {
			t.Fatal(err)
		}
	}
	h := liar.Head()
	for s := (RunStatus{}); len(s.Convicted) == 0; { // b may have seen less of the log yet: it is said again
		if err := r.net.Publish(ctx, wire.Seal(a.key, wire.KindHead, run, h.Size, &h).Bytes()); err != nil {
			t.Fatal(err)
		}
		if err := cb.Get(ctx, "/api/v1/runs/"+run.String(), &s); err != nil {
			t.Fatal(err)
		}
		if len(s.Convicted) == 1 && s.Convicted[0] != a.ID().String() {
			t.Fatalf("%v is convicted", s.Convicted)
		}
	}
	rb, err := b.runOf(run)
	if err != nil {
		t.Fatal(err)
	}
	for entered := false; !entered; { // what is found is kept first, then entered in the log
		err := rb.log.Read(0, rb.log.Head().Size, func(_ []byte, e wire.EntryBody) error {
			entered = entered || e.Kind == wire.EntryEvidence
			return ctx.Err()
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "export")
	if err := cb.Post(ctx, "/api/v1/runs/two/export", map[string]string{"dir": dir}, nil); err != nil {
		t.Fatal(err)
	}
	v, err := proof.Ledger(os.DirFS(dir))
	if err != nil || len(v.Ledger.Convicted) != 1 || v.Ledger.Convicted[0] != a.ID().String() || !strings.Contains(v.Summary(), "CONVICTED") {
		t.Fatalf("%+v, %v", v, err)
	}
	hidden := filepath.Join(t.TempDir(), "hidden")
	err = proof.Write(hidden, b.key, run, func(put wire.Put) error {
		return fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || strings.HasPrefix(name, "evidence/") || strings.HasPrefix(name, proof.SumsFile) {
				return err
			}
			data, err := os.ReadFile(filepath.Join(dir, name))
			return errors.Join(err, put(name, data))
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := proof.Ledger(os.DirFS(hidden)); exit.CodeOf(err) != exit.Integrity || !strings.Contains(err.Error(), "names evidence") {
		t.Errorf("an exporter that hides what it found: %v", err)
	}
}

// damage flips single bits of an export. As it is, the sums tell; with sums
// signed anew by somebody else, signatures and certificates must.
func damage(t *testing.T, dir string, run wire.RunID) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	var names, proofs []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, name)
			if !strings.HasPrefix(name, "blocks/") && !strings.HasPrefix(name, proof.SumsFile) {
				proofs = append(proofs, name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	sumsPath, sigPath := filepath.Join(dir, proof.SumsFile), filepath.Join(dir, proof.SigFile)
	b, err := os.ReadFile(sumsPath)
	sig, serr := os.ReadFile(sigPath)
	if err != nil || serr != nil {
		t.Fatal(err, serr)
	}
	liar, tried := wire.NewKey(), 0
	for i := range 200 {
		name, resign := names[rng.IntN(len(names))], i%5 == 1
		if resign {
			name = proofs[rng.IntN(len(proofs))]
		}
		path := filepath.Join(dir, name)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		bad := bytes.Clone(good)
		bit := rng.IntN(8 * len(bad))
		bad[bit/8] ^= 1 << (bit % 8)
		write(t, path, bad)
		if resign {
			tried++
			anew := bytes.Replace(b, []byte(wire.Sum(good).String()+"  "+name), []byte(wire.Sum(bad).String()+"  "+name), 1)
			d := wire.Sum(anew)
			write(t, sumsPath, anew)
			write(t, sigPath, wire.Seal(liar, wire.KindSums, run, 0, d[:]).Bytes())
		}
		if _, err := proof.Ledger(os.DirFS(dir)); exit.CodeOf(err) != exit.Integrity {
			t.Errorf("bit %d of %s, sums signed anew %v: %v with code %d", bit, name, resign, err, exit.CodeOf(err))
		}
		write(t, path, good)
		if resign {
			write(t, sumsPath, b)
			write(t, sigPath, sig)
		}
	}
	if _, err := proof.Ledger(os.DirFS(dir)); err != nil || tried != 40 {
		t.Errorf("the export after all that: %v; %d tries with sums signed anew", err, tried)
	}
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}
