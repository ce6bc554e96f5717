package decide

import (
	"maps"
	"slices"
	"time"

	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/wire"
)

// A round of several groups has two levels. Members of a group exchange, say what
// they have to the group's first leaders, and one of these composes the group's
// cut; each member merges it and votes for the outcome, and two thirds of votes
// make a result. To the voters a result is what a contribution is in a round of
// one group: they fetch it, say HAVE, and decide one record over all.

// membership is what a peer knows of its own group in the open round.
type membership struct {
	index   int
	members []wire.PeerID
	leaders []wire.PeerID // in the order in which they speak

	*level             // of the members' contributions
	quorumAt time.Time // when HAVEs of two thirds were here
	cuts     map[wire.PeerID]wire.Envelope
	tried    map[wire.PeerID]bool             // who sent a cut, good or not: it costs signatures
	views    map[wire.Digest]*rules.GroupView // of cuts, by digest: being merged
	composed bool
	outcomes map[wire.Digest]*wire.GroupOutcome // that this peer computed
	votes    map[wire.Digest]map[wire.PeerID]wire.Envelope
	wonAt    time.Time // when votes of two thirds for an outcome were here
	bundled  bool
	known    bool // a result is known
}

const (
	speakers    = 3 // of a group, that collect what members state
	cutsOfGroup = 4 // in a round, that a member looks at
)

// joinGroup returns the membership in the open round's groups, or nil.
func (m *Machine) joinGroup() *membership {
	plan := m.round.plan
	i := plan.GroupOf(m.cfg.Self)
	if i < 0 {
		return nil
	}
	members := plan.Groups[i]
	return &membership{index: i, members: members, level: newLevel(wire.KindGroupHave, rules.EqualTable(members)), leaders: rules.GroupLeaders(m.Head().Seed, members),
		cuts: map[wire.PeerID]wire.Envelope{}, tried: map[wire.PeerID]bool{}, views: map[wire.Digest]*rules.GroupView{}, outcomes: map[wire.Digest]*wire.GroupOutcome{},
		votes: map[wire.Digest]map[wire.PeerID]wire.Envelope{}}
}

// grouped reports whether the open round has several groups.
func (m *Machine) grouped() bool { return m.round.plan != nil && m.round.plan.Groups != nil }

// exchanging returns the peers whose contributions this peer takes in.
func (m *Machine) exchanging() []wire.PeerID {
	switch {
	case !m.grouped():
		return m.round.plan.Peers()
	case m.round.group != nil:
		return m.round.group.members
	}
	return nil
}

// groupPeers returns the other members of the own group that are not known to be
// down: those who can hold what this peer fetches.
func (m *Machine) groupPeers() []wire.PeerID {
	out := []wire.PeerID{}
	for _, p := range m.exchanging() {
		if !m.isDown(p) && p != m.cfg.Self {
			out = append(out, p)
		}
	}
	return out
}

// needs returns the peers with whom the open round exchanges, besides all who may
// be connected: the own group's members and the voters. It is nil in a round of
// one group.
func (m *Machine) needs() []wire.PeerID {
	if !m.grouped() {
		return nil
	}
	return append(slices.Clone(m.exchanging()), m.voters()...)
}

// voters returns those whose HAVEs count and those who vote in the next instance:
// a table acts some instances after its record.
func (m *Machine) voters() []wire.PeerID {
	out := m.Head().Table.Peers()
	for _, p := range m.cfg.Voters.Table(m.next) {
		if m.Head().Table.Of(p.Peer) == 0 {
			out = append(out, p.Peer)
		}
	}
	return out
}

// composes reports whether this peer may have use for what makes a record: the open
// round's proposal and the READYs of newcomers. In a large swarm that are voters, and
// before the start its creator; others learn the record when it is decided.
func (m *Machine) composes() bool {
	g := m.cfg.Genesis
	switch {
	case len(m.h) == 0:
		return g.MinPeers <= g.Group || m.cfg.Self == g.Creator
	case m.grouped():
		return slices.Contains(m.voters(), m.cfg.Self)
	}
	return true
}

// tooEarly reports whether nothing is to be expected yet: in a large swarm all train
// for the first part of a round, and nobody is shown anything before its own work is
// done.
func (m *Machine) tooEarly(now time.Time) bool {
	return m.grouped() && m.applied == m.Head().Round && m.round.trained && !m.mayFetch(now) && now.Before(m.learnt.Add(m.typical()))
}

// sources returns those of some peers who know what this one may lack of the open
// round: in a round of several groups its own and, for who composes records, the
// voters. It is everybody where that is nobody, and when the round is late.
func (m *Machine) sources(peers []wire.PeerID, now time.Time) []wire.PeerID {
	if !m.grouped() || m.overdue(now) {
		return peers
	}
	near := m.exchanging()
	if m.composes() {
		near = append(slices.Clone(near), m.voters()...)
	}
	out := slices.DeleteFunc(slices.Clone(peers), func(p wire.PeerID) bool { return !slices.Contains(near, p) })
	if len(out) == 0 {
		return peers
	}
	return out
}

