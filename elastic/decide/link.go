package decide

import (
	"slices"
	"time"

	"github.com/apiary-net/hived/wire"
)

// link is the connection with one peer.
type link struct {
	up bool
	// down is since when a peer that a round may wait for is not connected. It is zero
	// while the peer is, or while nobody waits for it.
	down time.Time
	// away is the newest round in which the peer was down; its work of that round may be
	// lost. Rounds count from 1.
	away uint64
}

// links are all connections that were heard of.
type links struct {
	by   map[wire.PeerID]link
	down []wire.PeerID // those that are down, in no order
	away uint64        // the newest round in which anybody was
}

func newLinks() links { return links{by: map[wire.PeerID]link{}} }

func (ls *links) set(p wire.PeerID, l link) {
	ls.away = max(ls.away, l.away)
	was, is := !ls.by[p].down.IsZero(), !l.down.IsZero()
	if was && !is {
		ls.down = slices.DeleteFunc(ls.down, func(o wire.PeerID) bool { return o == p })
	}
	if is && !was {
		ls.down = append(ls.down, p)
	}
	ls.by[p] = l
}

// connected books that a connection came up.
func (ls *links) connected(p wire.PeerID) { ls.set(p, link{up: true, away: ls.by[p].away}) }

// lost books that a connection went down, in a round whose peers may wait for it.
func (ls *links) lost(p wire.PeerID, now time.Time, round uint64, waitedFor bool) {
	l := ls.by[p]
	l.up = false
	if l.down.IsZero() && waitedFor {
		l.down, l.away = now, round
	}
	ls.set(p, l)
}

// turn books that a round begins: who is down and still waited for is away in it, the
// others are nobody's concern any more.
func (ls *links) turn(round uint64, waitedFor func(wire.PeerID) bool) {
	for _, p := range slices.Clone(ls.down) { // the order leaves no trace
		l := ls.by[p]
		if waitedFor(p) {
			l.away = round
		} else {
			l.down = time.Time{}
		}
		ls.set(p, l)
	}
}

// goneAt calls f with the moments at which peers that are down are gone.
func (ls *links) goneAt(after time.Duration, f func(time.Time)) {
	for _, p := range ls.down {
		f(ls.by[p].down.Add(after))
	}
}

// isDown reports whether p is known to be not connected.
func (m *Machine) isDown(p wire.PeerID) bool { return !m.links.by[p].down.IsZero() }

// isGone reports whether p has been disconnected for a while.
func (m *Machine) isGone(p wire.PeerID, now time.Time) bool {
	l := m.links.by[p]
	return !l.down.IsZero() && !now.Before(l.down.Add(m.cfg.GoneAfter))
}

// wasAway reports whether p was disconnected for a while in the open round.
func (m *Machine) wasAway(p wire.PeerID) bool {
	return m.round.plan != nil && m.links.by[p].away == m.round.plan.Round
}
