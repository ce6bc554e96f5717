package decide

import (
	"cmp"
	"slices"
	"time"

	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/wire"
)

// Voters is what a Machine asks of the agreement: pure reads of its state.
type Voters interface {
	Table(instance uint64) wire.Table
	Leader(seed wire.Digest, r, instance uint64) wire.PeerID
	Held(instance uint64) uint64
}

// MachineConfig of a Machine.
type MachineConfig struct {
	Genesis *wire.Genesis
	Run     wire.RunID
	Self    wire.PeerID
	Voters  Voters
	// LastHave returns the newest HAVE of a kind that an earlier life signed for a
	// round, or nil: what it said whole stays whole. Default: none.
	LastHave func(kind wire.Kind, round uint64) *wire.Have
	// Plans of the run, which several peers may share. Default: its own.
	Plans *rules.Plans
	// Parts is how many parts the model has: what a HAVE may name.
	Parts int
	// ProposalTimeout is how long a voter that holds HAVEs of two thirds waits
	// for the leader's proposal; it doubles with each base decision in a row.
	// Default 1 s.
	ProposalTimeout time.Duration
	// GoneAfter is how long after a disconnect a peer is waited for. Default 2 s.
	GoneAfter time.Duration
}

// Machine decides what a peer does in a run. It is not safe for concurrent use.
type Machine struct {
	Cfg MachineConfig

	h        rules.History // empty before record 0
	next     uint64        // instance that decides the next record
	bases    uint          // base decisions in a row
	start    wire.CID
	applied  uint64 // newest version that exists here; valid if start is set
	applying bool
	Learnt   time.Time // when the head was learnt
	finished bool
	leaving  bool
	turned   bool // a decision was taken in this step
	heldBack bool // ahead may hold what can be heard now

	Round   round
	readys  map[wire.PeerID]wire.Envelope
	attests map[attestKey]wire.Envelope
	leaves  map[wire.PeerID]wire.Envelope
	stop    *wire.Envelope
	ahead   map[aheadKey]wire.Envelope // of later rounds and instances, bounded
	gone    map[wire.PeerID]time.Time  // when the connection went down
	linked  map[wire.PeerID]bool       // who is connected
}

type attestKey struct {
	round  uint64
	sender wire.PeerID
}

type aheadKey struct {
	kind   wire.Kind
	round  uint64
	sender wire.PeerID
}

// maxAhead bounds what is held for later: 8 statements of each member, so that
// no member takes the room of another.
const (
	maxAhead         = maxAheadOfMember * wire.MaxMembers
	maxAheadOfMember = 8
)

// known is a header as this peer knows it.
type known struct {
	env    wire.Envelope
	header wire.Header
	item   wire.HaveItem
	asked  bool
	rest   bool // the parts of silent owners were asked for
	merged []wire.CID
}

// round is what is known of the open round.
type round struct {
	plan        *rules.Plan
	Headers     map[wire.Digest]*known
	of          map[wire.PeerID][]*known // the same, by sender
	unasked     bool                     // a body is to be asked for
	haves       *book                    // of the voters, in reduced rounds of owners too
	group       *membership              // of this peer, in a round of several groups; else nil
	results     map[wire.Digest]*result  // of groups, by outcome
	byGroup     []*result                // the same, in resultOrder
	asked       bool                     // somebody who is ahead
	Late        bool                     // this peer was away as it began, said nothing in the one before, or has no part in it
	away        map[wire.PeerID]bool     // who was disconnected for a while
	trained     bool                     // Train was asked for
	ready       bool                     // READY was said
	readyAgain  time.Time                // when it is said again
	left        bool
	quorumAt    time.Time
	begunAt     time.Time                    // when more than a third of the weight was seen in the running instance
	proposals   map[wire.Digest]*wire.Record // valid, of the running instance
	proposal    *wire.Record
	proposalEnv *wire.Envelope
	proposed    bool
	running     bool            // the engine runs instance next
	pulled      map[uint64]bool // instances whose decided record was asked for
	fetched     map[uint64]bool // instances whose proposal the leader was asked for
}

