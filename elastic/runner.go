package elastic

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/apiary-net/hived/elastic/decide"
	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/elastic/version"
	"github.com/apiary-net/hived/wire"
)

// Config of a Runner. All fields without a default are required.
type Config struct {
	Genesis *wire.Genesis
	Run     wire.RunID
	Key     wire.Key
	Trainer Trainer
	Net     Network
	KV      KV     // slots and the chain of records
	Bodies  Blocks // contributions and merged updates, kept for the ledger
	States  States // newest versions, by epoch
	// Snapshots is nil where none are kept.
	Snapshots Snapshots
	Log       Log
	Agree     Agreement
	// DataRoot is the root of the data that this peer read; it must be that of
	// the genesis for the peer to train.
	DataRoot wire.Digest
	// Observe is told what happened. It is called from the run's loop and must
	// not block. Default: nothing.
	Observe func(Info)
	Logger  *slog.Logger // default: discards
	Env     Env          // default: Threads
	Plans   *rules.Plans // of the run; default: its own
	Rand    *rand.Rand   // picks whom to pull from; default: seeded by the key
}

// States is a Blocks whose old epochs are deleted whole.
type States interface {
	Blocks
	DropBefore(epoch uint64) error
}

// Info is one thing for people and metrics; exactly one field is set.
type Info struct {
	Round    *RoundInfo
	Waiting  *decide.Waiting
	Finished *wire.Record
	Trouble  *Trouble
}

// Trouble is an error that stops the work of this peer and that is tried again;
// nil says that it has passed.
type Trouble struct{ Err error }

// RoundInfo is a decided round.
type RoundInfo struct {
	Record *wire.Record
	Took   time.Duration // since the record before was learnt
	Decide time.Duration // of that the agreement; 0 if this peer took no part
	Bytes  uint64        // payload of the own contribution
	// Instance decided the record; 0 for the start record.
	Instance uint64
}

// Runner takes part in one run. New starts nothing; Run owns every task.
type Runner struct {
	cfg      Config
	env      Env
	self     wire.PeerID
	model    *version.Model
	mach     *decide.Machine // owned by the loop
	chain    *chain
	cache    *cache
	progress atomic.Pointer[progress] // replaced by the loop
	log      *slog.Logger

	inbox  Signal // there is something for the loop
	events *mailbox[decide.Event]
	votes  *mailbox[wire.Envelope]
	calls  *mailbox[*call]
	jobs   *mailbox[func(context.Context)] // for the worker
	slices *mailbox[sliceIn]               // for the window in progress
	ended  chan struct{}                   // closed when the run has finished
	tasks  atomic.Int64                    // that live
	idle   Signal                          // no task lives

	work *worker // owned by the worker task

	// The rest is owned by the loop.
	queue     []decide.Event // fed back to the machine before anything else
	wakeAt    time.Time      // when the machine wants a Tick
	alarmAt   time.Time      // when the engine wants an alarm; zero: never
	tickAt    time.Time      // when somebody is asked for what is lacking
	fetchers  *gate          // bounds concurrent body fetches
	merges    *gate          // bounds concurrent merges and fetches of groups
	startedAt time.Time      // when the engine's instance started
	decideIn  time.Duration
	next      uint64 // instance that decides the next record
	training  uint64 // round whose local work is wanted; 0: none
	stopTrain context.CancelFunc
	windowEnd *flag  // raised when another member ends the window; nil outside
	committed uint64 // round in which another member has said its header
	left      bool   // this peer may go
	troubled  bool
	unread    error           // why a slot could not be read as the run was restored
	ctx       context.Context // of the loop; set by Run, for its tasks
}

// call is something that another task wants done in the loop.
type call struct {
	do    func() error // its error ends the run
	taken atomic.Bool  // by the loop, or by the asker that gives up
	done  flag         // up: it was done; else the run has ended
}

// StateEpoch is how many versions share an epoch of the state store.
const StateEpoch = 8

const (
	eventQueue  = 4096
	maxFetchers = 8
	askInterval = time.Second     // between two Dues
	sendLimit   = 5 * time.Second // of an announcement or a vote
)

