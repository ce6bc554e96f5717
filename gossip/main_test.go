package gossip

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/apiary-net/hived/wire"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if s := leaked(10 * time.Second); s != "" {
			fmt.Fprintln(os.Stderr, "leaked goroutines:\n"+s)
			code = 1
		}
	}
	os.Exit(code)
}

// leaked waits for the goroutines of this package and of hosts to end and
// returns the stacks of those that did not. The allow-list holds goroutines that
// libraries start once per process.
func leaked(limit time.Duration) string {
	allowed := []string{"gossip.TestMain", "go-flow-metrics", "go-libp2p/p2p/net/swarm.init", "quic-go.(*connMultiplexer)"}
	buf := make([]byte, 4<<20)
	for deadline := time.Now().Add(limit); ; runtime.Gosched() {
		var left []string
	next:
		for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			for _, a := range allowed {
				if strings.Contains(g, a) {
					continue next
				}
			}
			if strings.Contains(g, "hived/gossip.") || strings.Contains(g, "libp2p") || strings.Contains(g, "quic-go") {
				left = append(left, g)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
	}
}

// eventually polls cond until it holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(45 * time.Second)
	defer limit.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("not in time: %s", what)
		}
	}
}

func testConfig(t *testing.T, mods ...func(*Config)) Config {
	cfg := Config{
		Key:       wire.NewKey(),
		Listen:    []string{"/ip4/127.0.0.1/tcp/0"},
		RedialMax: 300 * time.Millisecond,
		Logger:    slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	for _, m := range mods {
		m(&cfg)
	}
	return cfg
}

// running is a node whose Run goes on until stop.
type running struct {
	*Node
	stop func()
}

func start(t *testing.T, cfg Config) *running {
	t.Helper()
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return run(t, n)
}

func run(t *testing.T, n *Node) *running {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	stopped := false
	r := &running{n, func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}}
	t.Cleanup(r.stop)
	return r
}

func startNode(t *testing.T, mods ...func(*Config)) *running { return start(t, testConfig(t, mods...)) }

func bootstrap(ns ...*running) func(*Config) {
	return func(c *Config) {
		for _, n := range ns {
			c.Bootstrap = append(c.Bootstrap, n.Addrs()[0])
		}
	}
}

func waitPeers(t *testing.T, want int, ns ...*running) {
	t.Helper()
	for i, n := range ns {
		eventually(t, fmt.Sprintf("node %d has %d peers", i, want), func() bool { return len(n.Peers()) >= want })
	}
}

// strangerHost is a plain libp2p host without this package's manners.
func strangerHost(t *testing.T) host.Host {
	t.Helper()
	h, err := libp2p.New(libp2p.Transport(tcp.NewTCPTransport), libp2p.ListenAddrStrings("/ip4/127.0.0.1/tcp/0"), libp2p.DisableRelay(), libp2p.DisableMetrics())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func dialFrom(t *testing.T, h host.Host, n *running) error {
	t.Helper()
	a, err := ma.NewMultiaddr(n.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	info, err := peer.AddrInfoFromP2pAddr(a)
	if err != nil {
		t.Fatal(err)
	}
	return h.Connect(t.Context(), *info)
}

func idOf(t *testing.T, h host.Host) wire.PeerID {
	t.Helper()
	id, err := fromLibp2p(h.ID())
	if err != nil {
		t.Fatal(err)
	}
	return id
}