func newRound() round {
	return round{Headers: map[wire.Digest]*known{}, of: map[wire.PeerID][]*known{}, away: map[wire.PeerID]bool{}, haves: newBook(), results: map[wire.Digest]*result{},
		proposals: map[wire.Digest]*wire.Record{}, pulled: map[uint64]bool{}, fetched: map[uint64]bool{}}
}

// NewMachine returns a machine that knows no record yet.
func NewMachine(cfg MachineConfig) *Machine {
	if cfg.ProposalTimeout == 0 {
		cfg.ProposalTimeout = time.Second
	}
	if cfg.LastHave == nil {
		cfg.LastHave = func(wire.Kind, uint64) *wire.Have { return nil }
	}
	if cfg.Plans == nil {
		cfg.Plans = rules.NewPlans(cfg.Genesis)
	}
	if cfg.GoneAfter == 0 {
		cfg.GoneAfter = 2 * time.Second
	}
	return &Machine{Cfg: cfg, Round: newRound(), readys: map[wire.PeerID]wire.Envelope{}, attests: map[attestKey]wire.Envelope{},
		leaves: map[wire.PeerID]wire.Envelope{}, ahead: map[aheadKey]wire.Envelope{}, gone: map[wire.PeerID]time.Time{}, linked: map[wire.PeerID]bool{}}
}

// Restore sets the chain that an earlier life persisted: its last records, the
// next instance, and the newest version that exists here (with start set even
// when applied is 0). It is called before the first Step.
func (m *Machine) Restore(now time.Time, h rules.History, next uint64, start wire.CID, applied uint64) {
	m.h, m.next, m.start, m.applied, m.Learnt = h, next, start, applied, now
	if len(h) == 0 {
		return
	}
	m.open()
	m.Round.Late = true
	if m.Round.plan != nil {
		m.Round.haves.restore(m.Cfg.LastHave(wire.KindHave, m.Round.plan.Round))
		if m.Round.group != nil {
			m.Round.group.haves.restore(m.Cfg.LastHave(wire.KindGroupHave, m.Round.plan.Round))
		}
	}
}

// Attested returns the version of a round that more than a third of the weight
// attested, or the zero CID.
func (m *Machine) Attested(round uint64) (best wire.Attest) {
	weight := map[wire.Attest]uint64{}
	for k, e := range m.attests {
		if k.round != round {
			continue
		}
		if a, err := wire.Read[wire.Attest](e); err == nil {
			weight[*a] += m.Head().Table.Of(k.sender)
			if m.Head().Table.More(weight[*a]) {
				best = *a
			}
		}
	}
	return best
}

// Known returns every envelope of the open round and what its record may hold,
// for a peer that asks: what a round ends with first, as an answer may be cut short.
func (m *Machine) Known() []wire.Envelope {
	var out []wire.Envelope
	if m.Round.proposalEnv != nil {
		out = append(out, *m.Round.proposalEnv)
	}
	if m.stop != nil {
		out = append(out, *m.stop)
	}
	out = append(out, Values(m.Round.haves.by, Every)...)
	out = append(out, m.knownOfGroups()...)
	for _, d := range m.sortedHeaders() {
		out = append(out, m.Round.Headers[d].env)
	}
	out = append(out, Values(m.attests, Every)...)
	out = append(out, Values(m.leaves, Every)...)
	return append(out, Values(m.readys, Every)...)
}

// Head returns the newest record, or nil.
func (m *Machine) Head() *wire.Record {
	if len(m.h) == 0 {
		return nil
	}
	return m.h.Head()
}

// History returns the records that the next plan reads. The caller must not
// change them.
func (m *Machine) History() rules.History { return m.h }

// setting returns what the open round is judged by.
func (m *Machine) setting() rules.Setting {
	return rules.Setting{Genesis: m.Cfg.Genesis, Run: m.Cfg.Run, Prev: m.Head(), Plan: m.Round.plan}
}

// Plan returns the plan of the open round, or nil.
func (m *Machine) Plan() *rules.Plan { return m.Round.plan }

// Leader returns who proposes the record of the open round, or zero if none is open.
func (m *Machine) Leader() wire.PeerID {
	if m.Round.plan == nil {
		return wire.PeerID{}
	}
	return m.Cfg.Voters.Leader(m.Head().Seed, m.Round.plan.Round, m.next)
}

