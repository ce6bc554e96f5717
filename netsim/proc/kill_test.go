//go:build e2e

package proc

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apiary-net/hived/daemon"
	"github.com/apiary-net/hived/gossip"
	"github.com/apiary-net/hived/ledger/proof"
	"github.com/apiary-net/hived/wire"
)

// tinyText makes peers that start after it train on a small text.
func tinyText(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for i := range 80 {
		line := fmt.Sprintf("the bees of hive %d fly to field %d and come back to it\n", i, i*i)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%02d.txt", i)), []byte(strings.Repeat(line, 10)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HIVED_TRAIN__DATA", dir)
}

// startKillable starts n peers and a run of them.
func startKillable(t *testing.T, n int, rounds uint64) ([]*Peer, string) {
	t.Helper()
	tinyText(t)
	root := t.TempDir()
	var ps []*Peer
	spec := daemon.RunSpec{Name: "kill", Task: "text", Rounds: rounds, Steps: 1, Batch: 1, MinPeers: uint32(n)}
	for i := range n {
		p, err := newPeer(filepath.Join(root, fmt.Sprint(i)), wire.NewKey())
		if err != nil {
			t.Fatal(err)
		}
		var boot []string
		if i > 0 {
			boot = []string{ps[0].Addr}
		}
		if err := p.start(t.Context(), hived, boot...); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		ps = append(ps, p)
		spec.Allow = append(spec.Allow, p.ID.String())
	}
	var out struct {
		ID string `json:"id"`
	}
	if err := ps[0].Client.Post(t.Context(), "/api/v1/runs", spec, &out); err != nil {
		t.Fatal(err)
	}
	for _, p := range ps[1:] {
		if err := p.join(t.Context(), out.ID); err != nil {
			t.Fatal(err)
		}
	}
	return ps, out.ID
}

// verifies exports a run and checks it in other processes.
func verifies(t *testing.T, p *Peer, run string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "export")
	if err := p.Client.Post(t.Context(), "/api/v1/runs/"+run+"/export", map[string]string{"dir": dir}, nil); err != nil {
		t.Fatal(err)
	}
	v, err := proof.Ledger(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	if v.Ledger.Evidence > 0 { // two headers of one peer would stand in a record
		t.Fatalf("the ledger holds %d proofs of double signing", v.Ledger.Evidence)
	}
	for _, what := range []string{"ledger", "model"} {
		out, err := exec.Command(hived, what, "verify", dir).CombinedOutput()
		if err != nil && !strings.Contains(string(out), "verified and replayed, but not evaluated") { // it has other data
			t.Fatalf("%s verify: %v\n%s", what, err, out)
		}
	}
}

// acked is what a peer has told its user.
type acked struct {
	ledger daemon.LedgerHead
	run    daemon.RunStatus
}

func ask(p *Peer, run string) (a acked, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err = p.Client.Get(ctx, "/api/v1/runs/"+run, &a.run); err == nil {
		err = p.Client.Get(ctx, "/api/v1/runs/"+run+"/ledger", &a.ledger)
	}
	return a, err
}

