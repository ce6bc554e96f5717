package netsim

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/apiary-net/hived/consensus/gpbft"
	"github.com/apiary-net/hived/elastic"
	"github.com/apiary-net/hived/elastic/decide"
	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/shards"
	"github.com/apiary-net/hived/wire"
)

// MemConfig of a Mem.
type MemConfig struct {
	Peers    int
	Spare    int // further keys that the genesis admits
	Rounds   uint64
	Preset   string // of elastic.Presets; default diloco
	Codec    string // default: the preset's
	Topology string // default: the preset's
	Seed     uint64
	Steps    uint32
	StepTime time.Duration // of one local step; default 10 ms
	Delay    time.Duration // one way; default 2 ms
	Logger   *slog.Logger
	Change   func(*wire.Genesis) // may be nil
}

// Mem is a swarm of real runners in memory, in their own goroutines.
type Mem struct {
	Genesis wire.Genesis
	Run     wire.RunID
	Keys    []wire.Key

	cfg    MemConfig
	schema wire.Schema
	root   wire.Digest

	mu    sync.Mutex
	nodes map[wire.PeerID]*MemNode
	cut   map[[2]wire.PeerID]bool // links that carry nothing
}

// MemNode is one peer: its stores outlive its runner.
type MemNode struct {
	Key    wire.Key
	Runner *elastic.Runner
	// Forge, if set, may change a block before another peer gets it.
	Forge func(id wire.CID, b []byte) []byte

	mem    *Mem
	kv     *shards.MemKV
	bodies *memBlocks
	states *memBlocks
	agree  elastic.Agreement
	cancel context.CancelFunc
	ended  chan struct{}
	err    error

	mu      sync.Mutex
	speed   float64        // divides the time of a local step
	records []*wire.Record // decided, in order
	final   *wire.Record
}

// memBlocks is a block store in memory.
type memBlocks struct {
	mu   sync.Mutex
	m    map[wire.CID]memBlock
	full bool // Put fails
}

type memBlock struct {
	epoch uint64
	b     []byte
}

func newMemBlocks() *memBlocks { return &memBlocks{m: map[wire.CID]memBlock{}} }

func (s *memBlocks) Put(epoch uint64, b []byte) (wire.CID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full {
		return wire.CID{}, errors.New("no space left")
	}
	id := wire.RawCID(b)
	s.m[id] = memBlock{epoch, slices.Clone(b)}
	return id, nil
}

func (s *memBlocks) Sync() error { return nil }

func (s *memBlocks) Get(id wire.CID) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.m[id]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return b.b, nil
}

func (s *memBlocks) DropBefore(epoch uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, b := range s.m {
		if b.epoch < epoch {
			delete(s.m, id)
		}
	}
	return nil
}

// memLog counts entries; the ledger's own tests check the log.
type memLog struct{}

func (memLog) Append(context.Context, []wire.EntryBody) (wire.Head, error) { return wire.Head{}, nil }