// recipients returns to whom a statement goes: nil for everybody.
func (m *Machine) recipients(k wire.Kind, now time.Time) []wire.PeerID {
	if len(m.h) == 0 {
		if g := m.cfg.Genesis; k == wire.KindReady && g.MinPeers > g.Group {
			return []wire.PeerID{g.Creator}
		}
		return nil
	}
	if !m.grouped() {
		return nil
	}
	switch k {
	case wire.KindHeader, wire.KindGroupCut:
		return onlyTo(m.exchanging())
	case wire.KindGroupHave, wire.KindGroupVote:
		return onlyTo(m.speaking(now))
	case wire.KindGroup:
		return append(m.speaking(now), m.voters()...)
	case wire.KindLeave:
		return append(m.voters(), m.exchanging()...)
	case wire.KindReady, wire.KindHave, wire.KindProposal:
		return m.voters()
	}
	return nil
}

// onlyTo is peers as recipients: none of them is nobody, not everybody.
func onlyTo(peers []wire.PeerID) []wire.PeerID { return append([]wire.PeerID{}, peers...) }

// speaking returns the own group's first leaders that are not gone.
func (m *Machine) speaking(now time.Time) []wire.PeerID {
	if m.round.group == nil {
		return nil
	}
	var out []wire.PeerID
	for _, p := range m.round.group.leaders {
		if len(out) < speakers && !m.isGone(p, now) {
			out = append(out, p)
		}
	}
	return out
}

// turnAt returns when this peer may speak for its group after a moment: the first
// leader at once, a stand-in later. It is the zero time for others.
func (m *Machine) turnAt(since time.Time, now time.Time) time.Time {
	if since.IsZero() {
		return since
	}
	rank := slices.Index(m.speaking(now), m.cfg.Self)
	if rank < 0 {
		return time.Time{}
	}
	return since.Add(time.Duration(rank) * m.cfg.ProposalTimeout / 2)
}