// New checks cfg, restores what an earlier life persisted and returns a runner.
func New(cfg Config) (*Runner, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Env == nil {
		cfg.Env = Threads{}
	}
	if cfg.Observe == nil {
		cfg.Observe = func(Info) {}
	}
	if cfg.Plans == nil {
		cfg.Plans = rules.NewPlans(cfg.Genesis)
	}
	self := cfg.Key.Peer()
	if cfg.Rand == nil {
		cfg.Rand = rand.New(rand.NewPCG(uint64(self[0])<<8|uint64(self[1]), uint64(self[2])<<8|uint64(self[3])))
	}
	model, err := version.NewModel(cfg.Genesis, cfg.Trainer.Schema())
	if err != nil {
		return nil, err
	}
	if cfg.DataRoot != cfg.Genesis.Data[0].Root {
		return nil, fmt.Errorf("data: root %s here, %s in the genesis of run %s", cfg.DataRoot.Short(), cfg.Genesis.Data[0].Root.Short(), cfg.Genesis.Name)
	}
	env, inbox := cfg.Env, cfg.Env.NewSignal()
	r := &Runner{cfg: cfg, env: env, self: self, model: model, chain: &chain{kv: cfg.KV}, cache: newCache(),
		log:   cfg.Logger.With("run", cfg.Run.Short()),
		inbox: inbox, events: newMailbox[decide.Event](env, inbox, eventQueue), votes: newMailbox[wire.Envelope](env, inbox, eventQueue),
		calls: newMailbox[*call](env, inbox, eventQueue), jobs: newMailbox[func(context.Context)](env, env.NewSignal(), 16),
		slices: newMailbox[sliceIn](env, env.NewSignal(), 1024), ended: make(chan struct{}), idle: env.NewSignal(),
		fetchers: newGate(env, maxFetchers), merges: newGate(env, maxFetchers)}
	r.mach = decide.NewMachine(decide.MachineConfig{Genesis: cfg.Genesis, Run: cfg.Run, Self: self, Voters: cfg.Agree, LastHave: r.lastHave, Plans: cfg.Plans, Parts: model.Parts(), Rand: cfg.Rand})
	r.progress.Store(&progress{})
	r.work = &worker{r: r}
	if err := r.restore(); err != nil {
		return nil, err
	}
	return r, nil
}