// NextInstance returns the instance that decides the next record.
func (m *Machine) NextInstance() uint64 { return m.next }

// Applied returns the newest version that exists here.
func (m *Machine) Applied() uint64 { return m.applied }

// Overdue reports whether the open round's deadline has passed.
func (m *Machine) Overdue(now time.Time) bool {
	return m.Round.plan != nil && !now.Before(m.Learnt.Add(m.Round.plan.Deadline))
}

// HoldsHeaderOf reports whether p's header of the open round is known.
func (m *Machine) HoldsHeaderOf(p wire.PeerID) bool {
	return len(m.Round.of[p]) > 0
}

// SilentOwners returns the planned peers whose HAVE is not known.
func (m *Machine) SilentOwners() []wire.PeerID {
	var out []wire.PeerID
	for _, p := range m.Round.plan.Peers() {
		if !m.Round.haves.has(p) {
			out = append(out, p)
		}
	}
	return out
}

// speaks reports whether p says HAVE: voters, and under a reduced topology the
// owners of parts.
func (m *Machine) speaks(p wire.PeerID) bool {
	return m.Head().Table.Of(p) > 0 || m.Cfg.Genesis.Preset.Reduced() && m.Round.plan != nil && m.Round.plan.Share(p) != nil
}

// Missing returns the planned peers whose contribution is not resolved yet, and
// the voters from whom nothing has come, ascending.
func (m *Machine) Missing() (peers, voters []wire.PeerID) {
	if m.Round.plan == nil {
		return nil, nil
	}
	for _, p := range m.Exchanging() {
		if !m.resolved(p) {
			peers = append(peers, p)
		}
	}
	for _, v := range m.Head().Table {
		if !m.Round.haves.has(v.Peer) {
			voters = append(voters, v.Peer)
		}
	}
	slices.SortFunc(voters, wire.PeerID.Compare)
	return peers, voters
}

// open begins the round after the head.
func (m *Machine) open() {
	m.Round = newRound()
	if !m.Head().Last {
		m.Round.plan = m.Cfg.Plans.After(m.h)
		m.Round.group = m.joinGroup()
	}
	for p, e := range m.readys {
		// Who is planned has said what it has to say with its header.
		if e.Round+rules.MaxReadyBehind < m.Head().Round+1 || m.Round.plan != nil && m.Round.plan.Share(p) != nil {
			delete(m.readys, p)
		}
	}
	for k := range m.attests {
		if k.round <= m.Head().Certified.Round {
			delete(m.attests, k)
		}
	}
	for p, e := range m.leaves {
		if e.Round <= m.Head().Round {
			delete(m.leaves, p)
		}
	}
	for p := range m.gone {
		if !m.waitedFor(p) {
			delete(m.gone, p)
			continue
		}
		m.Round.away[p] = true
	}
	for k := range m.ahead {
		if k.kind != wire.KindProposal && k.round < m.Head().Round+1 || k.kind == wire.KindProposal && k.round < m.next {
			delete(m.ahead, k)
		}
	}
}

// Leave makes the machine announce its leave with the next round.
func (m *Machine) Leave() { m.leaving = true }

