package gossip

import (
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/control"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/apiary-net/hived/wire"
)

// Offences: one that heals with time, and what leads to a ban.
const (
	banAbove    = 3 // so four at once, as many as graylist a peer on a topic
	healEvery   = 10 * time.Second
	maxOffences = 4096
)

// gater decides who may be connected: those that Allow lets and that are not
// banned. It implements connmgr.ConnectionGater.
type gater struct {
	allow  func(wire.PeerID) bool
	banFor time.Duration

	mu   sync.Mutex
	bad  map[peer.ID]offence // guarded by mu; at most maxOffences
	bans chan peer.ID        // to Run, which disconnects; full means Run has enough to do
}

type offence struct {
	count float64
	at    time.Time // of count
	until time.Time // end of the ban, or zero
}

func newGater(cfg Config) *gater {
	return &gater{allow: cfg.Allow, banFor: cfg.BanFor, bad: map[peer.ID]offence{}, bans: make(chan peer.ID, 64)}
}

// blame notes one offence of p and bans it if they are too many; it never
// blocks. It reports whether this one led to a ban.
func (g *gater) blame(p peer.ID, now time.Time) bool {
	g.mu.Lock()
	o := g.bad[p]
	if !o.until.IsZero() && now.After(o.until) {
		o = offence{}
	}
	o.count = max(0, o.count-float64(now.Sub(o.at))/float64(healEvery)) + 1
	o.at = now
	banned := o.count > banAbove && o.until.IsZero()
	if banned {
		o.until = now.Add(g.banFor)
	}
	g.bad[p] = o
	if len(g.bad) > maxOffences {
		g.forgetOldest()
	}
	g.mu.Unlock()
	if banned {
		select {
		case g.bans <- p:
		default:
		}
	}
	return banned
}

func (g *gater) forgetOldest() {
	var oldest peer.ID
	for p, o := range g.bad {
		if oldest == "" || o.at.Before(g.bad[oldest].at) {
			oldest = p
		}
	}
	delete(g.bad, oldest)
}

func (g *gater) banned(p peer.ID, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return now.Before(g.bad[p].until)
}

// permits reports whether p may be connected now.
func (g *gater) permits(p peer.ID) bool {
	id, err := fromLibp2p(p)
	if err != nil || g.banned(p, time.Now()) {
		return false
	}
	return g.allow == nil || g.allow(id)
}

func (g *gater) InterceptPeerDial(p peer.ID) bool             { return g.permits(p) }
func (g *gater) InterceptAddrDial(peer.ID, ma.Multiaddr) bool { return true }
func (g *gater) InterceptAccept(network.ConnMultiaddrs) bool  { return true }
func (g *gater) InterceptSecured(_ network.Direction, p peer.ID, _ network.ConnMultiaddrs) bool {
	return g.permits(p)
}

func (g *gater) InterceptUpgraded(c network.Conn) (bool, control.DisconnectReason) {
	return g.permits(c.RemotePeer()), 0 // a ban may have come during the handshake
}
