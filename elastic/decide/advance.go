package decide

import (
	"slices"
	"time"

	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/wire"
)

// advance issues every command whose time has come and that was not issued yet.
// It reads in the order of a round.
func (m *Machine) advance(now time.Time) []Command {
	var out []Command
	if len(m.h) == 0 {
		return m.begin(now)
	}
	if m.heldBack {
		m.heldBack = false
		out = m.replay(now)
	}
	if m.applied < m.Head().Round && !m.applying && !m.start.IsZero() && m.mayApply(now) {
		m.applying = true
		out = append(out, Apply{Record: m.Head(), Prev: m.prev(), Attested: m.attested(m.Head().Round)})
	}
	if m.Head().Last {
		return slices.Concat(out, m.end(), m.wake(now))
	}
	out = append(out, m.train(now)...)
	out = append(out, m.fetch(now)...)
	out = append(out, m.have(now)...)
	out = append(out, m.member(now)...)
	out = append(out, m.propose(now)...)
	out = append(out, m.instance(now)...)
	return append(out, m.wake(now)...)
}

func (m *Machine) prev() *wire.Record {
	if len(m.h) < 2 {
		return nil
	}
	return m.h[len(m.h)-2]
}

// begin says READY for version 0 and, at the creator, makes the start record.
func (m *Machine) begin(now time.Time) []Command {
	if m.start.IsZero() {
		return nil
	}
	var out []Command
	g := m.cfg.Genesis
	if g.Admission.Admits(m.cfg.Self) && (!m.round.ready || passed(m.round.readyAgain, now)) {
		m.round.ready = true
		out = append(out, m.sayReady(0, m.start, m.recipients(wire.KindReady, now)))
		if g.MinPeers > g.Group { // only the creator was told, and it may be away
			m.round.readyAgain = now.Add(readyAgain)
			out = append(out, Wake{m.round.readyAgain})
		}
	}
	if m.cfg.Self != g.Creator || m.round.proposed || len(m.readys) < int(g.MinPeers) {
		return append(out, m.replay(now)...) // the start record may have come first
	}
	r, err := rules.ComposeStart(g, m.cfg.Run, m.start, m.starters())
	if err != nil {
		return out
	}
	m.round.proposed = true
	return append(out, Say{Kind: wire.KindProposal, Round: 0, Body: r, Slot: Slot("start", 0)})
}

// readyAgain is how often a peer of a large swarm says that it is ready to start.
const readyAgain = 10 * time.Second

// starters returns the READYs of those who start from the version that is here,
// at most as many as there are seats with the creator among them: one peer with another version
// must not keep the others from starting.
func (m *Machine) starters() []wire.Envelope {
	creator := m.cfg.Genesis.Creator
	out := values(m.readys, func(e wire.Envelope) bool {
		r, err := wire.Read[wire.Ready](e)
		return e.Round == 0 && err == nil && r.Version == m.start && m.cfg.Genesis.Admission.Admits(e.Sender)
	})
	for i := 0; len(out) > m.cfg.Genesis.Seats(); {
		if i = len(out) - 1; out[i].Sender == creator {
			i--
		}
		out = slices.Delete(out, i, i+1)
	}
	return out
}

func (m *Machine) sayReady(version uint64, id wire.CID, to []wire.PeerID) Command {
	g := m.cfg.Genesis
	return Say{Kind: wire.KindReady, Round: version, Slot: Slot("ready", version), To: to,
		Body: &wire.Ready{Version: id, Schema: g.Schema, Data: g.Data[0].Root}}
}

// every keeps all values.
func every(wire.Envelope) bool { return true }

// values returns the envelopes of m that keep holds for, by sender.
func values[K comparable](m map[K]wire.Envelope, keep func(wire.Envelope) bool) []wire.Envelope {
	out := make([]wire.Envelope, 0, len(m))
	for _, e := range m {
		if keep(e) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, rules.BySender)
	return out
}

