package gossip

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/apiary-net/hived/wire"
)

// Protocols of this package. Those of Handle are the caller's.
const (
	ProtoBlocks = "/hived/blocks/1"
	ProtoPull   = "/hived/pull/1"
	ProtoPeers  = "/hived/peers/1"
	ProtoMesh   = "/hived/mesh/1"
)

// Bounds on what a peer may ask or answer.
const (
	MaxPullRequest = 64 << 10
	MaxPullAnswer  = 12 << 20
	MaxDirect      = 4 << 20 // one message of Send
	fetchWindow    = 8       // blocks asked of one holder and not yet answered
	maxFetch       = 1 << 16 // blocks of one Fetch
	inboxLen       = 1024
)

// Errors that callers test for.
var (
	// ErrTooBig is returned for a message above its protocol's limit, before
	// anything is sent.
	ErrTooBig = errors.New("message is too big")
	// ErrUnreachable is returned when a peer cannot be connected.
	ErrUnreachable = errors.New("peer cannot be reached")
	// ErrBusy is a peer's answer when it serves too many others, and Publish's
	// when this node's own queue is full.
	ErrBusy = errors.New("peer is busy")
	// ErrRefused is a peer's answer when it will not serve the request.
	ErrRefused = errors.New("peer refused the request")
	// ErrWrongBlock means that a holder sent bytes that are not the block.
	ErrWrongBlock = errors.New("block does not have its hash")
)

// BlockSource answers what peers ask for. It decides who may have what: a block
// of a round whose header the asker has not shown yet is fs.ErrPermission, an
// unknown one fs.ErrNotExist; both reach the asker as such. It is called
// concurrently, and its bytes are not changed.
type BlockSource interface {
	Block(asker wire.PeerID, id wire.CID) ([]byte, error)
}

// Config is how a Node behaves.
type Config struct {
	// Key is this peer's identity.
	Key wire.Key
	// Listen holds multiaddrs, TCP and QUIC; none means any free TCP and QUIC
	// port on all interfaces.
	Listen []string
	// Bootstrap holds multiaddrs with /p2p/ID. This peer's own are skipped.
	Bootstrap []string
	// MDNS finds peers in the local network.
	MDNS bool
	// CacheFile keeps the addresses of peers over restarts; empty keeps none.
	CacheFile string
	// Allow says who may connect; nil lets everybody. It is asked on every
	// connection and must not block.
	Allow func(wire.PeerID) bool
	// MaxPeers is how many connections are kept: 1 to 1024, default 128.
	MaxPeers int
	// Degree is how many peers are dialled without need: 1 to MaxPeers, default
	// 32 or MaxPeers. Others are dialled when something is sent to them.
	Degree int
	// NAT asks the router for a port and punches holes with the bootstrap peers
	// as relays. No body goes over a relay.
	NAT bool
	// RelayService lets peers behind NAT use this one as their relay.
	RelayService bool
	// Agent is what this peer calls itself, at most 64 bytes.
	Agent string
	// Serve answers ProtoBlocks; nil refuses all.
	Serve BlockSource
	// Pull answers a pull of round state with at most MaxPullAnswer bytes; nil
	// refuses all. It is called concurrently.
	Pull func(from wire.PeerID, req []byte) ([]byte, error)
	// RedialMax bounds the wait between two tries of one peer while it is
	// needed: default 10 s.
	RedialMax time.Duration
	// StreamTimeout bounds the wait for the next byte of an exchange in
	// progress, and the time of a dial: default 10 s.
	StreamTimeout time.Duration
	// BanFor is how long a peer that broke the rules stays out: default 10 min.
	BanFor time.Duration
	// ListenUDP opens the sockets of QUIC; nil asks the system. Packets then leave
	// from the address that was listened on, and no route is looked up. A simulated
	// network gives another one.
	ListenUDP func(local *net.UDPAddr) (net.PacketConn, error)
	// Logger may be nil.
	Logger *slog.Logger
}

// Validate reports the first bad field.
func (c Config) Validate() error {
	if len(c.Key.Private()) == 0 {
		return errors.New("config has no key")
	}
	if c.MaxPeers < 0 || c.MaxPeers > 1024 {
		return fmt.Errorf("max peers %d, want 1 to 1024", c.MaxPeers)
	}
	if c.Degree < 0 || c.MaxPeers > 0 && c.Degree > c.MaxPeers {
		return fmt.Errorf("degree %d, want 1 to %d", c.Degree, c.MaxPeers)
	}
	if len(c.Agent) > 64 {
		return fmt.Errorf("agent of %d bytes, limit 64", len(c.Agent))
	}
	if c.RedialMax < 0 || c.StreamTimeout < 0 || c.BanFor < 0 {
		return errors.New("a duration is negative")
	}
	for _, s := range c.Listen {
		if _, err := ma.NewMultiaddr(s); err != nil {
			return fmt.Errorf("listen address %q: %w", s, err)
		}
	}
	for _, s := range c.Bootstrap {
		if _, _, err := parseAddr(s); err != nil {
			return fmt.Errorf("bootstrap address %q: %w", s, err)
		}
	}
	return nil
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&c.RedialMax, 10*time.Second)
	set(&c.StreamTimeout, 10*time.Second)
	set(&c.BanFor, 10*time.Minute)
	if c.MaxPeers == 0 {
		c.MaxPeers = 128
	}
	if c.Degree == 0 {
		c.Degree = min(32, c.MaxPeers)
	}
	if len(c.Listen) == 0 {
		c.Listen = []string{"/ip4/0.0.0.0/tcp/0", "/ip4/0.0.0.0/udp/0/quic-v1"}
	}
	if c.Agent == "" {
		c.Agent = "hived"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// parseAddr splits a multiaddr with /p2p/ID.
func parseAddr(s string) (wire.PeerID, ma.Multiaddr, error) {
	a, err := ma.NewMultiaddr(s)
	if err != nil {
		return wire.PeerID{}, nil, err
	}
	info, err := peer.AddrInfoFromP2pAddr(a)
	if err != nil {
		return wire.PeerID{}, nil, fmt.Errorf("want it to end in /p2p/ID: %w", err)
	}
	if len(info.Addrs) != 1 {
		return wire.PeerID{}, nil, errors.New("no address before /p2p/ID")
	}
	id, err := fromLibp2p(info.ID)
	return id, info.Addrs[0], err
}

func fromLibp2p(p peer.ID) (wire.PeerID, error) { return wire.PeerFromLibp2p([]byte(p)) }

func toLibp2p(p wire.PeerID) peer.ID { return peer.ID(p.Libp2p()) }