// NewMem makes the keys and the genesis of a swarm; Start starts its peers.
func NewMem(cfg MemConfig) (*Mem, error) {
	if cfg.StepTime == 0 {
		cfg.StepTime = 10 * time.Millisecond
	}
	if cfg.Delay == 0 {
		cfg.Delay = 2 * time.Millisecond
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	p, err := rules.PresetNamed(cfg.Preset)
	if err != nil {
		return nil, err
	}
	m := &Mem{cfg: cfg, nodes: map[wire.PeerID]*MemNode{}, cut: map[[2]wire.PeerID]bool{},
		schema: wire.Schema{{Name: "a", Shape: []uint32{40, 150}}, {Name: "b", Shape: []uint32{77}}}, root: wire.Sum([]byte("data"))}
	for i := range cfg.Peers + cfg.Spare {
		seed := sha256.Sum256(fmt.Appendf(nil, "hived/mem/%d/%d", cfg.Seed, i))
		k, err := wire.KeyFromSeed(seed[:])
		if err != nil {
			return nil, err
		}
		m.Keys = append(m.Keys, k)
	}
	g := wire.Genesis{V: 1, Numerics: 1, Name: "mem", Creator: m.Keys[0].Peer(), Model: wire.ModelSpec{Name: "quadratic", Args: []wire.Arg{}},
		Schema: m.schema.Digest(), Data: []wire.DataContract{{Name: "none", Root: m.root, Train: 1 << 20, Test: 1}}, Preset: p.Preset,
		PartValues: 4096, Rounds: cfg.Rounds, MinPeers: uint32(cfg.Peers), MinCounted: 1, MinVoters: 1, Group: wire.MaxMembers,
		Deadline: wire.Deadline{MinMs: 200, MaxMs: 20_000, Mads: 4}, Replay: wire.ReplayFull, Admission: wire.Admission{Mode: "allow-list"}, Seed: cfg.Seed}
	g.Preset.Cadence.Steps = max(1, cfg.Steps)
	g.Preset.Inner = wire.Inner{Optimizer: "sgd", LR: 0.1, Batch: 4}
	if g.Preset.Cadence.Window {
		g.Preset.Outer = wire.Outer{Rule: "adamw", LR: 0.05, Beta1: 0.9, Beta2: 0.99, Eps: 1e-8}
	}
	if cfg.Codec != "" {
		g.Preset.Codec = cfg.Codec
	}
	if cfg.Topology != "" {
		g.Preset.Topology = cfg.Topology
	}
	for _, k := range m.Keys {
		g.Admission.Allow = append(g.Admission.Allow, k.Peer())
	}
	slices.SortFunc(g.Admission.Allow, wire.PeerID.Compare)
	if cfg.Change != nil {
		cfg.Change(&g)
	}
	m.Genesis, m.Run, err = wire.OpenGenesis(wire.Seal(m.Keys[0], wire.KindGenesis, wire.RunID{}, 0, &g).Bytes())
	return m, err
}

// Start starts peer i, or starts it again with the stores of its earlier life.
func (m *Mem) Start(ctx context.Context, i int) (*MemNode, error) {
	key := m.Keys[i]
	m.mu.Lock()
	n := m.nodes[key.Peer()]
	if n == nil {
		n = &MemNode{Key: key, speed: 1, mem: m, kv: shards.NewMemKV(), bodies: newMemBlocks(), states: newMemBlocks()}
		m.nodes[key.Peer()] = n
	}
	m.mu.Unlock()
	log := m.cfg.Logger.With("peer", key.Peer().Short())
	n.agree = gpbft.NewAgreement(gpbft.Config{Key: key, Run: m.Run, Slot: elastic.Slots(n.kv), Logger: log})
	r, err := elastic.New(elastic.Config{Genesis: &m.Genesis, Run: m.Run, Key: key, Trainer: &memTrainer{n: n, m: &simModel{cfg: ModelConfig{Kind: "quadratic", LR: 0.1}, schema: m.schema}}, Net: n, KV: n.kv,
		Bodies: n.bodies, States: n.states, Log: memLog{}, Agree: n.agree, DataRoot: m.root, Observe: n.observe, Logger: log,
		Rand: rand.New(rand.NewPCG(m.cfg.Seed, uint64(i)))})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	n.mu.Lock()
	n.records, n.final = nil, nil
	n.mu.Unlock()
	m.mu.Lock()
	n.Runner, n.cancel, n.ended = r, cancel, make(chan struct{})
	m.mu.Unlock()
	go func() {
		n.err = r.Run(ctx)
		close(n.ended)
	}()
	m.notify(ctx, n, true)
	return n, nil
}

// notify tells both ends of every link of n that it came up or went down.
func (m *Mem) notify(ctx context.Context, n *MemNode, up bool) {
	for _, o := range m.others(n) {
		go o.Runner.Connected(ctx, n.Key.Peer(), up)
		if up {
			go n.Runner.Connected(ctx, o.Key.Peer(), up)
		}
	}
}

// others returns the running peers that n can reach.
func (m *Mem) others(n *MemNode) []*MemNode {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []*MemNode
	for _, o := range m.nodes {
		if o != n && o.Running() && !m.cut[link(n, o)] {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b *MemNode) int { return a.Key.Peer().Compare(b.Key.Peer()) })
	return out
}

func link(a, b *MemNode) [2]wire.PeerID {
	p, q := a.Key.Peer(), b.Key.Peer()
	if p.Compare(q) > 0 {
		p, q = q, p
	}
	return [2]wire.PeerID{p, q}
}

// Cut makes the link between two peers carry nothing, or heals it.
func (m *Mem) Cut(ctx context.Context, a, b *MemNode, cut bool) {
	m.mu.Lock()
	m.cut[link(a, b)] = cut
	m.mu.Unlock()
	if a.Running() && b.Running() {
		go a.Runner.Connected(ctx, b.Key.Peer(), !cut)
		go b.Runner.Connected(ctx, a.Key.Peer(), !cut)
	}
}

// SetSpeed makes the peer's local steps faster or slower from now on; it is born
// with 1.
func (n *MemNode) SetSpeed(s float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.speed = s
}

// Running reports whether the peer's runner runs.
func (n *MemNode) Running() bool {
	if n.ended == nil {
		return false
	}
	select {
	case <-n.ended:
		return false
	default:
		return true
	}
}

// Kill ends the peer at once; its stores stay.
func (n *MemNode) Kill(ctx context.Context) error {
	n.cancel()
	<-n.ended
	n.mem.notify(ctx, n, false)
	return n.err
}

// FillDisk makes the peer's block stores refuse what is written, or take it again.
func (n *MemNode) FillDisk(full bool) {
	for _, s := range []*memBlocks{n.bodies, n.states} {
		s.mu.Lock()
		s.full = full
		s.mu.Unlock()
	}
}

// Wipe forgets the peer's stores: a disk is lost.
func (n *MemNode) Wipe() {
	n.kv, n.bodies, n.states = shards.NewMemKV(), newMemBlocks(), newMemBlocks()
}

func (n *MemNode) observe(i elastic.Info) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i.Round != nil {
		n.records = append(n.records, i.Round.Record)
	}
	if i.Finished != nil {
		n.final = i.Finished
	}
}

