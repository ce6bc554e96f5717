package gossip

import (
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/metrics"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
	"github.com/libp2p/go-libp2p/p2p/net/connmgr"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	tls "github.com/libp2p/go-libp2p/p2p/security/tls"
	quic "github.com/libp2p/go-libp2p/p2p/transport/quic"
	"github.com/libp2p/go-libp2p/p2p/transport/quicreuse"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
)

// newHost opens the sockets. Transports are listed, so that WebSocket,
// WebTransport and WebRTC are never on. TLS comes first because it is 1.4 times
// as fast as Noise; Noise stays for machines whose clock is wrong, on which
// certificates fail.
func newHost(cfg Config, g *gater, bytes metrics.Reporter) (host.Host, error) {
	key, err := crypto.UnmarshalEd25519PrivateKey(cfg.Key.Private())
	if err != nil {
		return nil, fmt.Errorf("load key: %w", err)
	}
	limits, err := newLimits(cfg)
	if err != nil {
		return nil, fmt.Errorf("make limits: %w", err)
	}
	conns, err := connmgr.NewConnManager(cfg.MaxPeers, cfg.MaxPeers+cfg.MaxPeers/4+1, connmgr.WithGracePeriod(20*time.Second))
	if err != nil {
		return nil, fmt.Errorf("make connection manager: %w", err)
	}
	opts := []libp2p.Option{
		libp2p.Identity(key),
		libp2p.ListenAddrStrings(cfg.Listen...),
		libp2p.Transport(tcp.NewTCPTransport),
		libp2p.Transport(quic.NewTransport),
		libp2p.Security(tls.ID, tls.New),
		libp2p.Security(noise.ID, noise.New),
		libp2p.ConnectionGater(g),
		libp2p.ConnectionManager(conns),
		libp2p.ResourceManager(limits),
		libp2p.BandwidthReporter(bytes),
		libp2p.UserAgent(cfg.Agent),
		libp2p.ProtocolVersion("hived/1"),
		libp2p.SwarmOpts(swarm.WithDialRanker(rankAddrs), swarm.WithDialTimeout(cfg.StreamTimeout)),
		libp2p.DisableMetrics(),
		libp2p.Ping(false),
	}
	opts = append(opts, natOptions(cfg)...)
	var own *ownSockets
	if cfg.ListenUDP != nil {
		own = &ownSockets{listen: cfg.ListenUDP}
		opts = append(opts, libp2p.QUICReuse(quicreuse.NewConnManager, own.options()...))
	}
	h, err := libp2p.New(opts...)
	if err != nil {
		return nil, fmt.Errorf("open host on %v: %w", cfg.Listen, errors.Join(err, own.Close()))
	}
	if own != nil {
		own.Host = h
		return own, nil
	}
	return h, nil
}

func natOptions(cfg Config) []libp2p.Option {
	var opts []libp2p.Option
	if cfg.NAT {
		var relays []peer.AddrInfo
		for _, s := range cfg.Bootstrap {
			if id, a, err := parseAddr(s); err == nil && id != cfg.Key.Peer() {
				relays = append(relays, peer.AddrInfo{ID: toLibp2p(id), Addrs: []ma.Multiaddr{a}})
			}
		}
		opts = append(opts, libp2p.NATPortMap(), libp2p.EnableHolePunching(), libp2p.EnableAutoNATv2())
		if len(relays) > 0 {
			opts = append(opts, libp2p.EnableAutoRelayWithStaticRelays(relays))
		}
	}
	if cfg.RelayService {
		opts = append(opts, libp2p.EnableRelayService(), libp2p.EnableNATService())
	}
	if !cfg.NAT && !cfg.RelayService {
		opts = append(opts, libp2p.DisableRelay(), libp2p.DisableIdentifyAddressDiscovery())
	}
	return opts
}

// newLimits is libp2p's scaled set with our protocols added, and room for some
// peers behind one address. A field that is zero would block all.
func newLimits(cfg Config) (network.ResourceManager, error) {
	l := rcmgr.DefaultLimits
	libp2p.SetDefaultServiceLimits(&l)
	for _, p := range []struct {
		id      protocol.ID
		streams int
		memory  int64
	}{{ProtoBlocks, 256, 256 << 20}, {ProtoPull, 128, 64 << 20}, {ProtoPeers, 64, 8 << 20}, {ProtoMesh, 4096, 256 << 20}} {
		l.AddProtocolLimit(p.id,
			rcmgr.BaseLimit{Streams: 2 * p.streams, StreamsInbound: p.streams, StreamsOutbound: p.streams, Memory: p.memory},
			rcmgr.BaseLimitIncrease{})
		l.AddProtocolPeerLimit(p.id,
			rcmgr.BaseLimit{Streams: 16, StreamsInbound: 8, StreamsOutbound: 8, Memory: 32 << 20},
			rcmgr.BaseLimitIncrease{})
	}
	per := []rcmgr.ConnLimitPerSubnet{{PrefixLength: 32, ConnCount: 64}}
	per6 := []rcmgr.ConnLimitPerSubnet{{PrefixLength: 56, ConnCount: 64}}
	return rcmgr.NewResourceManager(rcmgr.NewFixedLimiter(l.AutoScale()), rcmgr.WithMetricsDisabled(), rcmgr.WithLimitPerSubnet(per, per6))
}

// rankAddrs dials TCP at once, since it costs a third of QUIC's CPU per byte,
// then QUIC, then relays.
func rankAddrs(addrs []ma.Multiaddr) []network.AddrDelay {
	out := make([]network.AddrDelay, 0, len(addrs))
	for i, a := range addrs {
		d := time.Duration(min(i, 8)) * 20 * time.Millisecond
		switch kind(a) {
		case "quic":
			d += 250 * time.Millisecond
		case "relay":
			d += time.Second
		}
		out = append(out, network.AddrDelay{Addr: a, Delay: d})
	}
	return out
}

// kind names the transport of an address: tcp, quic or relay.
func kind(a ma.Multiaddr) string {
	k := "tcp"
	ma.ForEach(a, func(c ma.Component) bool {
		switch c.Protocol().Code {
		case ma.P_CIRCUIT:
			k = "relay"
			return false
		case ma.P_QUIC_V1:
			k = "quic"
		}
		return true
	})
	return k
}
