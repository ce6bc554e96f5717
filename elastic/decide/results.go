package decide

import (
	"cmp"
	"slices"
	"time"

	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/wire"
)

// result is a group's result as a voter knows it.
type result struct {
	wire.GroupResult
	env   wire.Envelope
	item  wire.HaveItem
	asked bool
}

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
	r := result{env: e, GroupResult: *read}
	own := g != nil && int(r.Outcome.Group) == g.index
	if !own && m.Head().Table.Of(m.cfg.Self) == 0 {
		return
	}
	d := r.Outcome.Digest()
	same := 0
	for _, o := range m.round.results {
		if o.Outcome.Group == r.Outcome.Group {
			same++
		}
	}
	if m.round.results[d] != nil || same >= resultsOfOne || rules.CheckGroupResult(m.cfg.Run, m.round.plan, &r.GroupResult) != nil {
		return
	}
	r.item = wire.HaveItem{Header: d, State: wire.HaveSeen}
	m.round.results[d] = &r
	at, _ := slices.BinarySearchFunc(m.round.byGroup, &r, resultOrder)
	m.round.byGroup = slices.Insert(m.round.byGroup, at, &r)
	m.round.haves.changed = true
	if own {
		g.known = true
	}
}

// resultOrder is by group, then by outcome.
func resultOrder(a, b *result) int {
	return cmp.Or(cmp.Compare(a.Outcome.Group, b.Outcome.Group), a.item.Header.Compare(b.item.Header))
}

// fetchResults asks for what groups merged.
func (m *Machine) fetchResults() []Command {
	if m.Head().Table.Of(m.cfg.Self) == 0 {
		return nil
	}
	var out []Command
	for _, r := range m.round.byGroup {
		if r.item.State != wire.HaveSeen || r.asked {
			continue
		}
		r.asked = true
		if r.Outcome.Merged.IsZero() { // nothing counts: nothing to fetch
			r.item.State = wire.HaveWhole
			m.round.haves.changed = true
			continue
		}
		out = append(out, FetchGroup{Round: m.round.plan.Round, Outcome: &r.Outcome, Members: m.round.plan.Groups[r.Outcome.Group]})
	}
	return out
}

// checkedResult books the end of a result's fetch.
func (m *Machine) checkedResult(now time.Time, r *result, ev BodyChecked) {
	m.round.haves.changed = true
	if r.item.State == wire.HaveSeen && !m.found(now, &r.item, ev) {
		r.asked = false // not to be had yet: ask again
	}
}

// resultHave says which results this voter holds: when nothing is awaited any
// more, or when the groups' time is over.
func (m *Machine) resultHave(now time.Time) []Command {
	if m.Head().Table.Of(m.cfg.Self) == 0 || now.Before(m.resultsBy()) && m.awaitsGroup(now) {
		return nil
	}
	return m.sayHave(now, wire.KindHave, m.round.haves, func() []wire.HaveItem {
		items := []wire.HaveItem{}
		for _, r := range m.round.byGroup {
			items = append(items, r.item)
		}
		return items[:min(len(items), 2*wire.MaxGroups)]
	})
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
	done := make([]bool, len(m.round.plan.Groups))
	for _, r := range m.round.byGroup {
		if r.item.State != wire.HaveSeen {
			done[r.Outcome.Group] = true
		}
	}
	over := !now.Before(m.learnt.Add(m.typical()))
	for i, members := range m.round.plan.Groups {
		if done[i] {
			continue
		}
		up := 0
		for _, p := range members {
			there := !m.isGone(p, now)
			if over {
				there = p == m.cfg.Self || m.linked[p] && !m.round.away[p]
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