// restore replays the persisted chain into the agreement and the machine, and
// loads the newest local state.
func (r *Runner) restore() error {
	var h rules.History
	next := uint64(0)
	first, err := r.chain.tail()
	if err != nil {
		return fmt.Errorf("restore run %s: %w", r.cfg.Run.Short(), err)
	}
	err = r.chain.walk(first, func(it *wire.OpenedItem) error {
		rec := it.Rec
		c, err := it.OpenCert()
		if err != nil {
			return err
		}
		if c != nil {
			next = c.Instance + 1
			r.cfg.Agree.Final(c.Instance, rec)
		} else {
			r.cfg.Agree.Final(0, rec)
		}
		if len(h) == 0 {
			h = rules.History{rec}
		} else {
			h = h.With(rec)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("restore run %s: %w", r.cfg.Run.Short(), err)
	}
	b, err := r.chain.base()
	if err != nil {
		return fmt.Errorf("restore run %s: %w", r.cfg.Run.Short(), err)
	}
	if b != nil && len(h) > 0 && b.Instance >= next && b.Base == h.Head().Digest() {
		next = b.Instance + 1
		r.cfg.Agree.Final(b.Instance, nil)
	}
	start, err := r.work.restore()
	if err != nil {
		return fmt.Errorf("restore run %s: %w", r.cfg.Run.Short(), err)
	}
	if len(h) > 0 {
		r.next = next
		r.mach.Restore(r.env.Now(), h, next, start, r.work.state.Round, r.work.state.ID)
		r.cache.turn(h.Head())
		r.progress.Store(&progress{h.Head()})
	}
	if r.unread != nil {
		return fmt.Errorf("restore run %s: %w", r.cfg.Run.Short(), r.unread)
	}
	return nil
}

// do executes one command. An error means that this peer must stop.
func (r *Runner) do(c decide.Command) error {
	switch c := c.(type) {
	case decide.PersistRecord:
		return r.persistRecord(c)
	case decide.PersistCert:
		if err := r.chain.putBase(c.Cert); err != nil {
			return err
		}
		r.next = c.Cert.Instance + 1
		r.cfg.Agree.Final(c.Cert.Instance, nil)
		return r.step(decide.Persisted{})
	case decide.Say:
		return r.say(c)
	case decide.Train:
		r.training = c.Plan.Round
		return r.train(c)
	case decide.StopTraining:
		r.training = 0
		if r.stopTrain != nil {
			r.stopTrain()
		}
	case decide.FetchBody:
		r.spawn(func() { r.fetchBody(r.ctx, c) })
	case decide.ShowTo:
		r.cache.show(c.Peers)
	case decide.ShowAll:
		r.cache.showAll()
	case decide.EndWindow:
		if c.Committed {
			r.committed = c.Round
		}
		r.endWindow()
	case decide.MergeGroup:
		r.spawn(func() { r.mergeGroup(r.ctx, c) })
	case decide.FetchGroup:
		r.spawn(func() { r.fetchGroup(r.ctx, c) })
	case decide.StartInstance:
		r.startedAt = r.env.Now()
		return r.agree(r.engineStart(c))
	case decide.Rebroadcast:
		return r.agree(wire.EngineRebroadcast{})
	case decide.Apply:
		return r.jobs.put(r.ctx, Forever, func(ctx context.Context) { r.work.apply(ctx, c) })
	case decide.Connect:
		r.connect(c.Peers)
	case decide.AskAround:
		return r.step(decide.Due{Connected: r.cfg.Net.Peers()})
	case decide.Pull:
		r.pull(c)
	case decide.Left:
		r.left = true
	case decide.Waiting:
		r.cfg.Observe(Info{Waiting: &c})
	case decide.RoundDone:
		info := &RoundInfo{Record: c.Record, Took: c.Took, Decide: r.decideIn, Bytes: r.work.sent.Load()}
		if c.Cert != nil {
			info.Instance = c.Cert.Instance
		}
		r.cfg.Observe(Info{Round: info})
		r.decideIn = 0
	case decide.Wake:
		r.wakeAt = c.At
	case decide.Finished:
		r.finish(c.Record)
	}
	return nil
}

// finish says once that the run is over.
func (r *Runner) finish(last *wire.Record) {
	select {
	case <-r.ended:
	default:
		close(r.ended)
		r.cfg.Observe(Info{Finished: last})
	}
}

func (r *Runner) persistRecord(c decide.PersistRecord) error {
	if err := r.chain.put(c); err != nil {
		return err
	}
	instance := uint64(0)
	if c.Cert != nil {
		instance = c.Cert.Instance
	}
	if err := pruneSlots(r.cfg.KV, c.Record.Round); err != nil {
		return err
	}
	r.cfg.Agree.Final(instance, c.Record)
	r.next = instance + 1
	if c.Cert == nil {
		r.next = 0
	}
	r.cache.turn(c.Record)
	r.progress.Store(&progress{c.Record})
	return r.step(decide.Persisted{})
}

// connect asks for connections. Who cannot be reached is not waited for. It runs in
// the loop.
func (r *Runner) connect(need []wire.PeerID) {
	r.spawn(func() {
		ctx, cancel := r.env.Context(r.ctx, 2*sendLimit)
		defer cancel()
		for _, p := range r.cfg.Net.Keep(ctx, need) {
			r.post(r.ctx, decide.Connected{Peer: p})
		}
	})
}

// say signs, makes durable, announces and hears a statement.
func (r *Runner) say(c decide.Say) error {
	env, err := r.seal(c)
	if err != nil {
		return err
	}
	b := env.Bytes()
	r.spawn(func() {
		ctx, cancel := r.env.Context(r.ctx, sendLimit)
		defer cancel()
		if err := r.announce(ctx, c.To, b); err != nil {
			r.log.Debug("announcement failed", "kind", env.Kind.String(), "err", err)
		}
	})
	r.queue = append(r.queue, decide.Heard{Env: env})
	return nil
}

// announce gives a statement to some peers, or to everybody if to is nil.
func (r *Runner) announce(ctx context.Context, to []wire.PeerID, b []byte) error {
	if to == nil {
		return r.cfg.Net.Publish(ctx, b)
	}
	return r.cfg.Net.Tell(ctx, to, b)
}

// seal returns the statement that c's slot holds, or signs c and fills the slot.
func (r *Runner) seal(c decide.Say) (wire.Envelope, error) {
	key := []byte(slotPrefix + c.Slot)
	if c.Slot != "" && !c.Latest {
		if old, err := r.cfg.KV.Get(key); err == nil {
			return wire.OpenBlock(old)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return wire.Envelope{}, fmt.Errorf("read slot %s: %w", c.Slot, err)
		}
	}
	env := wire.Seal(r.cfg.Key, c.Kind, r.cfg.Run, c.Round, c.Body)
	if c.Slot == "" {
		return env, nil
	}
	if err := r.cfg.KV.Apply([][2][]byte{{key, env.Bytes()}}, nil, true); err != nil {
		return env, fmt.Errorf("fill slot %s: %w", c.Slot, err)
	}
	return env, nil
}

// slotHeld returns the statement in a slot, if there is one. A slot that cannot be
// read is not an empty one.
func (r *Runner) slotHeld(name string) (env wire.Envelope, held bool, err error) {
	b, err := r.cfg.KV.Get([]byte(slotPrefix + name))
	if errors.Is(err, fs.ErrNotExist) {
		return env, false, nil
	}
	if err == nil {
		env, err = wire.OpenBlock(b)
	}
	if err != nil {
		return env, false, fmt.Errorf("read slot %s: %w", name, err)
	}
	return env, true, nil
}

// lastHave returns the newest HAVE of a kind that this peer signed for a round.
func (r *Runner) lastHave(kind wire.Kind, round uint64) *wire.Have {
	env, held, err := r.slotHeld(decide.Slot(kind.String(), round))
	if err != nil || !held {
		r.unread = errors.Join(r.unread, err)
		return nil
	}
	h, err := wire.Read[wire.Have](env)
	r.unread = errors.Join(r.unread, err)
	return h
}

// engineStart is what the engine begins an instance with.
func (r *Runner) engineStart(c decide.StartInstance) wire.EngineStart {
	s := wire.EngineStart{Instance: c.Instance, Base: wire.TipOf(c.Base), Table: r.cfg.Agree.Table(c.Instance)}
	if c.Proposal != nil {
		t := wire.TipOf(c.Proposal)
		s.Proposal = &t
	}
	return s
}

// agree runs the engine and executes its commands in order.
func (r *Runner) agree(ev wire.EngineEvent) error {
	for _, c := range r.cfg.Agree.Step(r.env.Now(), ev) {
		switch c := c.(type) {
		case wire.EnginePersist:
			if err := r.cfg.KV.Apply([][2][]byte{{append([]byte(slotPrefix), c.Slot...), c.Value}}, nil, true); err != nil {
				return fmt.Errorf("persist vote: %w", err)
			}
		case wire.EngineSend:
			r.sendVote(c)
		case wire.EngineDecide:
			if !r.startedAt.IsZero() {
				r.decideIn = r.env.Now().Sub(r.startedAt)
			}
			r.queue = append(r.queue, decide.Decided{Cert: c.Cert})
		case wire.EngineSetAlarm:
			r.alarmAt = c.At
		}
	}
	return r.drain()
}

// sendVote gives a vote to every other voter over direct streams.
func (r *Runner) sendVote(c wire.EngineSend) {
	b := wire.Seal(r.cfg.Key, wire.KindVote, r.cfg.Run, c.Instance, c.Body).Bytes()
	for _, v := range r.cfg.Agree.Table(c.Instance) {
		if v.Peer == r.self {
			continue
		}
		r.spawn(func() {
			ctx, cancel := r.env.Context(r.ctx, sendLimit)
			defer cancel()
			if err := r.cfg.Net.Send(ctx, v.Peer, SendVote, b); err != nil {
				r.log.Debug("vote not delivered", "peer", v.Peer.Short(), "err", err)
			}
		})
	}
}