// Records returns what the peer's present life has seen decided.
func (n *MemNode) Records() []*wire.Record {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.records)
}

// Version returns the newest version at the peer.
func (n *MemNode) Version(ctx context.Context) (elastic.Snapshot, error) { return n.Runner.Status(ctx) }

// Announce gives bytes to every peer that n reaches, as its topic would.
func (n *MemNode) Announce(b []byte) {
	for _, o := range n.mem.others(n) {
		time.AfterFunc(n.mem.cfg.Delay, func() {
			if e, v := o.Runner.Judge(b); v == decide.Accept && o.Running() {
				o.Runner.Hear(context.Background(), e)
			}
		})
	}
}

// Publish implements elastic.Network.
func (n *MemNode) Publish(_ context.Context, b []byte) error {
	n.Announce(b)
	return nil
}

// Tell implements elastic.Network.
func (n *MemNode) Tell(ctx context.Context, _ []wire.PeerID, b []byte) error {
	return n.Publish(ctx, b)
}

// Keep implements elastic.Network: all are connected.
func (n *MemNode) Keep(context.Context, []wire.PeerID) []wire.PeerID { return nil }

func (n *MemNode) reach(p wire.PeerID) (*MemNode, error) {
	for _, o := range n.mem.others(n) {
		if o.Key.Peer() == p {
			return o, nil
		}
	}
	return nil, fmt.Errorf("peer %s is not connected", p.Short())
}

