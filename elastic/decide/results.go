package decide

import (
	"slices"
	"time"

	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/wire"
)

// hearResult takes a group's result. Voters keep it; members of the group learn
// that nothing more is to be done.
func (m *Machine) hearResult(e wire.Envelope) {
	g := m.round.group
	read, err := wire.Read[wire.GroupResult](e)
	if err != nil || int(read.Outcome.Group) >= len(m.round.plan.Groups) {
		return
	}
	if _, member := slices.BinarySearchFunc(m.round.plan.Groups[read.Outcome.Group], e.Sender, wire.PeerID.Compare); !member {
		return
	}
	own := g != nil && int(read.Outcome.Group) == g.index
	l := m.round.voters
	if !own && l.table.Of(m.cfg.Self) == 0 {
		return
	}
	o := &offer{env: e, result: read, item: wire.HaveItem{Header: read.Outcome.Digest(), State: wire.HaveSeen}}
	if l.full(o.item.Header, o.source()) || rules.CheckGroupResult(m.cfg.Run, m.round.plan, read) != nil {
		return
	}
	if read.Outcome.Merged.IsZero() { // nothing counts: nothing is to be fetched
		o.item.State = wire.HaveWhole
	}
	l.add(o)
	if own {
		g.known = true
	}
}

// resultsBy returns until when voters wait for results: groups exchange until the
// round's deadline, and have then some time to merge and vote.
func (m *Machine) resultsBy() time.Time {
	d := m.round.plan.Deadline
	return m.learnt.Add(d + max(2*m.cfg.ProposalTimeout, d/2))
}

// awaitsGroup reports whether a group's result is not here yet but can still come:
// two thirds of its members are needed. Past the round's typical time it does not wait
// for who was away, who begins its work anew, nor for who is not connected: a voter
// that came back in mid-round cannot know who is gone.
func (m *Machine) awaitsGroup(now time.Time) bool {
	over := !now.Before(m.learnt.Add(m.typical()))
	for i, members := range m.round.plan.Groups {
		if m.round.voters.resolved(source{group: uint32(i) + 1}) {
			continue
		}
		up := 0
		for _, p := range members {
			there := !m.isGone(p, now)
			if over {
				there = p == m.cfg.Self || m.links.by[p].up && !m.wasAway(p)
			}
			if there {
				up++
			}
		}
		if 3*up >= 2*len(members) {
			return true
		}
	}
	return false
}