// C1: kill -9 of a lone peer at random moments. Every start succeeds unaided and
// within 10 s, and what was acknowledged is there.
func TestKillAloneAgainAndAgain(t *testing.T) {
	ps, run := startKillable(t, 1, 1<<20)
	p := ps[0]
	rng := rand.New(rand.NewPCG(3, uint64(time.Now().UnixNano())))
	t.Cleanup(func() {
		if t.Failed() {
			a, err := ask(p, run)
			t.Logf("%+v %v", a.run, err)
			t.Logf("the peer's log ends with: %s", p.logTail())
		}
	})
	var last acked
	start := time.Now()
	for i := range 15 {
		wait(t, 10*time.Second, "the run goes on", func() bool {
			a, err := ask(p, run)
			return err == nil && a.run.Round > last.run.Round
		})
		<-time.After(time.Duration(rng.IntN(400)) * time.Millisecond) // the moment of the kill
		var err error
		if last, err = ask(p, run); err != nil {
			t.Fatal(err)
		}
		p.Kill()
		t.Logf("kill %d at %v, round %d", i, time.Since(start).Round(time.Millisecond), last.run.Round)
		began := time.Now()
		if err := p.start(t.Context(), hived); err != nil {
			t.Fatalf("start after kill %d: %v", i, err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Fatalf("start after kill %d took %v", i, took)
		}
		var now acked
		wait(t, 10*time.Second, "the run is resumed", func() bool {
			now, err = ask(p, run)
			return err == nil
		})
		if now.ledger.Size < last.ledger.Size || now.run.Round < last.run.Round || now.run.Applied < last.run.Applied {
			t.Fatalf("kill %d: ledger of %d entries at round %d before, %d at %d after", i, last.ledger.Size, last.run.Round, now.ledger.Size, now.run.Round)
		}
		held := map[uint64]string{}
		for _, e := range now.ledger.Entries {
			held[e.Seq] = e.Ref
		}
		for _, e := range last.ledger.Entries {
			if ref, ok := held[e.Seq]; ok && ref != e.Ref {
				t.Fatalf("kill %d: entry %d was %s and is %s", i, e.Seq, e.Ref, ref)
			}
		}
	}
	if err := p.Client.Post(t.Context(), "/api/v1/runs/"+run+"/stop", map[string]any{}, nil); err == nil {
		if err := p.join(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	}
	verifies(t, p, run)
}

// spy listens on a run's topic and keeps what everybody signed.
type spy struct {
	mu    sync.Mutex
	said  map[string]wire.Digest
	twice []string
}

func (s *spy) hear(b []byte) {
	e, err := wire.Open(b)
	if err != nil || e.Kind == wire.KindHave || e.Kind == wire.KindHead { // these grow
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := fmt.Sprintf("%s %d of %s", e.Kind, e.Round, e.Sender.Short())
	var r wire.Record
	if e.Kind == wire.KindProposal && e.Decode(&r) == nil && r.Round == 0 {
		slot = "start of " + e.Sender.Short() // its own slot, beside that of instance 0
	}
	d := wire.Sum(e.Body)
	if old, ok := s.said[slot]; ok && old != d {
		s.twice = append(s.twice, slot)
	}
	s.said[slot] = d
}

// Kill -9 of random peers of three, the bootstrap among them: nobody signs a slot
// twice, all end alike, and the ledger verifies.
func TestKillInASwarm(t *testing.T) {
	ps, run := startKillable(t, 3, 25)
	s := &spy{said: map[string]wire.Digest{}}
	n, err := gossip.New(gossip.Config{Key: wire.NewKey(), Listen: []string{"/ip4/127.0.0.1/tcp/0"}, Bootstrap: []string{ps[1].Addr, ps[2].Addr, ps[0].Addr}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	defer func() {
		cancel()
		<-ended
		n.Close()
	}()
	_, err = n.Join("/hived/"+run+"/1", func(_ wire.PeerID, b []byte) (any, gossip.Verdict) {
		s.hear(b)
		return nil, gossip.Accept
	})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range 8 {
		<-time.After(time.Duration(300+rng.IntN(1500)) * time.Millisecond) // the moment of the kill
		p, other := ps[rng.IntN(3)], ps[0]
		if p == other {
			other = ps[1]
		}
		p.Kill()
		<-time.After(time.Duration(rng.IntN(1000)) * time.Millisecond)
		if err := p.start(t.Context(), hived, other.Addr); err != nil {
			t.Fatalf("start after kill %d: %v", i, err)
		}
	}
	versions := make([]string, 3)
	wait(t, 2*time.Minute, "all finish", func() bool {
		for i, p := range ps {
			a, err := ask(p, run)
			if err != nil || a.run.State != "finished" {
				return false
			}
			versions[i] = a.run.Version
		}
		return true
	})
	if versions[0] != versions[1] || versions[1] != versions[2] || versions[0] == "" {
		t.Fatalf("versions %v", versions)
	}
	s.mu.Lock()
	heard, twice := len(s.said), s.twice
	s.mu.Unlock()
	// The topic carries announcements while somebody is away: around each kill.
	if len(twice) > 0 || heard < 8 {
		t.Fatalf("%d statements heard; signed twice: %v", heard, twice)
	}
	verifies(t, ps[0], run)
}