// train starts local work, or says READY where the plan does not know us. Who leaves
// does its work of the open round all the same: the record that puts it to rest ends
// that round, and its group counts on its vote.
func (m *Machine) train(now time.Time) []Command {
	r := &m.round
	if m.applied != m.Head().Round || m.applying {
		return nil
	}
	var out []Command
	share := r.plan.Share(m.cfg.Self)
	if m.leaving && !r.left && (share != nil || m.Head().Table.Of(m.cfg.Self) > 0) {
		r.left = true
		out = append(out, Say{Kind: wire.KindLeave, Round: r.plan.Round, Slot: Slot("leave", r.plan.Round), Body: &wire.Leave{Reason: "stopped"},
			To: m.recipients(wire.KindLeave, now)})
	}
	if share == nil {
		if r.ready || m.leaving || !m.seated(m.cfg.Self) && !m.cfg.Genesis.Admission.Admits(m.cfg.Self) {
			return out
		}
		r.ready = true
		// The version's CID is for people: what counts is the header's base later.
		return []Command{m.sayReady(m.Head().Round, m.Head().Certified.Version, m.recipients(wire.KindReady, now))}
	}
	if !r.trained {
		r.trained = true
		out = append(out, Train{Plan: r.plan, Share: *share, Prev: m.Head()})
	}
	return out
}

// fetch asks for what is offered and not here: for contributions once they are shown
// to this peer, for results of groups if it votes. Under a reduced topology everybody
// stands in for owners that are gone or silent at the deadline.
func (m *Machine) fetch(now time.Time) []Command {
	var out []Command
	for _, l := range m.levels() {
		results := m.grouped() && l == m.round.voters
		rest := m.cfg.Genesis.Preset.Reduced() && (m.overdue(now) || slices.ContainsFunc(m.silentOwners(), func(p wire.PeerID) bool { return m.isGone(p, now) }))
		if results && l.table.Of(m.cfg.Self) == 0 || !rest && (!l.unasked || !results && !m.mayFetch(now)) {
			continue
		}
		l.unasked = false
		for _, o := range l.order {
			if rest && o.item.State == wire.HaveWhole && !o.rest {
				o.rest = true
				out = append(out, m.fetchBody(o, true))
			}
			if o.item.State != wire.HaveSeen || o.asked {
				continue
			}
			o.asked = true
			if results {
				out = append(out, FetchGroup{Round: m.round.plan.Round, Outcome: &o.result.Outcome, Members: m.round.plan.Groups[o.result.Outcome.Group]})
			} else {
				out = append(out, m.fetchBody(o, false))
			}
		}
	}
	return out
}

// fetchBody asks for one body, with rest also for the parts of silent owners.
func (m *Machine) fetchBody(o *offer, rest bool) FetchBody {
	c := FetchBody{Env: o.env, Header: o.header, Parts: m.ownParts(o.env.Sender, rest)}
	if m.applied+1 == o.env.Round {
		c.Base = m.version
	}
	if m.grouped() {
		c.From = m.groupPeers()
	}
	return c
}

// ownParts names the parts of a sender's body that this peer holds in the open
// round under a reduced topology; else nil. Those are the parts that it owns; of
// the parts that the sender owns itself those of the member before it, so that no
// part lives with its sender alone; and with rest those of silent owners.
func (m *Machine) ownParts(sender wire.PeerID, rest bool) []byte {
	if !m.cfg.Genesis.Preset.Reduced() {
		return nil
	}
	members := m.round.plan.Peers()
	self := slices.Index(members, m.cfg.Self)
	silent := map[wire.PeerID]bool{}
	if rest {
		for _, p := range m.silentOwners() {
			silent[p] = true
		}
	}
	out := make([]byte, (len(m.cfg.Parts)+7)/8)
	for i, o := range rules.PartOwners(m.cfg.Parts, len(members)) {
		if members[o] == sender && len(members) > 1 {
			o = (o + 1) % len(members)
		}
		if self >= 0 && o == self || silent[members[o]] {
			out[i/8] |= 1 << (i % 8)
		}
	}
	return out
}

