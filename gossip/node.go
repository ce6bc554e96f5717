package gossip

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/metrics"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	"golang.org/x/sync/errgroup"

	"github.com/apiary-net/hived/wire"
)

// Node is one host of the swarm. All methods may be called concurrently.
type Node struct {
	cfg   Config
	log   *slog.Logger
	self  wire.PeerID
	host  host.Host
	gate  *gater
	book  *book
	bytes *metrics.BandwidthCounter
	mesh  *pubsub.PubSub
	stop  context.CancelFunc // ends the mesh
	keeps keeper

	wake  chan struct{} // to the dial loop: something changed
	fresh chan peer.ID  // to the ask loop: just connected

	mu      sync.Mutex
	closed  bool
	streams sync.WaitGroup // stream handlers in progress; Add under mu
	notify  []func(wire.PeerID, bool)
	out     map[outKey]*outStream
}

// New opens the host's sockets, which Close closes. Nothing is dialled before
// Run.
func New(cfg Config) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("make node: %w", err)
	}
	cfg = cfg.withDefaults()
	n := &Node{
		cfg: cfg, self: cfg.Key.Peer(), gate: newGater(cfg),
		log:   cfg.Logger,
		bytes: metrics.NewBandwidthCounter(),
		wake:  make(chan struct{}, 1),
		fresh: make(chan peer.ID, 64),
		out:   map[outKey]*outStream{},
	}
	n.book = newBook(cfg)
	if cfg.CacheFile != "" {
		if err := n.book.load(cfg.CacheFile); err != nil {
			n.log.Warn("peer cache is not usable, starting without it", "file", cfg.CacheFile, "err", err)
		}
	}
	h, err := newHost(cfg, n.gate, n.bytes)
	if err != nil {
		return nil, fmt.Errorf("make node: %w", err)
	}
	n.host = h
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	if n.mesh, err = newMesh(ctx, n); err != nil {
		stop()
		return nil, fmt.Errorf("make node: %w", errors.Join(err, h.Close()))
	}
	n.serve(ProtoBlocks, 8, n.serveBlocks)
	n.serve(ProtoPull, 8, n.servePull)
	n.serve(ProtoPeers, 2, n.servePeers)
	return n, nil
}

// Close closes all connections and sockets and waits for handlers in progress.
// Run must have returned, or its context have ended. A second Close returns nil.
func (n *Node) Close() error {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil
	}
	n.closed = true
	n.mu.Unlock()
	n.stop()
	err := n.host.Close()
	n.streams.Wait()
	if err != nil {
		return fmt.Errorf("close node: %w", err)
	}
	return nil
}

// Run keeps the node joined until ctx ends: it dials, asks for peers, listens to
// mDNS, keeps the cache and disconnects whom it banned. It returns nil when ctx
// ended, and may be called once.
func (n *Node) Run(ctx context.Context) error {
	sub, err := n.host.EventBus().Subscribe(new(event.EvtPeerConnectednessChanged), eventbus.BufSize(256))
	if err != nil {
		return fmt.Errorf("run node: %w", err)
	}
	defer sub.Close()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return n.watch(ctx, sub) })
	g.Go(func() error { return n.dialLoop(ctx) })
	g.Go(func() error { return n.askLoop(ctx) })
	if n.cfg.CacheFile != "" {
		g.Go(func() error { return n.cacheLoop(ctx) })
	}
	if n.cfg.MDNS {
		g.Go(func() error { return n.listenMDNS(ctx) })
	}
	if err := g.Wait(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("run node: %w", err)
	}
	return nil
}

// watch passes changes of connectedness on and disconnects the banned.
func (n *Node) watch(ctx context.Context, sub event.Subscription) error {
	up := map[peer.ID]bool{}
	change := func(p peer.ID, now bool) {
		if up[p] == now {
			return
		}
		if up[p] = now; !now {
			delete(up, p)
		}
		n.changed(p, now)
	}
	for _, p := range n.host.Network().Peers() {
		change(p, true)
	}
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			n.sweep()
		case p := <-n.gate.bans:
			n.log.Warn("peer broke the rules and is kept out", "peer", p.String(), "for", n.cfg.BanFor)
			if err := n.host.Network().ClosePeer(p); err != nil {
				n.log.Debug("close banned peer", "peer", p.String(), "err", err)
			}
		case e, ok := <-sub.Out():
			if !ok {
				return errors.New("event bus is closed")
			}
			ev := e.(event.EvtPeerConnectednessChanged)
			change(ev.Peer, ev.Connectedness == network.Connected)
		}
	}
}

// sweepEvery is how soon a peer that Allow no longer lets is disconnected.
const sweepEvery = 5 * time.Second

// sweep disconnects who is connected and not permitted: Allow may have changed
// its mind, or a connection have passed the gate just before a ban.
func (n *Node) sweep() {
	for _, p := range n.host.Network().Peers() {
		if n.gate.permits(p) {
			continue
		}
		if err := n.host.Network().ClosePeer(p); err != nil {
			n.log.Debug("close peer that is not permitted", "peer", p.String(), "err", err)
		}
	}
}