// Step takes one event and returns what is to be done, in order. After a batch
// with PersistRecord or PersistCert the caller steps a Tick.
func (m *Machine) Step(now time.Time, ev Event) []Command {
	var out []Command
	switch ev := ev.(type) {
	case Heard:
		out = m.hear(now, ev.Env)
	case BodyChecked:
		m.checked(now, ev)
	case Trained:
		out = m.trained(now, ev)
	case TrainFailed:
		if m.Round.plan != nil && ev.Round == m.Round.plan.Round {
			m.Round.trained = false // and is asked for again
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
		delete(m.linked, ev.Peer)
		if ev.Up {
			m.linked[ev.Peer] = true
			delete(m.gone, ev.Peer)
		} else if _, ok := m.gone[ev.Peer]; !ok && m.waitedFor(ev.Peer) {
			m.gone[ev.Peer] = now
			m.Round.away[ev.Peer] = true
		}
	}
	if m.turned { // the agreement must hear of the decision before anything else
		m.turned = false
		m.heldBack = true
		return out
	}
	return append(out, m.advance(now)...)
}

// waitedFor reports whether a round may wait for p, now or in the next one.
func (m *Machine) waitedFor(p wire.PeerID) bool {
	_, ready := m.readys[p]
	return ready || m.seated(p)
}

func (m *Machine) trained(now time.Time, ev Trained) []Command {
	if m.Round.plan == nil || ev.Round != m.Round.plan.Round || ev.Header.Body.IsZero() {
		return nil
	}
	return []Command{Say{Kind: wire.KindHeader, Round: ev.Round, Body: &ev.Header, Slot: Slot("header", ev.Round), To: m.audience(wire.KindHeader, now)}}
}

func (m *Machine) started(now time.Time, r *wire.Record, env wire.Envelope) []Command {
	if len(m.h) > 0 || m.start.IsZero() || m.Cfg.Plans.ValidStart(m.Cfg.Run, m.start, r) != nil {
		return nil
	}
	return m.commit(now, PersistRecord{Record: r, Start: &env})
}

func (m *Machine) decided(now time.Time, ev Decided) []Command {
	c := ev.Cert
	if len(m.h) == 0 || c.Instance < m.next || m.Head().Last || c.Base != m.Head().Digest() {
		return nil
	}
	if !c.Decided() {
		m.next, m.bases = c.Instance+1, m.bases+1
		m.Round.proposal, m.Round.proposalEnv, m.Round.proposed, m.Round.running = nil, nil, false, false
		m.Round.proposals = map[wire.Digest]*wire.Record{}
		m.Round.quorumAt, m.Round.begunAt = now, time.Time{}
		m.turned = true
		return []Command{PersistCert{&c}}
	}
	r, item := ev.Record, ev.Item
	if r == nil {
		r, item = m.Round.proposals[c.Value], nil
	}
	if r == nil {
		if m.Round.pulled[c.Instance] {
			return nil
		}
		m.Round.pulled[c.Instance] = true
		return []Command{PullRecord{c}}
	}
	if r.Digest() != c.Value || r.Round != m.Head().Round+1 {
		return nil
	}
	return m.commit(now, PersistRecord{Record: r, Cert: &c, Item: item})
}

// commit makes p's record the head. It is final.
func (m *Machine) commit(now time.Time, p PersistRecord) []Command {
	r, c := p.Record, p.Cert
	out := []Command{p}
	if m.Round.trained {
		out = append(out, StopTraining{r.Round})
	}
	out = append(out, RoundDone{Record: r, Cert: c, Took: now.Sub(m.Learnt)})
	late := r.Round > 0 && m.Round.plan != nil && m.speaks(m.Cfg.Self) && !m.Round.haves.told
	m.h, m.Learnt, m.bases = m.h.With(r), now, 0
	if c != nil {
		m.next = c.Instance + 1
	}
	m.open()
	m.Round.Late = late || m.Round.plan != nil && m.Round.plan.Share(m.Cfg.Self) == nil
	m.turned = true
	return out
}

// replay hears what came too early.
func (m *Machine) replay(now time.Time) []Command {
	keys := make([]aheadKey, 0, len(m.ahead))
	for k := range m.ahead {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b aheadKey) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.round, b.round), a.sender.Compare(b.sender))
	})
	var out []Command
	for _, k := range keys {
		e := m.ahead[k]
		delete(m.ahead, k)
		out = append(out, m.hear(now, e)...)
	}
	return out
}

func (m *Machine) appliedVersion(ev Applied) []Command {
	m.applying = false
	if ev.Round == 0 && m.start.IsZero() {
		m.start = ev.Version
		return nil
	}
	if ev.Round <= m.applied && ev.Round != 0 {
		return nil
	}
	m.applied = ev.Round
	if ev.Round == 0 || m.Head() == nil || m.Head().Table.Of(m.Cfg.Self) == 0 {
		return nil
	}
	return []Command{Say{Kind: wire.KindAttest, Round: ev.Round, Slot: Slot("attest", ev.Round),
		Body: &wire.Attest{Version: ev.Version, Merged: ev.Merged}}}
}
