package gpbft

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/filecoin-project/go-f3/gpbft"

	"github.com/apiary-net/hived/consensus"
	"github.com/apiary-net/hived/wire"
)

// Config of an Engine.
type Config struct {
	Key wire.Key
	Run wire.RunID
	// Slot returns the value of a sign-once slot that an earlier life of this
	// peer persisted, or nil. While it cannot be read nothing is signed.
	Slot func(slot []byte) ([]byte, error)
	// MinDelta and MaxDelta bound the assumed one-way delay; default 50 ms and
	// 10 s. Delta starts at MinDelta and concerns liveness only.
	MinDelta, MaxDelta time.Duration
	Logger             *slog.Logger // default: discards
}

// Engine implements consensus.Engine.
type Engine struct {
	cfg   Config
	self  wire.PeerID
	delta time.Duration
	hold  []heldVote // votes of instances not begun, bounded by maxHeld
	run   *instance  // nil between instances
	next  uint64     // least instance that votes are held for
}

type heldVote struct {
	sender wire.PeerID
	v      wire.Vote
}

// maxHeld is 16 votes a voter and instance; no sender has more than its share.
const maxHeld = 16 * wire.MaxVoters * consensus.Lookback

// New returns an engine that runs nothing yet.
func New(cfg Config) *Engine {
	if cfg.MinDelta == 0 {
		cfg.MinDelta = 50 * time.Millisecond
	}
	if cfg.MaxDelta == 0 {
		cfg.MaxDelta = 10 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Engine{cfg: cfg, self: cfg.Key.Peer(), delta: cfg.MinDelta}
}

// Instance implements consensus.Engine.
func (e *Engine) Instance() (uint64, bool) {
	if e.run == nil {
		return 0, false
	}
	return e.run.start.Instance, true
}

// Step implements consensus.Engine.
func (e *Engine) Step(now time.Time, ev wire.EngineEvent) []wire.EngineCommand {
	switch ev := ev.(type) {
	case wire.EngineStart:
		e.begin(now, ev)
	case wire.EngineVote:
		e.receive(now, ev.Env)
	case wire.EngineAlarm:
		if e.run != nil {
			e.run.now = now
			e.run.fail(e.run.part.ReceiveAlarm(context.Background()))
		}
	case wire.EngineRebroadcast:
		if e.run != nil {
			e.run.again()
		}
	}
	return e.finish()
}

// begin abandons the running instance and starts another.
func (e *Engine) begin(now time.Time, st wire.EngineStart) {
	e.next = st.Instance + 1
	e.run = nil
	in, err := newInstance(e, now, st)
	if err != nil {
		e.cfg.Logger.Error("start instance", "instance", st.Instance, "err", err)
		return
	}
	e.run = in
	in.fail(in.part.StartInstanceAt(st.Instance, now))
	in.fail(in.part.ReceiveAlarm(context.Background()))
	var mine []heldVote
	e.hold = slices.DeleteFunc(e.hold, func(h heldVote) bool {
		if h.v.Vote.Instance == st.Instance {
			mine = append(mine, h)
		}
		return h.v.Vote.Instance <= st.Instance
	})
	slices.SortStableFunc(mine, func(a, b heldVote) int {
		x, y := a.v.Vote, b.v.Vote
		return bytes.Compare(slotOf(x.Instance, x.Round, x.Phase, a.v.Rank), slotOf(y.Instance, y.Round, y.Phase, b.v.Rank))
	})
	for _, h := range mine {
		in.give(h.sender, h.v)
	}
}

// receive delivers a vote or holds it until its instance begins.
func (e *Engine) receive(now time.Time, env wire.Envelope) {
	v, err := wire.OpenVote(env.Body)
	if err != nil || v.Vote.Instance != env.Round || env.Sender == e.self {
		e.cfg.Logger.Debug("vote refused", "peer", env.Sender.Short(), "err", err)
		return
	}
	if e.run != nil && v.Vote.Instance == e.run.start.Instance {
		e.run.now = now
		e.run.give(env.Sender, v)
		return
	}
	if v.Vote.Instance < e.next || v.Vote.Instance >= e.next+consensus.Lookback || len(e.hold) >= maxHeld {
		return
	}
	mine := 0
	for _, h := range e.hold { // one vote a slot and sender
		if h.sender != env.Sender {
			continue
		}
		mine++
		a, b := h.v.Vote, v.Vote
		if mine >= maxHeld/wire.MaxVoters || a.Instance == b.Instance && a.Round == b.Round && a.Phase == b.Phase {
			return
		}
	}
	e.hold = append(e.hold, heldVote{env.Sender, v})
}

// Held returns the weight of voters of table from whom votes of an instance are
// held: others have begun it.
func (e *Engine) Held(instance uint64, table wire.Table) uint64 {
	seen := map[wire.PeerID]bool{}
	weight := uint64(0)
	for _, h := range e.hold {
		if h.v.Vote.Instance == instance && !seen[h.sender] {
			seen[h.sender] = true
			weight += table.Of(h.sender)
		}
	}
	return weight
}

// finish collects the running instance's commands and closes it if it decided.
func (e *Engine) finish() []wire.EngineCommand {
	in := e.run
	if in == nil {
		return nil
	}
	in.loopback()
	out := append(in.persist, in.sends...)
	in.persist, in.sends = nil, nil
	if in.decided != nil {
		e.adapt(in)
		e.run = nil
		return append(out, wire.EngineDecide{Cert: *in.decided})
	}
	if in.alarm != nil {
		out = append(out, wire.EngineSetAlarm{At: *in.alarm})
		in.alarm = nil
	}
	return out
}

// adapt doubles delta after a base decision although a proposal was held, and
// shrinks it after a success: with delta far below the links' delay every
// decision would be base, for ever.
func (e *Engine) adapt(in *instance) {
	switch {
	case in.decided.Decided():
		e.delta = max(e.cfg.MinDelta, e.delta*9/10)
	case in.start.Proposal != nil:
		e.delta = min(e.cfg.MaxDelta, e.delta*2)
	}
}

// instance is one run of go-f3's participant; it implements gpbft.Host.
type instance struct {
	e       *Engine
	start   wire.EngineStart
	part    *gpbft.Participant
	pt      *gpbft.PowerTable
	rank    gpbft.ActorID
	votes   bool // this peer is in the table
	now     time.Time
	tips    tipBook
	told    map[wire.PeerID]int // new tips that each voter has named, at most maxTold
	sent    map[gpbft.Instant][]byte
	own     []*gpbft.GMessage // to be delivered to ourselves
	persist []wire.EngineCommand
	sends   []wire.EngineCommand
	alarm   *time.Time
	decided *wire.Cert
}

func newInstance(e *Engine, now time.Time, st wire.EngineStart) (*instance, error) {
	pt, err := powerTable(st.Table)
	if err != nil {
		return nil, err
	}
	in := &instance{e: e, start: st, pt: pt, now: now, tips: tipBook{}, told: map[wire.PeerID]int{}, sent: map[gpbft.Instant][]byte{}}
	for _, p := range st.Table {
		if p.Peer == e.self {
			in.rank, in.votes = gpbft.ActorID(p.Rank), true
		}
	}
	tips := []wire.Tip{st.Base}
	if st.Proposal != nil {
		tips = append(tips, *st.Proposal)
	}
	if _, err := in.tips.add(len(tips), tips...); err != nil {
		return nil, err
	}
	in.part, err = gpbft.NewParticipant(in,
		gpbft.WithDelta(e.delta), gpbft.WithDeltaBackOffExponent(1.3),
		gpbft.WithCommitteeLookback(consensus.Lookback), gpbft.WithMaxLookaheadRounds(5),
		gpbft.WithRebroadcastBackoff(1.3, 0, 500*time.Millisecond, 3*time.Second))
	return in, err
}

// fail logs an error of go-f3 itself: it never comes from another peer's bytes.
func (in *instance) fail(err error) {
	if err != nil {
		in.e.cfg.Logger.Error("gpbft failed", "instance", in.start.Instance, "err", err)
	}
}

// give hands a vote of another peer to go-f3, which checks signature, power,
// justification and slot.
func (in *instance) give(from wire.PeerID, v wire.Vote) {
	if in.decided != nil {
		return
	}
	sender := in.start.Table.Of(from) > 0
	for _, p := range in.start.Table {
		sender = sender && (p.Peer != from || p.Rank == v.Rank)
	}
	chains := append([]wire.Tip{}, v.Vote.Chain...)
	if v.Just != nil {
		chains = append(chains, v.Just.Vote.Chain...)
	}
	if !sender {
		return
	}
	added, err := in.tips.add(maxTold-in.told[from], chains...)
	in.told[from] += added
	if err != nil {
		in.e.cfg.Logger.Warn("vote refused", "instance", in.start.Instance, "peer", from.Short(), "err", err)
		return
	}
	in.deliver(voteToF3(v, in.start.Base))
}

func (in *instance) deliver(m *gpbft.GMessage) {
	valid, err := in.part.ValidateMessage(context.Background(), m)
	if err != nil {
		in.e.cfg.Logger.Debug("vote refused", "instance", in.start.Instance, "err", err)
		return
	}
	in.fail(in.part.ReceiveMessage(context.Background(), valid))
}

// loopback delivers own votes to ourselves until none is left.
func (in *instance) loopback() {
	for len(in.own) > 0 && in.decided == nil {
		m := in.own[0]
		in.own = in.own[1:]
		in.deliver(m)
	}
}

func (in *instance) again() {
	instants := make([]gpbft.Instant, 0, len(in.sent))
	for i := range in.sent {
		instants = append(instants, i)
	}
	slices.SortFunc(instants, func(a, b gpbft.Instant) int {
		return bytes.Compare(slotOf(a.ID, a.Round, uint64(a.Phase), 0), slotOf(b.ID, b.Round, uint64(b.Phase), 0))
	})
	for _, i := range instants {
		in.sends = append(in.sends, wire.EngineSend{Instance: in.start.Instance, Body: in.sent[i]})
	}
}

func slotOf(instance, round, phase uint64, rank uint32) []byte {
	b := binary.BigEndian.AppendUint64(nil, instance)
	b = binary.BigEndian.AppendUint64(b, round)
	b = append(b, byte(phase))
	return binary.BigEndian.AppendUint32(b, rank)
}

// The methods below implement gpbft.Host.

func (in *instance) GetProposal(context.Context, uint64) (*gpbft.SupplementalData, *gpbft.ECChain, error) {
	chain := []wire.Tip{in.start.Base}
	if in.start.Proposal != nil {
		chain = append(chain, *in.start.Proposal)
	}
	s := supplement(in.start.Base)
	return &s, chainOf(chain), nil
}

func (in *instance) GetCommittee(_ context.Context, i uint64) (*gpbft.Committee, error) {
	if i != in.start.Instance {
		return nil, fmt.Errorf("committee of instance %d is not known yet", i)
	}
	beacon := wire.Sum(append([]byte("hived/beacon/v1\n"), in.start.Base.Record[:]...))
	return &gpbft.Committee{PowerTable: in.pt, Beacon: beacon[:], AggregateVerifier: aggregate{in.pt.Entries.PublicKeys()}}, nil
}

func (in *instance) NetworkName() gpbft.NetworkName { return network(in.e.cfg.Run) }

// RequestBroadcast signs a vote once: if an earlier life signed another value in
// this slot, this one stays silent.
func (in *instance) RequestBroadcast(mb *gpbft.MessageBuilder) error {
	if !in.votes {
		return nil
	}
	m, err := mb.Build(context.Background(), in, in.rank)
	if err != nil {
		return fmt.Errorf("build vote: %w", err)
	}
	p := wire.Marshal(in.tips.payload(&m.Vote))
	slot := append([]byte("vote/"), slotOf(m.Vote.Instance, m.Vote.Round, uint64(m.Vote.Phase), 0)...)
	old, err := in.e.cfg.Slot(slot)
	if err != nil {
		in.e.cfg.Logger.Error("slot cannot be read, staying silent", "instance", m.Vote.Instance, "phase", m.Vote.Phase.String(), "err", err)
		return nil
	}
	if old != nil && !bytes.Equal(old, p) {
		in.e.cfg.Logger.Warn("slot is signed already, staying silent", "instance", m.Vote.Instance, "phase", m.Vote.Phase.String())
		return nil
	}
	body := wire.Marshal(in.tips.vote(m))
	in.persist = append(in.persist, wire.EnginePersist{Slot: slot, Value: p})
	in.sends = append(in.sends, wire.EngineSend{Instance: m.Vote.Instance, Body: body})
	in.sent[gpbft.Instant{ID: m.Vote.Instance, Round: m.Vote.Round, Phase: m.Vote.Phase}] = body
	in.own = append(in.own, m)
	return nil
}

func (in *instance) RequestRebroadcast(at gpbft.Instant) error {
	if body, ok := in.sent[at]; ok {
		in.sends = append(in.sends, wire.EngineSend{Instance: at.ID, Body: body})
	}
	return nil
}

func (in *instance) Time() time.Time { return in.now }

func (in *instance) SetAlarm(at time.Time) { in.alarm = &at }

func (in *instance) Sign(_ context.Context, _ gpbft.PubKey, msg []byte) ([]byte, error) {
	return in.e.cfg.Key.Sign(voteDomain, msg), nil
}

func (in *instance) Verify(key gpbft.PubKey, msg, sig []byte) error {
	if !verify(key, msg, sig) {
		return wire.ErrSignature
	}
	return nil
}

func (in *instance) Aggregate(keys []gpbft.PubKey) (gpbft.Aggregate, error) {
	return aggregate{keys}, nil
}

// ReceiveDecision ends the instance. The next one is begun by Start alone.
func (in *instance) ReceiveDecision(_ context.Context, j *gpbft.Justification) (time.Time, error) {
	c := newCert(in.start.Base, in.tips.payload(&j.Vote).Chain, in.start.Instance, j, in.pt)
	in.decided = &c
	return in.now.Add(24 * time.Hour), nil
}

var _ consensus.Engine = (*Engine)(nil)
