package decide

import (
	"slices"
	"time"

	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/wire"
)

// Whom a round waits for, and how long.

// awaited reports whether this peer still waits for p: not once p has been
// disconnected for a while, and not for long after it was away in this round: it
// may have lost its work, and begin it anew.
func (m *Machine) awaited(p wire.PeerID, now time.Time) bool {
	l := m.work()
	switch {
	case l.resolved(source{peer: p}), m.isGone(p, now):
		return false
	case m.wasAway(p) && len(l.of[source{peer: p}]) == 0:
		return now.Before(m.learnt.Add(m.typical()))
	}
	return true
}

// typical is when a peer that began with the round should be done: as the plan says,
// and in a round that no arrival was recorded before, a quarter later than this
// peer was done itself.
func (m *Machine) typical() time.Duration {
	t := m.round.plan.Typical
	if mine := m.work().of[source{peer: m.cfg.Self}]; len(mine) > 0 && t >= m.maxDeadline() {
		took := time.Duration(mine[0].item.Ms) * time.Millisecond
		return min(t, took+took/4)
	}
	return t
}

func (m *Machine) maxDeadline() time.Duration {
	return time.Duration(m.cfg.Genesis.Deadline.MaxMs) * time.Millisecond
}

// waits reports whether this peer waits for any of some peers before it says what it
// holds. Who came late takes the word of more than a third of the weight for whom to
// wait: it is given no bodies before it has work of its own, perhaps not before the
// deadline, and the others may need its word for a quorum.
func (m *Machine) waits(now time.Time, l *level, peers []wire.PeerID) bool {
	open := func(p wire.PeerID) bool { return m.awaited(p, now) }
	// The own work comes last as a rule, so it is looked at first.
	if !(slices.Contains(peers, m.cfg.Self) && open(m.cfg.Self)) && !slices.ContainsFunc(peers, open) {
		return false
	}
	preset := m.cfg.Genesis.Preset
	if l.kind != wire.KindHave || !m.round.late || preset.Reduced() || preset.Cadence.Window || !l.table.More(l.haves.weight(l.table)) {
		return true
	}
	known, whole := l.haves.count(l.table)
	for d, weight := range known {
		if l.by[d] == nil && l.table.More(weight) {
			return true // it is on its way to here
		}
	}
	return slices.ContainsFunc(peers, func(p wire.PeerID) bool {
		mine := l.of[source{peer: p}]
		return len(mine) > 0 && open(p) && !l.table.More(whole[mine[0].item.Header])
	})
}

// observers returns the voters without a part in the open round, once all who have one
// have committed or are gone: nobody is left then who could copy what they are given,
// and the others may need their word for a quorum.
func (m *Machine) observers(now time.Time) []wire.PeerID {
	plan := m.round.plan
	if plan == nil || m.grouped() {
		return nil
	}
	var out []wire.PeerID
	for _, v := range m.Head().Table {
		if plan.Share(v.Peer) == nil {
			out = append(out, v.Peer)
		}
	}
	if len(out) == 0 || slices.ContainsFunc(plan.Shares, func(s rules.Share) bool { return !m.holdsHeaderOf(s.Peer) && !m.isGone(s.Peer, now) }) {
		return nil
	}
	return out
}

// mayFetch reports whether others may show this peer bodies of the open round: to who
// has committed, to everybody after the deadline, and in a round of one group to who
// has no part in it, once all others have committed, or came late, as the others'
// deadline is before its own.
func (m *Machine) mayFetch(now time.Time) bool {
	return m.holdsHeaderOf(m.cfg.Self) || m.overdue(now) ||
		!m.grouped() && (m.round.late || m.round.plan.Share(m.cfg.Self) == nil)
}
