package decide

import (
	"slices"
	"time"

	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/wire"
)

// Verdict is what a Machine thinks of an envelope that somebody forwarded:
// whoever forwards what is provably bad is at fault, whoever forwards what is
// merely unknown here is not.
type Verdict int

// Verdicts.
const (
	Accept Verdict = iota
	Ignore
	Reject
)

// CheckForm judges an envelope by itself: run, kind and body. It keeps no state
// and may be called concurrently.
func CheckForm(run wire.RunID, e *wire.Envelope) Verdict {
	if e.Run != run {
		return Ignore
	}
	var err error
	switch e.Kind {
	case wire.KindReady:
		_, err = wire.Read[wire.Ready](*e)
	case wire.KindHeader:
		if len(e.Bytes()) > wire.MaxHeader {
			return Reject
		}
		_, err = wire.Read[wire.Header](*e)
	case wire.KindHave, wire.KindGroupHave:
		_, err = wire.Read[wire.Have](*e)
	case wire.KindProposal:
		_, err = wire.OpenRecord(e.Body)
	case wire.KindAttest:
		_, err = wire.Read[wire.Attest](*e)
	case wire.KindLeave:
		_, err = wire.Read[wire.Leave](*e)
	case wire.KindStop:
		_, err = wire.Read[wire.Stop](*e)
	case wire.KindGroupCut:
		_, err = wire.Read[wire.GroupCut](*e)
	case wire.KindGroupVote:
		_, err = wire.Read[wire.GroupVote](*e)
	case wire.KindGroup:
		_, err = wire.Read[wire.GroupResult](*e)
	case wire.KindHead:
		_, err = wire.Read[wire.Head](*e)
	case wire.KindCosign:
		_, err = wire.Read[wire.Cosigned](*e)
	case wire.KindEvidence:
		_, err = wire.Read[wire.Evidence](*e)
	default:
		return Reject
	}
	if err != nil {
		return Reject
	}
	return Accept
}

// hear takes an envelope of the run. What is for a later round waits in ahead.
func (m *Machine) hear(now time.Time, e wire.Envelope) []Command {
	switch e.Kind {
	case wire.KindReady:
		m.hearReady(e)
	case wire.KindAttest:
		return m.hearAttest(now, e)
	case wire.KindLeave:
		if m.seated(e.Sender) {
			m.leaves[e.Sender] = e
		}
	case wire.KindStop:
		if e.Sender == m.cfg.Genesis.Creator {
			m.stop = &e
		}
	case wire.KindProposal:
		return m.hearProposal(now, e)
	case wire.KindHeader, wire.KindHave, wire.KindGroupHave, wire.KindGroupCut, wire.KindGroupVote, wire.KindGroup:
		return m.hearRound(now, e)
	}
	return nil
}

func (m *Machine) seated(p wire.PeerID) bool {
	if m.Head() == nil {
		return false
	}
	_, ok := m.Head().Seat(p)
	return ok
}

func (m *Machine) hearReady(e wire.Envelope) {
	g := m.cfg.Genesis
	r, err := wire.Read[wire.Ready](e)
	if err != nil || r.Schema != g.Schema || r.Data != g.Data[0].Root {
		return
	}
	old, ok := m.readys[e.Sender]
	switch {
	case ok && old.Round > e.Round:
		return
	case len(m.h) == 0 && g.MinPeers > g.Group && m.cfg.Self != g.Creator && e.Sender != m.cfg.Self:
		return // of many starters only the creator keeps a list
	case ok, m.seated(e.Sender), e.Sender == g.Creator, e.Sender == m.cfg.Self:
	case !g.Admission.Admits(e.Sender), len(m.readys) >= g.Seats()+3*wire.MaxMembers:
		return // newcomers never take the room of members
	}
	m.readys[e.Sender] = e
}

// hearAttest keeps attestations of versions that are not certified yet, and
// notices that others are ahead.
func (m *Machine) hearAttest(now time.Time, e wire.Envelope) []Command {
	if m.Head() == nil || m.Head().Table.Of(e.Sender) == 0 {
		return nil
	}
	k := attestKey{e.Round, e.Sender}
	_, again := m.attests[k]
	stale := e.Round <= m.Head().Certified.Round && !m.Head().Last
	if !again && !stale && e.Round <= m.Head().Round+1 && len(m.attests) < 4*rules.PlanWindow*wire.MaxVoters {
		m.attests[k] = e
	}
	if e.Round > m.Head().Round {
		return m.behind(now, e)
	}
	return nil
}

// behind pulls from a peer that is ahead. Of the many that a large swarm hears of
// the first is asked, as a record is large; the others' turn comes with the clock.
func (m *Machine) behind(now time.Time, e wire.Envelope) []Command {
	if m.grouped() && m.round.asked {
		return nil
	}
	m.round.asked = true
	return m.pull(now, e.Sender)
}