// Send implements elastic.Network.
func (n *MemNode) Send(_ context.Context, to wire.PeerID, kind elastic.SendKind, b []byte) error {
	o, err := n.reach(to)
	if err != nil {
		return err
	}
	time.AfterFunc(n.mem.cfg.Delay, func() {
		if !o.Running() {
			return
		}
		if kind == elastic.SendVote {
			o.Runner.Vote(n.Key.Peer(), b)
		} else {
			o.Runner.Slice(n.Key.Peer(), b)
		}
	})
	return nil
}

func (n *MemNode) wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Pull implements elastic.Network.
func (n *MemNode) Pull(ctx context.Context, from wire.PeerID, req []byte) (*wire.PullAnswer, error) {
	if err := n.wait(ctx, 2*n.mem.cfg.Delay); err != nil {
		return nil, err
	}
	o, err := n.reach(from)
	if err != nil {
		return nil, err
	}
	a, err := o.Runner.Answer(ctx, req)
	if err != nil {
		return nil, err
	}
	return wire.OpenPullAnswer(a.Bytes())
}

// Fetch implements elastic.Network.
func (n *MemNode) Fetch(ctx context.Context, ids []wire.CID, from []wire.PeerID, got func(wire.CID, []byte) error) error {
	if err := n.wait(ctx, 2*n.mem.cfg.Delay); err != nil {
		return err
	}
	for _, id := range ids {
		b, err := n.fetchOne(id, from)
		if err != nil {
			return err
		}
		if err := got(id, b); err != nil {
			return err
		}
	}
	return nil
}

func (n *MemNode) fetchOne(id wire.CID, from []wire.PeerID) ([]byte, error) {
	last := error(fs.ErrNotExist)
	for _, p := range from {
		o, err := n.reach(p)
		if err != nil {
			last = err
			continue
		}
		b, err := o.Runner.Block(n.Key.Peer(), id)
		if err != nil {
			last = err
			continue
		}
		if o.Forge != nil {
			b = o.Forge(id, b)
		}
		if !id.Names(b) {
			last = errors.New("a holder sent other bytes")
			continue
		}
		return b, nil
	}
	return nil, fmt.Errorf("fetch %s: %w", id.Short(), last)
}

// Peers implements elastic.Network.
func (n *MemNode) Peers() []wire.PeerID {
	var out []wire.PeerID
	for _, o := range n.mem.others(n) {
		out = append(out, o.Key.Peer())
	}
	return out
}

// memTrainer does the simulations' quadratic model in a runner's own goroutine.
type memTrainer struct {
	n     *MemNode
	m     *simModel
	theta []float32
}

func (t *memTrainer) Schema() wire.Schema { return t.m.schema }

func (t *memTrainer) Init() (params, buffers []float32) { return t.m.init() }

func (t *memTrainer) Load(_ context.Context, params, _ []float32) error {
	t.theta = slices.Clone(params)
	return nil
}

// step lets the time of a local step pass.
func (t *memTrainer) step(ctx context.Context) error {
	t.n.mu.Lock()
	speed := t.n.speed
	t.n.mu.Unlock()
	return t.n.wait(ctx, time.Duration(float64(t.n.mem.cfg.StepTime)/speed))
}

func (t *memTrainer) Gradient(ctx context.Context, spans []wire.Span, dst []float32) (float32, error) {
	if err := t.step(ctx); err != nil {
		return 0, err
	}
	return t.m.gradient(t.theta, spans, dst), nil
}

func (t *memTrainer) Train(ctx context.Context, j elastic.Job) (elastic.Update, error) {
	most := min(uint64(j.Steps), wire.SpanLen(j.Spans)/uint64(j.Batch))
	steps := uint64(0)
	for steps < most && t.step(ctx) == nil {
		steps++
	}
	return t.m.update(t.theta, j, steps), nil
}

func (t *memTrainer) StateDigest() wire.Digest { return wire.Digest{} }
