package decide

import (
	"slices"
	"time"

	"github.com/apiary-net/hived/wire"
	"github.com/apiary-net/hived/wire/invariants"
)

// Step takes one event and returns what is to be done, in order.
func (m *Machine) Step(now time.Time, ev Event) []Command {
	if invariants.On {
		defer m.check()
	}
	switch ev := ev.(type) {
	case Due:
		return m.due(now, ev.Connected)
	case Pulled:
		return m.endPull(now, ev.Peer)
	}
	if _, ok := ev.(Persisted); !ok && m.deciding != nil {
		panic("decide: an event between a decision and its being durable")
	}
	out := m.take(now, ev)
	if m.deciding == nil {
		out = append(out, m.advance(now)...)
	}
	if m.deciding != nil {
		return out
	}
	return append(out, m.after(now, ev)...)
}

// take books an event.
func (m *Machine) take(now time.Time, ev Event) []Command {
	var out []Command
	switch ev := ev.(type) {
	case Heard:
		out = m.hear(now, ev.Env)
	case BodyChecked:
		m.checked(now, ev)
	case Trained:
		out = m.trained(now, ev)
	case TrainFailed:
		if m.round.plan != nil && ev.Round == m.round.plan.Round {
			m.round.trained = false // and is asked for again
		}
	case Decided:
		out = m.decided(now, ev)
	case Started:
		out = m.started(now, ev.Record, ev.Env)
	case Applied:
		out = m.appliedVersion(ev)
	case GroupMerged:
		out = m.mergedGroup(now, ev)
	case Connected:
		m.link(now, ev.Peer, ev.Up)
	case Persisted:
		out = m.persisted(now)
	case Begun:
		out = m.begun(now, ev.Connected)
	case Leaving:
		m.leaving = true
	}
	return out
}

// after returns what follows an event besides the round's own course: who is shown
// the open round's bodies, whose window ends, who is asked, and whether this peer may
// go.
func (m *Machine) after(now time.Time, ev Event) []Command {
	var out []Command
	switch ev := ev.(type) {
	case Connected:
		if ev.Up {
			out = append(out, Rebroadcast{})
			// Rounds of several groups bring many new connections at once.
			if !m.grouped() || now.Sub(m.pulled) >= pullInterval/2 {
				out = append(out, m.pull(now, ev.Peer)...)
			}
		} else if m.round.plan != nil && m.round.plan.Share(ev.Peer) != nil {
			out = append(out, EndWindow{Round: m.round.plan.Round}) // no step can be whole without it
		}
	case Leaving:
		if m.mayGo(ev.Alone) {
			out = append(out, Left{})
		}
	}
	r := &m.round
	if r.plan == nil || r.shown == toAll {
		return out
	}
	if m.overdue(now) {
		r.shown = toAll
		return append(out, ShowAll{})
	}
	if watch := m.observers(now); r.shown == toCommitted && len(watch) > 0 {
		r.shown = toObservers
		out = append(out, ShowTo{watch})
	}
	return out
}

// begun books who is connected as the run begins here, and of the peers of the round
// that an earlier life began who is not yet: who is gone already does not go once
// more.
func (m *Machine) begun(now time.Time, connected []wire.PeerID) []Command {
	out := m.connect()
	for _, p := range connected {
		m.link(now, p, true)
	}
	if m.round.plan == nil {
		return out
	}
	for _, p := range m.exchanging() {
		if p != m.cfg.Self && !slices.Contains(connected, p) {
			m.link(now, p, false)
		}
	}
	return out
}

// link books that a connection came up or went down.
func (m *Machine) link(now time.Time, p wire.PeerID, up bool) {
	if up {
		m.links.connected(p)
		return
	}
	round := uint64(0)
	if m.round.plan != nil {
		round = m.round.plan.Round
	}
	m.links.lost(p, now, round, m.waitedFor(p))
}

// connect asks for the connections of the open round, if it needs some of its own.
func (m *Machine) connect() []Command {
	if need := m.needs(); need != nil {
		return []Command{Connect{need}}
	}
	return nil
}

// mayGo reports whether a record has put this peer to rest and its vote is not needed
// any more, or the run has ended, or nobody is there who could miss it.
func (m *Machine) mayGo(alone bool) bool {
	head := m.Head()
	if head == nil || head.Last || alone {
		return true
	}
	s, ok := head.Seat(m.cfg.Self)
	return (!ok || !s.Active) && m.spared()
}

// spared reports whether the agreement goes on without this peer: a table acts
// some instances after the record that changed it, and until then a leaver may be
// needed.
func (m *Machine) spared() bool {
	table, weight := m.cfg.Voters.Table(m.next), uint64(0)
	for _, s := range m.Head().Roster {
		if s.Active && s.Peer != m.cfg.Self {
			weight += table.Of(s.Peer)
		}
	}
	return table.Of(m.cfg.Self) == 0 || table.Quorum(weight)
}