func (m *Machine) hearRound(now time.Time, e wire.Envelope) []Command {
	r := &m.round
	if r.plan == nil || e.Round > r.plan.Round {
		return m.keep(now, e)
	}
	if e.Round < r.plan.Round {
		return nil
	}
	switch e.Kind {
	case wire.KindHave:
		m.hearHave(e)
		return nil
	case wire.KindGroupHave, wire.KindGroupCut, wire.KindGroupVote, wire.KindGroup:
		return m.hearGroup(e)
	}
	if _, ok := slices.BinarySearchFunc(m.exchanging(), e.Sender, wire.PeerID.Compare); !ok {
		return nil
	}
	l, d := m.work(), e.Digest()
	if l.full(d, source{peer: e.Sender}) {
		return nil
	}
	h, err := wire.Read[wire.Header](e)
	if err != nil || len(e.Bytes()) > wire.MaxHeader {
		return nil
	}
	l.add(&offer{env: e, header: *h, item: wire.HaveItem{Header: d, State: wire.HaveSeen, Ms: m.sinceLearnt(now)}})
	out := []Command{ShowTo{[]wire.PeerID{e.Sender}}}
	if e.Sender != m.cfg.Self {
		out = append(out, EndWindow{Round: e.Round, Committed: true})
	}
	return out
}

func (m *Machine) hearHave(e wire.Envelope) {
	if !m.acknowledges(e.Sender) {
		return
	}
	h, err := wire.Read[wire.Have](e)
	if err != nil || !m.plausible(h) {
		return
	}
	m.round.voters.haves.hear(e, h.Seq)
}

// plausible reports whether h is as long as what it says: the record embeds it,
// and one voter's padding must not make the record too big to be told.
func (m *Machine) plausible(h *wire.Have) bool {
	parts := 0
	if m.cfg.Genesis.Preset.Reduced() {
		parts = (len(m.cfg.Parts) + 7) / 8
	}
	for _, it := range h.Items {
		if n := len(it.Parts); n != 0 && n != parts {
			return false
		}
	}
	return len(h.Items) <= 4*len(m.round.plan.Shares) // two headers each, and two of an earlier life
}

// keep holds what is for a later round or instance and asks its sender for what
// lies between.
func (m *Machine) keep(now time.Time, e wire.Envelope) []Command {
	if m.Head() == nil || !m.seated(e.Sender) {
		return nil
	}
	k := aheadKey{e.Kind, e.Round, e.Sender}
	mine := 0
	for o := range m.ahead {
		if o.sender == e.Sender {
			mine++
		}
	}
	if _, again := m.ahead[k]; again || mine < maxAheadOfMember && len(m.ahead) < maxAhead {
		m.ahead[k] = e
	}
	if e.Kind != wire.KindProposal && m.round.plan != nil && e.Round > m.round.plan.Round {
		return m.behind(now, e)
	}
	return nil
}

// hearProposal takes record 0 from the creator, and later records from the
// leader of the next instance. The envelope's round is the instance.
func (m *Machine) hearProposal(now time.Time, e wire.Envelope) []Command {
	r, err := wire.OpenRecord(e.Body)
	if err != nil {
		return nil
	}
	if len(m.h) == 0 {
		if r.Round == 0 && e.Sender == m.cfg.Genesis.Creator {
			if m.start.IsZero() {
				if len(m.ahead) < maxAhead {
					m.ahead[aheadKey{e.Kind, 0, e.Sender}] = e
				}
				return nil
			}
			return m.started(now, r, e)
		}
		return nil
	}
	if r.Round == 0 || m.round.plan == nil {
		return nil
	}
	if e.Round > m.next {
		return m.keep(now, e)
	}
	if e.Round < m.next || r.Round != m.round.plan.Round || e.Sender != m.leader() {
		return nil
	}
	if m.round.proposal != nil || m.setting().Validate(r) != nil {
		return nil
	}
	m.round.proposals[r.Digest()] = r
	m.round.proposal, m.round.proposalEnv = r, &e
	return nil
}

// checked books the end of a fetch.
func (m *Machine) checked(now time.Time, ev BodyChecked) {
	for _, l := range m.levels() {
		o := l.by[ev.Header]
		if o == nil {
			continue
		}
		l.haves.changed = true
		switch {
		case o.item.State == wire.HaveSeen:
			o.merged = ev.Merged
			if !m.found(now, &o.item, ev) {
				o.asked, l.unasked = false, true // not to be had yet: ask again
			}
		case ev.Whole && len(ev.Parts) >= len(o.item.Parts): // more parts of it are here
			o.item.Parts = union(o.item.Parts, ev.Parts)
		}
		return
	}
}

// found books in an item what a fetch has found, and reports whether that was
// anything.
func (m *Machine) found(now time.Time, it *wire.HaveItem, ev BodyChecked) bool {
	switch {
	case ev.Whole:
		it.State, it.Nonce, it.Parts = wire.HaveWhole, ev.Nonce, ev.Parts
	case ev.Reason != wire.ReasonNone:
		it.State, it.Reason = wire.HaveRefused, ev.Reason
	default:
		return false
	}
	it.Ms = m.sinceLearnt(now)
	return true
}

// sinceLearnt returns the milliseconds since the head was learnt.
func (m *Machine) sinceLearnt(now time.Time) uint32 {
	return uint32(min(now.Sub(m.learnt).Milliseconds(), 1<<31))
}

func union(a, b []byte) []byte {
	out := slices.Clone(b)
	for i := range a {
		out[i] |= a[i]
	}
	return out
}