// have says what this peer holds, at each level at which others count on its word:
// when nothing is awaited any more, or when the level's time is over, and at every
// change after it.
func (m *Machine) have(now time.Time) []Command {
	var out []Command
	for _, l := range m.levels() {
		if !m.hasWord(l) || m.awaits(l, now) {
			continue
		}
		h, r := l.haves.say(l.items), m.round.plan.Round
		if h != nil {
			out = append(out, Say{Kind: l.kind, Round: r, Slot: Slot(l.kind.String(), r), Latest: true, Body: h, To: m.recipients(l.kind, now)})
		}
	}
	return out
}

// hasWord reports whether others count on this peer's HAVE at a level.
func (m *Machine) hasWord(l *level) bool {
	if m.grouped() {
		return l.table.Of(m.cfg.Self) > 0
	}
	return m.acknowledges(m.cfg.Self)
}

// awaits reports whether something may still come at a level before this peer says
// what it holds.
func (m *Machine) awaits(l *level, now time.Time) bool {
	switch {
	case m.grouped() && l == m.round.voters:
		return now.Before(m.resultsBy()) && m.awaitsGroup(now)
	case m.overdue(now):
		return false
	}
	return m.waits(now, l, m.exchanging())
}

// propose composes the record if this peer leads the next instance.
func (m *Machine) propose(now time.Time) []Command {
	r := &m.round
	if r.proposed || r.running || r.proposal != nil || m.leader() != m.cfg.Self {
		return nil
	}
	if m.lacksOwners(now) || !m.quorate() {
		return nil
	}
	rec, err := m.setting().Compose(m.inputs())
	if err != nil {
		return nil // a header is still to be pulled, or too few count
	}
	r.proposed = true
	return []Command{Say{Kind: wire.KindProposal, Round: m.next, Body: rec, Slot: Slot("proposal", m.next), To: m.recipients(wire.KindProposal, now)}}
}

// ownerGrace is how long after the deadline the leader of a reduced round still
// waits for the word of owners.
const ownerGrace = time.Second

// lacksOwners reports whether, under a reduced topology, the word of an owner is
// still awaited: a part that only it holds would be left out.
func (m *Machine) lacksOwners(now time.Time) bool {
	if !m.cfg.Genesis.Preset.Reduced() || !now.Before(m.learnt.Add(m.round.plan.Deadline+ownerGrace)) {
		return false
	}
	return slices.ContainsFunc(m.silentOwners(), func(p wire.PeerID) bool { return !m.isGone(p, now) })
}

// inputs returns what is known for the open round, without what would have no
// place in its record.
func (m *Machine) inputs() rules.Inputs {
	head, r := m.Head(), &m.round
	in := rules.Inputs{
		Haves: values(r.voters.haves.by, every),
		Attests: values(m.attests, func(e wire.Envelope) bool {
			return e.Round > head.Certified.Round && e.Round < r.plan.Round && head.Table.Of(e.Sender) > 0
		}),
		Leaves: values(m.leaves, func(e wire.Envelope) bool { return e.Round == r.plan.Round && m.seated(e.Sender) }),
	}
	for _, o := range r.voters.order {
		if o.result != nil {
			in.Groups = append(in.Groups, *o.result)
		} else {
			in.Headers = append(in.Headers, o.env)
		}
	}
	in.Merged = m.commonMerged()
	room := m.cfg.Genesis.Seats() - len(head.Roster)
	in.Readys = values(m.readys, func(e wire.Envelope) bool {
		// Who is planned has said what it has to say with its header: an older READY
		// must not keep a peer active that has died since.
		return e.Round+rules.MaxReadyBehind >= r.plan.Round && e.Round < r.plan.Round && r.plan.Share(e.Sender) == nil
	})
	in.Readys = slices.DeleteFunc(in.Readys, func(e wire.Envelope) bool {
		if m.seated(e.Sender) {
			return false
		}
		room--
		return room < 0
	})
	if m.stop != nil {
		in.Stops = []wire.Envelope{*m.stop}
	}
	return in
}

// quorate reports whether HAVEs of two thirds of the voters' weight are here.
func (m *Machine) quorate() bool {
	l := m.round.voters
	return l.table.Quorum(l.haves.weight(l.table))
}

