package decide

import (
	"bytes"
	"cmp"
	"math/rand/v2"
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
	// Parts is how the model's parameters are cut: what a HAVE may name, and who owns
	// what under a reduced topology.
	Parts []wire.Part
	// Rand picks whom to ask for what is lacking. Required.
	Rand *rand.Rand
	// ProposalTimeout is how long a voter that holds HAVEs of two thirds waits
	// for the leader's proposal; it doubles with each base decision in a row.
	// Default 1 s.
	ProposalTimeout time.Duration
	// GoneAfter is how long after a disconnect a peer is waited for. Default 2 s.
	GoneAfter time.Duration
}

// Machine decides what a peer does in a run. It is not safe for concurrent use.
type Machine struct {
	cfg MachineConfig

	h        rules.History // empty before record 0
	next     uint64        // instance that decides the next record
	bases    uint          // base decisions in a row
	start    wire.CID
	applied  uint64   // newest version that exists here; valid if start is set
	version  wire.CID // of it
	applying bool
	learnt   time.Time // when the head was learnt
	finished bool
	leaving  bool
	deciding Command // a PersistRecord or PersistCert that waits for Persisted; else nil
	heldBack bool    // ahead may hold what can be heard now

	round   round
	nobody  *level // of contributions, where this peer has no group
	readys  map[wire.PeerID]wire.Envelope
	attests map[attestKey]wire.Envelope
	leaves  map[wire.PeerID]wire.Envelope
	stop    *wire.Envelope
	ahead   map[aheadKey]wire.Envelope // of later rounds and instances, bounded
	pulling map[wire.PeerID]bool       // pulls under way; true: ask again when it ends
	pulled  time.Time                  // when the last pull began
	links   links
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

// round is what is known of the open round. A new one begins with each record, so
// nothing of an older round can be mistaken for it.
type round struct {
	// plan is nil before the start record and after the last one: no round is open.
	plan *rules.Plan
	// voters is the level at which the record is made: of contributions, or in a round
	// of several groups of their results.
	voters *level
	// group is this peer's in a round of several groups. It is nil in a round of one
	// group, and where this peer has no part.
	group *membership
	// late says that others may be far ahead of this peer: it was away as the round
	// began, said nothing in the one before, or has no part in it. It then takes the
	// others' word for whom to wait.
	late bool
	// asked is set once a peer that is ahead was asked: in a large swarm many are heard
	// of at once, and one answer has the record.
	asked bool
	// trained is set from Train on, until TrainFailed: local work is asked for once.
	trained bool
	// ready and left are set once READY and LEAVE were said: each is said once a round.
	// Before the start of a large swarm READY is said again at readyAgain, as the creator
	// alone is told, who may be away.
	ready, left bool
	readyAgain  time.Time
	// shown only rises.
	shown audience
	// quorumAt is when HAVEs of two thirds of the weight were here, begunAt when more
	// than a third of the acting weight had begun the next instance. Both are zero until
	// then, and set once for an instance: time-outs count from them.
	quorumAt, begunAt time.Time
	// proposals are the valid ones of the next instance by digest, so that what it
	// decides need not be fetched; proposal is its leader's, which the engine begins with.
	proposals   map[wire.Digest]*wire.Record
	proposal    *wire.Record
	proposalEnv *wire.Envelope
	// proposed and running are set once for an instance: this peer has proposed, the
	// engine has begun.
	proposed, running bool
	// pulled and fetched are the instances of which the decided record, or the leader's
	// proposal, was asked for out of turn, once each.
	pulled, fetched map[uint64]bool
}

// audience says who may have the open round's bodies: who has committed, then also who
// has no part in it, then everybody.
type audience int

const (
	toCommitted audience = iota
	toObservers
	toAll
)

func newRound(table wire.Table) round {
	return round{voters: newLevel(wire.KindHave, table), proposals: map[wire.Digest]*wire.Record{}, pulled: map[uint64]bool{}, fetched: map[uint64]bool{}}
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
	return &Machine{cfg: cfg, round: newRound(nil), nobody: newLevel(wire.KindGroupHave, nil), readys: map[wire.PeerID]wire.Envelope{}, attests: map[attestKey]wire.Envelope{},
		leaves: map[wire.PeerID]wire.Envelope{}, ahead: map[aheadKey]wire.Envelope{}, pulling: map[wire.PeerID]bool{}, links: newLinks()}
}

// Restore sets the chain that an earlier life persisted: its last records, the
// next instance, and the newest version that exists here (with start set even
// when applied is 0). It is called before the first Step.
func (m *Machine) Restore(now time.Time, h rules.History, next uint64, start wire.CID, applied uint64, version wire.CID) {
	m.h, m.next, m.start, m.applied, m.version, m.learnt = h, next, start, applied, version, now
	if len(h) == 0 {
		return
	}
	m.open()
	m.round.late = true
	if m.round.plan != nil {
		for _, l := range m.levels() {
			l.haves.restore(m.cfg.LastHave(l.kind, m.round.plan.Round))
		}
	}
}

// attested returns the version of a round that more than a third of the weight
// attested, or the zero CID. Of two it is the heavier, then the one of the lesser name.
func (m *Machine) attested(round uint64) (best wire.Attest) {
	weight := map[wire.Attest]uint64{}
	for k, e := range m.attests {
		if k.round != round {
			continue
		}
		if a, err := wire.Read[wire.Attest](e); err == nil {
			weight[*a] += m.Head().Table.Of(k.sender)
		}
	}
	for a, w := range weight { // in no order: the best is one
		if m.Head().Table.More(w) && (best.Version.IsZero() || cmp.Or(cmp.Compare(w, weight[best]), bytes.Compare(best.Version.Bytes(), a.Version.Bytes()), bytes.Compare(best.Merged.Bytes(), a.Merged.Bytes())) > 0) {
			best = a
		}
	}
	return best
}

// Known returns every envelope of the open round and what its record may hold,
// for a peer that asks: what a round ends with first, as an answer may be cut short.
func (m *Machine) Known() []wire.Envelope {
	var out []wire.Envelope
	if m.round.proposalEnv != nil {
		out = append(out, *m.round.proposalEnv)
	}
	if m.stop != nil {
		out = append(out, *m.stop)
	}
	out = append(out, values(m.round.voters.haves.by, every)...)
	out = append(out, m.knownOfGroups()...)
	for _, o := range m.work().order {
		out = append(out, o.env)
	}
	out = append(out, values(m.attests, every)...)
	out = append(out, values(m.leaves, every)...)
	return append(out, values(m.readys, every)...)
}

// Head returns the newest record, or nil.
func (m *Machine) Head() *wire.Record {
	if len(m.h) == 0 {
		return nil
	}
	return m.h.Head()
}

// setting returns what the open round is judged by.
func (m *Machine) setting() rules.Setting {
	return rules.Setting{Genesis: m.cfg.Genesis, Run: m.cfg.Run, Prev: m.Head(), Plan: m.round.plan}
}

// View is where a run stands, for people: nothing follows from it.
type View struct {
	Head     *wire.Record // nil before the start record
	Applied  uint64       // newest version here
	Version  wire.CID     // of it
	Instance uint64       // that decides the next record
	Leader   wire.PeerID  // who proposes it; zero if no round is open
	Plan     *rules.Plan  // of the open round, or nil
}

// View returns where the run stands.
func (m *Machine) View() View {
	return View{Head: m.Head(), Applied: m.applied, Version: m.version, Instance: m.next, Leader: m.leader(), Plan: m.round.plan}
}

// leader returns who proposes the record of the open round, or zero if none is open.
func (m *Machine) leader() wire.PeerID {
	if m.round.plan == nil {
		return wire.PeerID{}
	}
	return m.cfg.Voters.Leader(m.Head().Seed, m.round.plan.Round, m.next)
}

// overdue reports whether the open round's deadline has passed.
func (m *Machine) overdue(now time.Time) bool {
	return m.round.plan != nil && !now.Before(m.learnt.Add(m.round.plan.Deadline))
}

// holdsHeaderOf reports whether p's header of the open round is known.
func (m *Machine) holdsHeaderOf(p wire.PeerID) bool {
	return len(m.work().of[source{peer: p}]) > 0
}

// work is the level of contributions that this peer takes in: its group's, or that of
// all. In a round of several groups of which none is this peer's it is empty.
func (m *Machine) work() *level {
	switch {
	case !m.grouped():
		return m.round.voters
	case m.round.group != nil:
		return m.round.group.level
	}
	return m.nobody
}

// levels returns the levels at which this peer takes part or may have to.
func (m *Machine) levels() []*level {
	if m.round.group != nil {
		return []*level{m.round.group.level, m.round.voters}
	}
	return []*level{m.round.voters}
}

// silentOwners returns the planned peers whose HAVE is not known.
func (m *Machine) silentOwners() []wire.PeerID {
	var out []wire.PeerID
	for _, p := range m.round.plan.Peers() {
		if !m.round.voters.haves.has(p) {
			out = append(out, p)
		}
	}
	return out
}

// acknowledges reports whether p says HAVE to the voters: they do, and under a reduced
// topology the owners of parts.
func (m *Machine) acknowledges(p wire.PeerID) bool {
	return m.Head().Table.Of(p) > 0 || m.cfg.Genesis.Preset.Reduced() && m.round.plan != nil && m.round.plan.Share(p) != nil
}

// missing returns the planned peers whose contribution is not resolved yet, and
// the voters from whom nothing has come, ascending.
func (m *Machine) missing() (peers, voters []wire.PeerID) {
	if m.round.plan == nil {
		return nil, nil
	}
	for _, p := range m.exchanging() {
		if !m.work().resolved(source{peer: p}) {
			peers = append(peers, p)
		}
	}
	for _, v := range m.Head().Table {
		if !m.round.voters.haves.has(v.Peer) {
			voters = append(voters, v.Peer)
		}
	}
	slices.SortFunc(voters, wire.PeerID.Compare)
	return peers, voters
}

// open begins the round after the head.
func (m *Machine) open() {
	m.round = newRound(m.Head().Table)
	if !m.Head().Last {
		m.round.plan = m.cfg.Plans.After(m.h)
		m.round.group = m.joinGroup()
	}
	for p, e := range m.readys {
		// Who is planned has said what it has to say with its header.
		if e.Round+rules.MaxReadyBehind < m.Head().Round+1 || m.round.plan != nil && m.round.plan.Share(p) != nil {
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
	m.links.turn(m.Head().Round+1, m.waitedFor)
	for k := range m.ahead {
		if k.kind != wire.KindProposal && k.round < m.Head().Round+1 || k.kind == wire.KindProposal && k.round < m.next {
			delete(m.ahead, k)
		}
	}
}

// waitedFor reports whether a round may wait for p, now or in the next one.
func (m *Machine) waitedFor(p wire.PeerID) bool {
	_, ready := m.readys[p]
	return ready || m.seated(p)
}

func (m *Machine) trained(now time.Time, ev Trained) []Command {
	if m.round.plan == nil || ev.Round != m.round.plan.Round || ev.Header.Body.IsZero() {
		return nil
	}
	return []Command{Say{Kind: wire.KindHeader, Round: ev.Round, Body: &ev.Header, Slot: Slot("header", ev.Round), To: m.recipients(wire.KindHeader, now)}}
}

func (m *Machine) started(now time.Time, r *wire.Record, env wire.Envelope) []Command {
	if len(m.h) > 0 || m.start.IsZero() || m.cfg.Plans.ValidStart(m.cfg.Run, m.start, r) != nil {
		return nil
	}
	return m.persist(PersistRecord{Record: r, Start: &env})
}

func (m *Machine) decided(now time.Time, ev Decided) []Command {
	c := ev.Cert
	if len(m.h) == 0 || c.Instance < m.next || m.Head().Last || c.Base != m.Head().Digest() {
		return nil
	}
	if !c.Decided() {
		return m.persist(PersistCert{&c})
	}
	r, item := ev.Record, ev.Item
	if r == nil {
		r, item = m.round.proposals[c.Value], nil
	}
	if r == nil {
		if m.round.pulled[c.Instance] {
			return nil
		}
		m.round.pulled[c.Instance] = true
		return []Command{AskAround{}}
	}
	if r.Digest() != c.Value || r.Round != m.Head().Round+1 {
		return nil
	}
	return m.persist(PersistRecord{Record: r, Cert: &c, Item: item})
}

// persist has a decision made durable. Nothing follows from it before it is.
func (m *Machine) persist(c Command) []Command {
	m.deciding = c
	return []Command{c}
}

// persisted follows a decision that is durable now. It is final.
func (m *Machine) persisted(now time.Time) []Command {
	decided := m.deciding
	m.deciding, m.heldBack = nil, true
	switch d := decided.(type) {
	case PersistRecord:
		return m.commit(now, d.Record, d.Cert)
	case PersistCert:
		m.next, m.bases = d.Cert.Instance+1, m.bases+1
		m.round.proposal, m.round.proposalEnv, m.round.proposed, m.round.running = nil, nil, false, false
		m.round.proposals = map[wire.Digest]*wire.Record{}
		m.round.quorumAt, m.round.begunAt = now, time.Time{}
	default:
		panic("decide: nothing was to be persisted")
	}
	return nil
}

// commit makes a record the head.
func (m *Machine) commit(now time.Time, r *wire.Record, c *wire.Cert) []Command {
	var out []Command
	if m.round.trained {
		out = append(out, StopTraining{r.Round})
	}
	took := time.Duration(0)
	if r.Round > 0 {
		took = now.Sub(m.learnt)
	}
	out = append(out, RoundDone{Record: r, Cert: c, Took: took})
	late := r.Round > 0 && m.round.plan != nil && m.acknowledges(m.cfg.Self) && !m.round.voters.haves.told
	m.h, m.learnt, m.bases = m.h.With(r), now, 0
	if c != nil {
		m.next = c.Instance + 1
	}
	m.open()
	out = append(out, m.connect()...)
	m.round.late = late || m.round.plan != nil && m.round.plan.Share(m.cfg.Self) == nil
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
		if m.deciding != nil {
			break // the rest is of what follows
		}
		e := m.ahead[k]
		delete(m.ahead, k)
		out = append(out, m.hear(now, e)...)
	}
	return out
}

func (m *Machine) appliedVersion(ev Applied) []Command {
	m.applying, m.version = false, ev.Version
	if ev.Round == 0 && m.start.IsZero() {
		m.start = ev.Version
		return nil
	}
	if ev.Round <= m.applied && ev.Round != 0 {
		return nil
	}
	m.applied = ev.Round
	if ev.Round == 0 || m.Head() == nil || m.Head().Table.Of(m.cfg.Self) == 0 {
		return nil
	}
	return []Command{Say{Kind: wire.KindAttest, Round: ev.Round, Slot: Slot("attest", ev.Round),
		Body: &wire.Attest{Version: ev.Version, Merged: ev.Merged}}}
}