func (n *Node) changed(p peer.ID, up bool) {
	id, err := fromLibp2p(p)
	if err != nil {
		return
	}
	n.book.connected(id, up, time.Now())
	n.nudge()
	if up {
		select {
		case n.fresh <- p:
		default: // the ask loop has enough to do
		}
	} else {
		n.dropStreams(id)
	}
	n.log.Debug("peer connectedness", "peer", id.String(), "up", up)
	n.mu.Lock()
	fs := slices.Clone(n.notify)
	n.mu.Unlock()
	for _, f := range fs {
		f(id, up)
	}
}

// nudge makes the dial loop look again.
func (n *Node) nudge() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// Notify makes Run call f on every connect and disconnect of a peer, one at a
// time; f must not block. Peers that are connected already are told when Run
// starts.
func (n *Node) Notify(f func(p wire.PeerID, up bool)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notify = append(n.notify, f)
}

// serve sets the handler of a protocol. It bounds the streams of one peer at a
// time, recovers, and resets the stream on an error.
func (n *Node) serve(proto string, perPeer int, f func(from wire.PeerID, s network.Stream) error) {
	var mu sync.Mutex
	open := map[wire.PeerID]int{}
	take := func(p wire.PeerID, d int) bool {
		mu.Lock()
		defer mu.Unlock()
		if open[p]+d > perPeer {
			return false
		}
		if open[p] += d; open[p] == 0 {
			delete(open, p)
		}
		return true
	}
	n.host.SetStreamHandler(protocol.ID(proto), func(s network.Stream) {
		from, err := fromLibp2p(s.Conn().RemotePeer())
		if err != nil || !n.enter() {
			s.Reset()
			return
		}
		defer n.streams.Done()
		if !take(from, 1) {
			s.Reset()
			return
		}
		defer take(from, -1)
		n.handled(proto, from, s, guard(func() error { return f(from, s) }))
	})
}

// guard turns a panic of f into an error.
func guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("handler panicked: %v", r)
		}
	}()
	return f()
}

// handled ends a stream after its handler.
func (n *Node) handled(proto string, from wire.PeerID, s network.Stream, err error) {
	switch {
	case err == nil || errors.Is(err, io.EOF):
		s.Close()
		return
	case errors.Is(err, errAbuse):
		n.gate.blame(s.Conn().RemotePeer(), time.Now())
	}
	s.Reset()
	n.log.Debug("stream ended early", "proto", proto, "peer", from.String(), "err", err)
}

// enter counts a stream handler in, unless the node is closed.
func (n *Node) enter() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	n.streams.Add(1)
	return true
}

// Blame notes that p broke the rules in a way that only the caller can see.
// Enough of it in a short time disconnects p and keeps it out for a while.
func (n *Node) Blame(p wire.PeerID) { n.gate.blame(toLibp2p(p), time.Now()) }

// Connected reports whether p has a direct connection.
func (n *Node) Connected(p wire.PeerID) bool {
	return n.host.Network().Connectedness(toLibp2p(p)) == network.Connected
}

// ID returns this peer.
func (n *Node) ID() wire.PeerID { return n.self }

// Addrs returns the addresses where others reach this node, with /p2p/ID.
func (n *Node) Addrs() []string {
	var out []string
	for _, a := range n.host.Addrs() {
		out = append(out, a.String()+"/p2p/"+n.self.String())
	}
	return out
}

// PeerInfo is one connected peer.
type PeerInfo struct {
	ID        wire.PeerID
	Addr      string // of the oldest connection
	Transport string // tcp, quic or relay
	Inbound   bool
	Since     time.Time
	Agent     string
}

// Peers returns the connected peers in peer-id order.
func (n *Node) Peers() []PeerInfo {
	var out []PeerInfo
	for _, p := range n.host.Network().Peers() {
		id, err := fromLibp2p(p)
		cs := n.host.Network().ConnsToPeer(p)
		if err != nil || len(cs) == 0 {
			continue
		}
		st := cs[0].Stat()
		info := PeerInfo{ID: id, Addr: cs[0].RemoteMultiaddr().String(), Transport: kind(cs[0].RemoteMultiaddr()), Inbound: st.Direction == network.DirInbound, Since: st.Opened}
		if v, err := n.host.Peerstore().Get(p, "AgentVersion"); err == nil {
			info.Agent, _ = v.(string)
			info.Agent = info.Agent[:min(len(info.Agent), 64)]
		}
		out = append(out, info)
	}
	slices.SortFunc(out, func(a, b PeerInfo) int { return a.ID.Compare(b.ID) })
	return out
}

// Traffic is bytes since New.
type Traffic struct{ In, Out uint64 }

// Counters are the bytes of streams, before encryption; they lag by about a
// second.
type Counters struct {
	Traffic
	Protocols map[string]Traffic
}

// Bytes returns the traffic so far.
func (n *Node) Bytes() Counters {
	t := n.bytes.GetBandwidthTotals()
	c := Counters{Traffic{uint64(t.TotalIn), uint64(t.TotalOut)}, map[string]Traffic{}}
	for p, s := range n.bytes.GetBandwidthByProtocol() {
		c.Protocols[string(p)] = Traffic{uint64(s.TotalIn), uint64(s.TotalOut)}
	}
	return c
}
