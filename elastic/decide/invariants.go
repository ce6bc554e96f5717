package decide

import (
	"slices"

	"github.com/apiary-net/hived/wire"
	"github.com/apiary-net/hived/wire/invariants"
)

// check panics if what holds after every Step does not. It is called only where
// invariants are on.
func (m *Machine) check() {
	invariants.Check(len(m.ahead) <= maxAhead, "decide: %d statements are held for later, limit %d", len(m.ahead), maxAhead)
	m.links.check()
	for _, l := range m.levels() {
		l.check()
	}
	head := m.Head()
	if head == nil {
		invariants.Check(m.applied == 0 && m.round.plan == nil, "decide: version %d, and a plan %v, before the start record", m.applied, m.round.plan)
		return
	}
	for i, r := range m.h[1:] {
		before := m.h[i]
		invariants.Check(r.Round == before.Round+1 && r.Prev == before.Digest(), "decide: record %d follows record %d in the history, after %s not %s",
			r.Round, before.Round, r.Prev.Short(), before.Digest().Short())
	}
	invariants.Check(m.applied <= head.Round, "decide: version %d is here, the head is record %d", m.applied, head.Round)
	invariants.Check(head.Last == (m.round.plan == nil), "decide: record %d (last: %v) is the head, the plan of a round after it is %v", head.Round, head.Last, m.round.plan)
	if p := m.round.plan; p != nil {
		invariants.Check(p.Round == head.Round+1, "decide: round %d is planned after record %d", p.Round, head.Round)
	}
	if p := m.round.proposal; p != nil {
		invariants.Check(m.round.proposals[p.Digest()] == p && p.Prev == head.Digest(), "decide: the leader's proposal %s of record %d does not follow the head %s",
			p.Digest().Short(), p.Round, head.Digest().Short())
	}
}

// check panics if a level's three views of its offers differ, or the state of an
// offer fell.
func (l *level) check() {
	sorted := slices.IsSortedFunc(l.order, inOrder)
	invariants.Check(sorted && len(l.by) == len(l.order), "decide: %d offers of a %s are listed (in order: %v), %d are known by digest", len(l.order), l.kind, sorted, len(l.by))
	for _, o := range l.order {
		invariants.Check(l.by[o.item.Header] == o && slices.Contains(l.of[o.source()], o), "decide: offer %s of a %s is listed, and not found by digest or source", o.item.Header.Short(), l.kind)
		invariants.Check(o.item.State == o.was || o.was <= wire.HaveSeen && o.item.State > o.was, "decide: offer %s of a %s falls from state %d to %d",
			o.item.Header.Short(), l.kind, o.was, o.item.State)
		o.was = o.item.State
	}
	mine := 0
	for s, of := range l.of {
		invariants.Check(len(of) <= offersOfOne, "decide: %d offers of peer %s or group %d, limit %d", len(of), s.peer.Short(), s.group, offersOfOne)
		mine += len(of)
	}
	invariants.Check(mine == len(l.order), "decide: %d offers of a %s are listed, %d by source", len(l.order), l.kind, mine)
}

// check panics if the number of links that are down is not their number.
func (ls *links) check() {
	downs := 0
	for _, l := range ls.by {
		if !l.down.IsZero() {
			downs++
		}
		invariants.Check(!l.up || l.down.IsZero(), "decide: a link is up, and down since %v", l.down)
		invariants.Check(l.away <= ls.away, "decide: a peer was away in round %d, the newest such round is %d", l.away, ls.away)
	}
	invariants.Check(downs == len(ls.down), "decide: %d links are down, %d are listed", downs, len(ls.down))
}