// commonMerged returns the list of a window's merged gradients that most
// contributions agree with, each as far as it goes; of several the longest.
func (m *Machine) commonMerged() []wire.CID {
	var best []wire.CID
	most := 0
	for _, a := range m.round.voters.order {
		agree := 0
		for _, b := range m.round.voters.order {
			if b.item.State == wire.HaveWhole && len(b.merged) <= len(a.merged) && slices.Equal(b.merged, a.merged[:len(b.merged)]) {
				agree++
			}
		}
		if len(a.merged) > 0 && (agree > most || agree == most && len(a.merged) > len(best)) {
			best, most = a.merged, agree
		}
	}
	return best
}

// instance starts the engine: with the leader's proposal; without one after a
// time-out, which is half as long once more than a third of the weight has begun:
// those may have what is still on its way to here.
func (m *Machine) instance(now time.Time) []Command {
	r, head := &m.round, m.Head()
	table := m.cfg.Voters.Table(m.next)
	if r.running || table.Of(m.cfg.Self) == 0 {
		return nil
	}
	if r.quorumAt.IsZero() && m.quorate() {
		r.quorumAt = now
	}
	if r.begunAt.IsZero() && table.More(m.cfg.Voters.Held(m.next)) {
		r.begunAt = now
	}
	late := passed(after(r.quorumAt, m.proposalTimeout()), now) || passed(after(r.begunAt, m.proposalTimeout()/2), now)
	if r.proposal == nil && !late {
		leader := m.leader()
		lost := passed(after(r.quorumAt, m.proposalTimeout()/4), now) || !r.begunAt.IsZero()
		if !lost || r.fetched[m.next] || leader == m.cfg.Self {
			return nil
		}
		// It was lost, or is too big for a topic.
		r.fetched[m.next] = true
		return m.pull(now, leader)
	}
	r.running = true
	return []Command{StartInstance{Instance: m.next, Base: head, Proposal: r.proposal}}
}

// after returns a moment after another, zero if that has not come.
func after(t time.Time, d time.Duration) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(d)
}

// proposalTimeout doubles with each base decision in a row, and is short while
// the leader is not connected.
func (m *Machine) proposalTimeout() time.Duration {
	if m.isDown(m.leader()) {
		return m.cfg.ProposalTimeout / 8
	}
	return m.cfg.ProposalTimeout << min(m.bases, 5)
}

// wake asks for the next moment at which something may be due.
func (m *Machine) wake(now time.Time) []Command {
	var at time.Time
	if m.round.plan != nil {
		at = m.learnt.Add(m.round.plan.Deadline)
	}
	add := func(t time.Time) {
		if t.After(now) && (!at.After(now) || t.Before(at)) {
			at = t
		}
	}
	if m.cfg.Genesis.Preset.Reduced() {
		add(at.Add(ownerGrace))
	}
	if !m.round.running && m.round.plan != nil {
		add(after(m.round.quorumAt, m.proposalTimeout()))
		add(after(m.round.quorumAt, m.proposalTimeout()/4))
		add(after(m.round.begunAt, m.proposalTimeout()/2))
	}
	m.groupsWake(now, add)
	if m.round.plan != nil && (m.links.away == m.round.plan.Round || m.grouped()) {
		add(m.learnt.Add(m.typical()))
	}
	if m.applied < m.Head().Round && !m.applying && !m.mayApply(now) {
		add(m.helpAt())
	}
	m.links.goneAt(m.cfg.GoneAfter, add)
	if !at.After(now) {
		return nil
	}
	return []Command{Wake{at}}
}

// end waits until two thirds of the weight computed the last version.
func (m *Machine) end() []Command {
	head := m.Head()
	if m.finished || m.applied != head.Round {
		return nil
	}
	weight := map[wire.Attest]uint64{}
	for k, e := range m.attests {
		if k.round != head.Round {
			continue
		}
		if a, err := wire.Read[wire.Attest](e); err == nil {
			weight[*a] += head.Table.Of(k.sender)
			if head.Table.Quorum(weight[*a]) {
				m.finished = true
			}
		}
	}
	if !m.finished {
		return nil
	}
	return []Command{Finished{head}}
}
