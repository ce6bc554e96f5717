package gossip

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/discovery/mdns"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/apiary-net/hived/wire"
)

const (
	askEvery    = 30 * time.Second
	mdnsService = "_hived._udp"
)

// parseTold reads an answer; addresses that are none are left out.
func parseTold(b []byte) (map[wire.PeerID][]ma.Multiaddr, error) {
	ts, err := wire.OpenPeerList(b)
	if err != nil {
		return nil, err
	}
	out := map[wire.PeerID][]ma.Multiaddr{}
	for _, t := range ts {
		if addrs := parseAddrs(t.Addrs); len(addrs) > 0 {
			out[t.Peer] = addrs
		}
	}
	return out, nil
}

// servePeers answers with up to 64 connected peers in random order.
func (n *Node) servePeers(from wire.PeerID, s network.Stream) error {
	var ts wire.PeerList
	for _, p := range n.host.Network().Peers() {
		id, err := fromLibp2p(p)
		if err != nil || id == from {
			continue
		}
		t := wire.PeerAddrs{Peer: id}
		for _, a := range n.listenAddrs(p) {
			t.Addrs = append(t.Addrs, a.String())
		}
		if len(t.Addrs) > 0 {
			ts = append(ts, t)
		}
	}
	rand.Shuffle(len(ts), func(i, j int) { ts[i], ts[j] = ts[j], ts[i] })
	ts = ts[:min(len(ts), wire.MaxTold)]
	if ts == nil {
		ts = wire.PeerList{}
	}
	b := wire.Marshal(ts)
	if len(b) > wire.MaxPeerList {
		b = wire.Marshal(ts[:len(ts)/4])
	}
	return writeFrame(s, b, n.cfg.StreamTimeout)
}

// listenAddrs returns the direct addresses that a connected peer listens on, as
// identify told.
func (n *Node) listenAddrs(p peer.ID) []ma.Multiaddr {
	var out []ma.Multiaddr
	for _, a := range n.host.Peerstore().Addrs(p) {
		if len(out) < maxAddrs && len(a.Bytes()) <= maxAddrBytes && kind(a) != "relay" {
			out = append(out, a)
		}
	}
	return out
}

// refreshBook notes the addresses of all connected peers.
func (n *Node) refreshBook() {
	now := time.Now()
	for _, p := range n.host.Network().Peers() {
		if id, err := fromLibp2p(p); err == nil {
			n.book.learn(id, n.listenAddrs(p), now)
		}
	}
}

// askLoop asks every new peer, and now and then a random one, for its peers:
// two islands that share one link become one swarm.
func (n *Node) askLoop(ctx context.Context) error {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		var p peer.ID
		select {
		case <-ctx.Done():
			return ctx.Err()
		case p = <-n.fresh:
		case <-tick.C:
			ps := n.host.Network().Peers()
			if len(ps) == 0 {
				continue
			}
			p = ps[rand.IntN(len(ps))]
		}
		if err := n.ask(ctx, p); err != nil && ctx.Err() == nil {
			n.log.Debug("ask for peers", "peer", p.String(), "err", err)
		}
		n.refreshBook()
		n.nudge()
	}
}

func (n *Node) ask(ctx context.Context, p peer.ID) error {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.StreamTimeout)
	defer cancel()
	s, err := n.host.NewStream(network.WithNoDial(ctx, "ask for peers"), p, protocol.ID(ProtoPeers))
	if err != nil {
		return err
	}
	defer s.Reset()
	defer context.AfterFunc(ctx, func() { s.Reset() })()
	b, release, err := readFrame(s, wire.MaxPeerList, n.cfg.StreamTimeout, n.cfg.StreamTimeout)
	if err != nil {
		return err
	}
	defer release()
	peers, err := parseTold(b)
	if err != nil {
		n.gate.blame(p, time.Now())
		return err
	}
	for id, addrs := range peers {
		if n.gate.permits(toLibp2p(id)) {
			n.book.hear(id, addrs)
		}
	}
	return nil
}

// hear notes what others say of a peer: it does not push out what the peer
// itself said.
func (b *book) hear(id wire.PeerID, addrs []ma.Multiaddr) {
	b.mu.Lock()
	c := b.peers[id]
	known := c != nil && (c.up || len(c.addrs) >= maxAddrs)
	b.mu.Unlock()
	if !known {
		b.learn(id, addrs, time.Time{})
	}
}

// listenMDNS announces this peer in the local network and notes who else is
// there.
func (n *Node) listenMDNS(ctx context.Context) error {
	s := mdns.NewMdnsService(n.host, mdnsService, mdnsFound{n})
	if err := s.Start(); err != nil {
		// A machine without multicast still has its bootstrap peers.
		n.log.Warn("local discovery does not work here", "err", err)
		return nil
	}
	<-ctx.Done()
	return s.Close()
}

type mdnsFound struct{ n *Node }

// HandlePeerFound implements mdns.Notifee.
func (m mdnsFound) HandlePeerFound(info peer.AddrInfo) {
	id, err := fromLibp2p(info.ID)
	if err != nil || !m.n.gate.permits(info.ID) {
		return
	}
	m.n.book.hear(id, info.Addrs[:min(len(info.Addrs), maxAddrs)])
	m.n.nudge()
}
