package daemon

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/gossip"
	"github.com/apiary-net/hived/wire"
)

// lockedBuffer is a log that many goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// peer is a daemon inside the test, on loopback.
type peer struct {
	*Daemon
	dir   string
	stop  context.CancelFunc
	ended chan error
	log   *lockedBuffer
}

// textDir makes a text that is large enough to be split.
func textDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for i := range 80 {
		line := fmt.Sprintf("the bees of hive %d fly to field %d and come back to it\n", i, i*i)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%02d.txt", i)), []byte(strings.Repeat(line, 10)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// startPeer opens and runs a daemon; change may alter its configuration.
func startPeer(t *testing.T, dir, data, bootstrap string, change func(*Config)) *peer {
	t.Helper()
	p := &peer{dir: dir, ended: make(chan error, 1), log: &lockedBuffer{}}
	cfg := DefaultConfig()
	cfg.DataDir, cfg.Data = dir, data
	cfg.Train.Threads = 1
	cfg.Network = NetworkConfig{Listen: []string{"/ip4/127.0.0.1/tcp/0"}, Bootstrap: []string{}, MaxPeers: 64}
	if bootstrap != "" {
		cfg.Network.Bootstrap = []string{bootstrap}
	}
	cfg.Store.FreeFloor = 0
	cfg.Logger = slog.New(slog.NewTextHandler(p.log, nil))
	if change != nil {
		change(&cfg)
	}
	d, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p.Daemon = d
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	go func() { p.ended <- d.Run(ctx) }()
	eventually(t, 10*time.Second, "the daemon is ready", func() bool {
		d.mu.RLock()
		defer d.mu.RUnlock()
		return d.ready
	})
	t.Cleanup(func() { p.end(t) })
	return p
}

// end stops the daemon and gives everything back; it returns how long the
// good-bye took. A second end does nothing.
func (p *peer) end(t *testing.T) time.Duration {
	t.Helper()
	if p.stop == nil {
		return 0
	}
	began := time.Now()
	p.stop()
	p.stop = nil
	if err := <-p.ended; err != nil {
		t.Errorf("daemon %s ended with %v", p.ID().Short(), err)
	}
	took := time.Since(began)
	if err := p.Close(); err != nil {
		t.Errorf("close %s: %v", p.ID().Short(), err)
	}
	return took
}

func (p *peer) addr() string { return p.node.Addrs()[0] }

// theRun returns the state of the only run, which may not have been resumed yet.
func (p *peer) theRun(t *testing.T) RunStatus {
	t.Helper()
	s := p.status(t.Context())
	if len(s.Runs) == 0 {
		return RunStatus{}
	}
	return s.Runs[0]
}

func eventually(t *testing.T, limit time.Duration, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.After(limit)
	for !done() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// startSwarm starts n daemons that take part in one run.
func startSwarm(t *testing.T, n int, spec RunSpec) ([]*peer, wire.RunID) {
	t.Helper()
	data := textDir(t)
	var ps []*peer
	for i := range n {
		boot := ""
		if i > 0 {
			boot = ps[0].addr()
		}
		ps = append(ps, startPeer(t, t.TempDir(), data, boot, nil))
		spec.Allow = append(spec.Allow, ps[i].ID().String())
	}
	spec.Name, spec.Task, spec.MinPeers, spec.Batch = "swarm", "text", uint32(n), 1
	sealed, id, err := ps[0].NewGenesis(spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range ps {
		if _, err := p.StartRun(sealed); err != nil {
			t.Fatal(err)
		}
	}
	return ps, id
}

// A stranger that says everything that an honest peer would not, on every
// protocol, costs nobody a round and little memory.
func TestStrangerOnEveryProtocol(t *testing.T) {
	ps, id := startSwarm(t, 3, RunSpec{Rounds: 6, Steps: 1})
	key := wire.NewKey()
	bad, err := gossip.New(gossip.Config{Key: key, Listen: []string{"/ip4/127.0.0.1/tcp/0"}, Bootstrap: []string{ps[1].addr()}, BanFor: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- bad.Run(ctx) }()
	defer func() {
		cancel()
		<-ended
		bad.Close()
	}()
	victim := ps[1].ID()
	if _, err := bad.Dial(ctx, ps[1].addr()); err != nil {
		t.Fatal(err)
	}
	topic, err := bad.Join("/hived/"+id.String()+"/1", func(wire.PeerID, []byte) (any, gossip.Verdict) { return nil, gossip.Accept })
	if err != nil {
		t.Fatal(err)
	}
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	flood(ctx, bad, topic, key, id, victim)
	eventually(t, 40*time.Second, "all finish", func() bool {
		for _, p := range ps {
			if p.theRun(t).State != "finished" {
				return false
			}
		}
		return true
	})
	checkUnharmed(t, ps, key.Peer(), before.HeapAlloc)
}

// flood says 300 times whatever a stranger can say.
func flood(ctx context.Context, bad *gossip.Node, topic *gossip.Topic, key wire.Key, id wire.RunID, victim wire.PeerID) {
	big := make([]byte, wire.MaxSlice)
	slice := func(part uint64) []byte {
		return wire.Marshal([]any{id[:], uint64(1), uint64(0), part, true, big[:wire.MaxBlock]})
	}
	for i := range uint64(300) {
		say := func(kind wire.Kind, body any) { _ = topic.Publish(ctx, wire.Seal(key, kind, id, i, body).Bytes()) }
		say(wire.KindReady, &wire.Ready{})
		say(wire.KindHave, &wire.Have{Seq: uint32(i)})
		say(wire.KindAttest, &wire.Attest{})
		say(wire.KindHead, &wire.Head{Size: i + 1})
		say(wire.KindLeave, &wire.Leave{Reason: "no"})
		for _, proto := range []string{protoVote, protoSlice} {
			sctx, cancel := context.WithTimeout(ctx, time.Second)
			_ = bad.Send(sctx, victim, proto, slice(i % 4)[:1<<(i%16)])
			_ = bad.Send(sctx, victim, proto, wire.Seal(key, wire.KindVote, id, i, []byte{0x80}).Bytes())
			cancel()
		}
		if i < 100 {
			sctx, cancel := context.WithTimeout(ctx, time.Second)
			_ = bad.Send(sctx, victim, protoSlice, slice(i%4))
			cancel()
		}
		for kind := range uint64(7) {
			for _, body := range [][]byte{nil, big[:1], bytes.Repeat([]byte{0xff}, 40), wire.Marshal([]any{id[:], ^uint64(0), ^uint64(0), ^uint64(0)}), wire.Marshal([]any{id[:], ^uint64(0), ^uint64(0)}), wire.Marshal([]any{id[:], uint64(0), uint64(0), [][]byte{{}, big[:9]}, true})} {
				if i%50 == 0 {
					sctx, cancel := context.WithTimeout(ctx, time.Second)
					_, _ = bad.Pull(sctx, victim, wire.Marshal(wire.Pull{Kind: kind, Body: body}))
					cancel()
				}
			}
		}
	}
}

// checkUnharmed checks what a flood must not have done to finished peers.
func checkUnharmed(t *testing.T, ps []*peer, stranger wire.PeerID, heap uint64) {
	t.Helper()
	var after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(heap); grown > 150<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
	for _, p := range ps {
		s := p.theRun(t)
		if s.Version != ps[0].theRun(t).Version || 3*s.Counted < 2*s.Expected { // the flood takes processor time
			t.Errorf("peer %s: %d of %d counted, version %s", p.ID().Short(), s.Counted, s.Expected, s.Version)
		}
		if strings.Contains(p.log.String(), "panicked") {
			t.Errorf("a handler of %s panicked:\n%s", p.ID().Short(), p.log)
		}
		if best, ok := p.onlyRun().witness.Best(stranger); ok {
			t.Errorf("peer %s keeps the stranger's head %v", p.ID().Short(), best)
		}
	}
}

func (p *peer) onlyRun() *run { return p.allRuns()[0] }

// U7: who is stopped in the middle of training is gone within 10 s, and the
// others do not wait for the deadline.
func TestStopInTheMiddleOfTraining(t *testing.T) {
	ps, _ := startSwarm(t, 3, RunSpec{Rounds: 1000, Steps: 1, Deadline: 60_000})
	eventually(t, 30*time.Second, "round 2", func() bool { return ps[0].theRun(t).Round >= 2 })
	round := ps[0].theRun(t).Round
	began := time.Now()
	if took := ps[2].end(t); took > 10*time.Second {
		t.Fatalf("the good-bye took %v", took)
	}
	eventually(t, 20*time.Second, "two more rounds", func() bool { return ps[0].theRun(t).Round >= round+3 })
	t.Logf("three rounds of the others took %v", time.Since(began))
	if s := ps[0].theRun(t); s.Active != 2 {
		t.Fatalf("%d peers are active after one of three has left", s.Active)
	}
	if _, err := os.Stat(filepath.Join(ps[2].dir, "hived.sock")); !os.IsNotExist(err) {
		t.Fatalf("the socket is left: %v", err)
	}
}

// A second daemon on a directory says who holds it.
func TestSecondDaemonNamesTheHolder(t *testing.T) {
	p := startPeer(t, t.TempDir(), "", "", nil)
	cfg := p.cfg
	_, err := Open(cfg)
	if exit.CodeOf(err) != exit.Resource || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Fatalf("second daemon: code %d, %v", exit.CodeOf(err), err)
	}
}

// C4 (c): with no space for its work a peer says so and goes on when there is.
func TestFullDiskIsNamedAndPasses(t *testing.T) {
	ps, _ := startSwarm(t, 1, RunSpec{Rounds: 1000, Steps: 1})
	p := ps[0]
	eventually(t, 20*time.Second, "round 2", func() bool { return p.theRun(t).Round >= 2 })
	p.end(t)
	again := startPeer(t, p.dir, p.cfg.Data, "", func(c *Config) { c.Store.FreeFloor = 1 << 60 })
	eventually(t, 20*time.Second, "the status names the disk", func() bool { return strings.Contains(again.theRun(t).Error, "must stay free") })
	stuck := again.theRun(t)
	again.end(t)
	healed := startPeer(t, p.dir, p.cfg.Data, "", nil)
	eventually(t, 20*time.Second, "the run goes on", func() bool { return healed.theRun(t).Round >= stuck.Round+2 })
}