func passed(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// member does what the own group waits for besides HAVEs: a cut, and its result.
func (m *Machine) member(now time.Time) []Command {
	if m.round.group == nil {
		return nil
	}
	return append(m.composeCut(now), m.bundle(now)...)
}

// composeCut makes the group's cut when it is this peer's turn: when nobody else
// has, or when what others made has led to nothing.
func (m *Machine) composeCut(now time.Time) []Command {
	g, r := m.round.group, m.round.plan
	if !g.table.Quorum(g.haves.weight(g.table)) {
		return nil
	}
	if g.quorumAt.IsZero() {
		g.quorumAt = now
	}
	at := m.turnAt(g.quorumAt, now)
	if len(g.cuts) > 0 {
		at = after(at, 2*m.cfg.ProposalTimeout)
	}
	if g.composed || g.known || !passed(at, now) {
		return nil
	}
	var headers []wire.Envelope
	for _, o := range g.order {
		headers = append(headers, o.env)
	}
	v, err := m.setting().ComposeGroup(g.index, headers, values(g.haves.by, every))
	if err != nil {
		return nil // a header is still to be pulled
	}
	g.composed = true
	return []Command{Say{Kind: wire.KindGroupCut, Round: r.Round, Body: &v.Cut, To: m.recipients(wire.KindGroupCut, now)}}
}

// hearGroupCut takes a cut of the own group and has it merged.
func (m *Machine) hearGroupCut(e wire.Envelope) []Command {
	g := m.round.group
	if g.tried[e.Sender] || len(g.cuts) >= cutsOfGroup {
		return nil
	}
	g.tried[e.Sender] = true
	c, err := wire.Read[wire.GroupCut](e)
	if err != nil || int(c.Group) != g.index {
		return nil
	}
	v, err := m.setting().OpenGroupCut(c)
	if err != nil {
		return nil
	}
	g.cuts[e.Sender] = e
	name := v.Outcome.Cut
	if g.views[name] != nil {
		return nil
	}
	g.views[name] = v
	return []Command{MergeGroup{Round: m.round.plan.Round, View: v, Members: g.members}}
}

// mergedGroup votes for what this peer made of a cut.
func (m *Machine) mergedGroup(now time.Time, ev GroupMerged) []Command {
	g := m.round.group
	if g == nil || ev.Round != m.round.plan.Round || g.views[ev.Cut] == nil {
		return nil
	}
	o := g.views[ev.Cut].Outcome
	o.Merged, o.Nonces = ev.Merged, ev.Nonces
	d := o.Digest()
	if g.outcomes[d] != nil {
		return nil
	}
	g.outcomes[d] = &o
	return []Command{Say{Kind: wire.KindGroupVote, Round: ev.Round, Body: &wire.GroupVote{Outcome: d}, To: m.recipients(wire.KindGroupVote, now)}}
}

func (m *Machine) hearGroupVote(e wire.Envelope) {
	g := m.round.group
	v, err := wire.Read[wire.GroupVote](e)
	if err != nil {
		return
	}
	mine := 0
	for _, by := range g.votes {
		if _, ok := by[e.Sender]; ok {
			mine++
		}
	}
	if mine >= cutsOfGroup {
		return
	}
	if g.votes[v.Outcome] == nil {
		g.votes[v.Outcome] = map[wire.PeerID]wire.Envelope{}
	}
	g.votes[v.Outcome][e.Sender] = e
}

// bundle makes a result of the votes of two thirds, when it is this peer's turn.
func (m *Machine) bundle(now time.Time) []Command {
	g := m.round.group
	won := wire.Digest{}
	for d := range g.outcomes {
		if g.table.Quorum(uint64(len(g.votes[d]))) && (won.IsZero() || d.Compare(won) < 0) {
			won = d
		}
	}
	if won.IsZero() {
		return nil
	}
	if g.wonAt.IsZero() {
		g.wonAt = now
	}
	at := m.turnAt(g.wonAt, now)
	if g.known { // who said it may have died before the voters heard it
		at = after(at, m.cfg.ProposalTimeout)
	}
	if g.bundled || !passed(at, now) {
		return nil
	}
	g.bundled = true
	r := &wire.GroupResult{Outcome: *g.outcomes[won], Signers: make([]byte, (len(g.members)+7)/8)}
	for i, p := range g.members {
		if e, ok := g.votes[won][p]; ok {
			r.Signers[i/8] |= 1 << (i % 8)
			r.Sigs = append(r.Sigs, e.Sig...)
		}
	}
	return []Command{Say{Kind: wire.KindGroup, Round: m.round.plan.Round, Body: r, To: m.recipients(wire.KindGroup, now)}}
}

// hearGroup takes a statement of the open round's groups.
func (m *Machine) hearGroup(e wire.Envelope) []Command {
	if !m.grouped() {
		return nil
	}
	if e.Kind == wire.KindGroup {
		m.hearResult(e)
		return nil
	}
	g := m.round.group
	if g == nil || g.table.Of(e.Sender) == 0 {
		return nil
	}
	switch e.Kind {
	case wire.KindGroupHave:
		if h, err := wire.Read[wire.Have](e); err == nil && rules.Lean(h, len(g.members)) {
			g.haves.hear(e, h.Seq)
		}
	case wire.KindGroupCut:
		return m.hearGroupCut(e)
	case wire.KindGroupVote:
		m.hearGroupVote(e)
	}
	return nil
}

// knownOfGroups returns what a peer of the same group, or a voter, may lack.
func (m *Machine) knownOfGroups() []wire.Envelope {
	var out []wire.Envelope
	if g := m.round.group; g != nil {
		out = append(values(g.haves.by, every), values(g.cuts, every)...)
		for _, d := range slices.SortedFunc(maps.Keys(g.votes), wire.Digest.Compare) {
			out = append(out, values(g.votes[d], every)...)
		}
	}
	if m.grouped() {
		for _, o := range m.round.voters.order {
			out = append(out, o.env)
		}
	}
	return out
}

// groupsWake adds the moments at which something of the groups may be due.
func (m *Machine) groupsWake(now time.Time, add func(time.Time)) {
	if !m.grouped() {
		return
	}
	add(m.resultsBy())
	if g := m.round.group; g != nil && !g.bundled {
		cut, won := m.turnAt(g.quorumAt, now), m.turnAt(g.wonAt, now)
		add(cut)
		add(after(cut, 2*m.cfg.ProposalTimeout))
		add(won)
		add(after(won, m.cfg.ProposalTimeout))
	}
}

// mayApply reports whether the head's version can be made now. In a round of
// several groups voters merge the groups' updates; the others take the merged
// update from them, once more than a third of the weight vouches for it, and help
// themselves if that does not come.
func (m *Machine) mayApply(now time.Time) bool {
	head := m.Head()
	if len(head.Counting) == 0 || m.voted() {
		return true
	}
	return !m.attested(head.Round).Version.IsZero() || !now.Before(m.helpAt())
}

func (m *Machine) helpAt() time.Time { return m.learnt.Add(4 * m.cfg.ProposalTimeout) }

// voted reports whether this peer voted in the head's round.
func (m *Machine) voted() bool {
	prev := m.prev()
	return prev != nil && prev.Table.Of(m.cfg.Self) > 0
}
