package netsim

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/apiary-net/hived/elastic"
	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/elastic/version"
	"github.com/apiary-net/hived/netsim/adversary"
	"github.com/apiary-net/hived/wire"
)

// SwarmConfig of a Swarm.
type SwarmConfig struct {
	Peers     int    // whose processes are started with the run
	Spare     int    // further machines that the genesis admits
	Strangers int    // of the machines of the start, the last ones: not admitted
	Rounds    uint64 // of the run
	Preset    string // of elastic.Presets; default diloco
	Codec     string // default: the preset's
	Topology  string // default: the preset's
	Steps     uint32 // local steps of a round, or of a window; default the preset's
	Seed      uint64
	Model     ModelConfig
	MinPeers  uint32 // default Peers
	Group     uint32 // most members of an averaging group; default 32
	// MinDeadline and MaxDeadline bound a round; default 200 ms and 20 s.
	MinDeadline, MaxDeadline time.Duration
	Link                     Link          // of every peer; default 1 ms one way
	Detect                   time.Duration // until a dead connection is noticed; default 100 ms
	Logger                   *slog.Logger  // default: discards
	Trail                    *Trail        // default: one that keeps only the digest
	Change                   func(*wire.Genesis)
}

// Swarm is a run of real runners, engines and ledgers on one event loop.
type Swarm struct {
	Loop    *Loop
	Genesis wire.Genesis
	Run     wire.RunID
	Nodes   []*Node // by index: those of the start first

	cfg    SwarmConfig
	log    *slog.Logger
	rng    *rand.Rand
	ctx    context.Context
	cancel context.CancelFunc
	root   wire.Digest
	model  *simModel
	pool   *Pool
	values *values
	byID   map[wire.PeerID]*Node
	sorted []*Node // by peer id
	cuts   map[[2]int]bool
	check  *checker
	trail  *Trail
	plans  *rules.Plans
	sealed []byte // genesis

	onRecord func(round uint64) // may be nil; called when anybody first decides it
	computed float64            // local steps that were done, also in vain
	uptime   time.Duration      // of all processes that have ended
	closed   bool

	omniscient     bool              // the honest updates are booked, for those who misuse them
	newest, before *adversary.Honest // of the newest round and of the one before
}

// NewSwarm makes the machines and the genesis. Nothing runs yet.
func NewSwarm(cfg SwarmConfig) (*Swarm, error) {
	if cfg.Preset == "" {
		cfg.Preset = "diloco"
	}
	if cfg.MinPeers == 0 {
		cfg.MinPeers = uint32(cfg.Peers - cfg.Strangers)
	}
	if cfg.Group == 0 {
		cfg.Group = wire.MaxMembers
	}
	if cfg.MinDeadline == 0 {
		cfg.MinDeadline = 200 * time.Millisecond
	}
	if cfg.MaxDeadline == 0 {
		cfg.MaxDeadline = 20 * time.Second
	}
	if cfg.Link == (Link{}) {
		cfg.Link.Latency = time.Millisecond
	}
	if cfg.Detect == 0 {
		cfg.Detect = 100 * time.Millisecond
	}
	if cfg.Trail == nil {
		cfg.Trail = NewTrail(nil)
	}
	sw := &Swarm{Loop: NewLoop(), cfg: cfg, log: discard(cfg.Logger), rng: rand.New(rand.NewPCG(cfg.Seed, 0x6e657473696d)),
		root: wire.Sum([]byte("netsim")), pool: NewPool(), values: newValues(), byID: map[wire.PeerID]*Node{}, cuts: map[[2]int]bool{}, trail: cfg.Trail}
	sw.trail.loop = sw.Loop
	wire.Remember(1 + cfg.Peers/1000)
	sw.check = newChecker(sw)
	sw.ctx, sw.cancel = sw.Loop.Context(context.Background(), elastic.Forever)
	var err error
	if sw.model, err = newModel(sw, cfg.Model); err != nil {
		return nil, err
	}
	if err := sw.makeNodes(); err != nil {
		return nil, err
	}
	return sw, sw.makeGenesis()
}

// KeyOf returns the key of machine i of the simulations with a seed, in all tiers.
func KeyOf(seed uint64, i int) (wire.Key, error) {
	raw := sha256.Sum256(fmt.Appendf(nil, "hived/netsim/%d/%d", seed, i))
	return wire.KeyFromSeed(raw[:])
}

func (sw *Swarm) makeNodes() error {
	for i := range sw.cfg.Peers + sw.cfg.Spare {
		k, err := KeyOf(sw.cfg.Seed, i)
		if err != nil {
			return err
		}
		n := &Node{Index: i, Key: k, ID: k.Peer(), Speed: 1, sw: sw, disk: newDisk(sw.pool, sw.values), wires: wires{link: sw.cfg.Link}}
		sw.Nodes = append(sw.Nodes, n)
		sw.byID[n.ID] = n
	}
	sw.sorted = slices.Clone(sw.Nodes)
	slices.SortFunc(sw.sorted, func(a, b *Node) int { return a.ID.Compare(b.ID) })
	return nil
}

func (sw *Swarm) makeGenesis() error {
	cfg := sw.cfg
	p, err := rules.PresetNamed(cfg.Preset)
	if err != nil {
		return err
	}
	g := wire.Genesis{V: 1, Numerics: 1, Name: "netsim", Creator: sw.Nodes[0].ID, Model: wire.ModelSpec{Name: "netsim-" + cfg.Model.Kind, Args: []wire.Arg{}},
		Schema: sw.model.schema.Digest(), Data: []wire.DataContract{{Name: "netsim", Root: sw.root, Train: 1 << 40, Test: 1}}, Preset: p.Preset,
		PartValues: sw.model.partValues(), Rounds: cfg.Rounds, MinPeers: cfg.MinPeers, MinCounted: 1, MinVoters: 1, Group: cfg.Group,
		Deadline: wire.Deadline{MinMs: uint32(cfg.MinDeadline.Milliseconds()), MaxMs: uint32(cfg.MaxDeadline.Milliseconds()), Mads: 4},
		Replay:   wire.ReplayFull, Admission: wire.Admission{Mode: "allow-list"}, Seed: cfg.Seed}
	if cfg.Steps > 0 {
		g.Preset.Cadence.Steps = cfg.Steps
	}
	sw.model.tune(&g)
	if cfg.Codec != "" {
		g.Preset.Codec = cfg.Codec
	}
	if cfg.Topology != "" {
		g.Preset.Topology = cfg.Topology
	}
	for _, n := range sw.sorted {
		if n.Index >= cfg.Peers-cfg.Strangers && n.Index < cfg.Peers {
			continue
		}
		g.Admission.Allow = append(g.Admission.Allow, n.ID)
	}
	if cfg.Change != nil {
		cfg.Change(&g)
	}
	sw.sealed = wire.Seal(sw.Nodes[0].Key, wire.KindGenesis, wire.RunID{}, 0, &g).Bytes()
	sw.Genesis, sw.Run, err = version.OpenGenesis(sw.sealed)
	if err != nil {
		return fmt.Errorf("genesis of the simulation: %w", err)
	}
	sw.plans = rules.NewPlans(&sw.Genesis)
	return nil
}

// Start starts the processes of the first machines, all at once.
func (sw *Swarm) Start() error {
	for _, n := range sw.Nodes[:sw.cfg.Peers] {
		if err := n.Start(); err != nil {
			return err
		}
	}
	return nil
}

// Advance lets virtual time pass.
func (sw *Swarm) Advance(d time.Duration) error { return sw.Loop.Run(sw.Loop.Now().Add(d)) }

// Until lets time pass until done holds, which is asked every step; it returns an
// error after limit.
func (sw *Swarm) Until(limit time.Duration, what string, done func() bool) error {
	end := sw.Loop.Now().Add(limit)
	for !done() {
		if !sw.Loop.Now().Before(end) {
			return fmt.Errorf("not within %v of virtual time: %s", limit, what)
		}
		if err := sw.Advance(20 * time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// Close ends every process and lets their tasks end. It is an error if one hangs.
func (sw *Swarm) Close() error {
	for _, n := range sw.Nodes {
		if n.life != nil {
			n.life.dead = true
			n.life.cancel()
			n.life = nil
		}
	}
	sw.closed = true
	sw.cancel()
	if err := sw.Loop.Run(sw.Loop.Now().Add(time.Minute)); err != nil {
		return err
	}
	defer sw.Loop.Close()
	if n := sw.Loop.Tasks(); n > 0 {
		return fmt.Errorf("%d tasks are left although all peers were stopped", n)
	}
	return nil
}

// forget drops the contributions of rounds before one, and what was merged of them.
func (sw *Swarm) forget(round uint64) {
	for _, n := range sw.Nodes {
		_ = n.disk.bodies.DropBefore(round) // it never fails
	}
}

func pairOf(a, b *Node) [2]int { return [2]int{min(a.Index, b.Index), max(a.Index, b.Index)} }

func (sw *Swarm) isCut(a, b *Node) bool { return sw.cuts[pairOf(a, b)] }

// linked reports whether both run and can talk.
func (sw *Swarm) linked(a, b *Node) bool {
	return a != b && a.life != nil && b.life != nil && !sw.isCut(a, b)
}

// reach returns the nodes that n can talk to, by peer id.
func (sw *Swarm) reach(n *Node) []*Node {
	if n.life == nil {
		return nil
	}
	out := make([]*Node, 0, len(sw.sorted))
	for _, o := range sw.sorted {
		if sw.linked(n, o) {
			out = append(out, o)
		}
	}
	return out
}

// notify tells one process that a connection came up or went down.
func (sw *Swarm) notify(n *Node, p wire.PeerID, up bool, after time.Duration) {
	lf := n.life
	if lf == nil {
		return
	}
	sw.Loop.After(after, func() {
		if n.life == lf {
			sw.Loop.Go(func() { lf.runner.Connected(lf.ctx, p, up) })
		}
	})
}

// connect lets the others and n know of each other, after a handshake.
func (sw *Swarm) connect(n *Node) {
	if sw.sparse() {
		sw.meet(n)
		return
	}
	for _, o := range sw.reach(n) {
		d := sw.handshake(n, o)
		sw.notify(o, n.ID, true, d)
		sw.notify(n, o.ID, true, d)
	}
}

// disconnect lets the others notice that n's process, which was lf, is gone.
func (sw *Swarm) disconnect(n *Node, lf *life, others []*Node) {
	for _, o := range others {
		sw.notify(o, n.ID, false, sw.cfg.Detect)
	}
	for o := range lf.links.peers { // also those that are cut off
		if o.life != nil {
			o.life.links.remove(n)
		}
	}
	lf.links = newLinks()
}

// Cut makes the path between two machines carry nothing, or heals it.
func (sw *Swarm) Cut(a, b *Node, cut bool) {
	if sw.isCut(a, b) == cut {
		return
	}
	if cut {
		sw.cuts[pairOf(a, b)] = true
	} else {
		delete(sw.cuts, pairOf(a, b))
	}
	if a.life == nil || b.life == nil {
		return
	}
	if sw.sparse() && !a.life.links.peers[b] {
		return
	}
	d := sw.cfg.Detect
	if !cut {
		d = sw.handshake(a, b)
	}
	sw.notify(a, b.ID, !cut, d)
	sw.notify(b, a.ID, !cut, d)
}

// Partition cuts the machines into two sides, or heals them when one is empty.
func (sw *Swarm) Partition(side map[int]bool) {
	was := len(sw.cuts)
	for i, a := range sw.Nodes {
		for _, b := range sw.Nodes[i+1:] {
			sw.Cut(a, b, side[a.Index] != side[b.Index])
		}
	}
	if len(sw.cuts) > 0 || was > 0 {
		sw.trail.add(Event{Kind: "partition", Peer: len(side)})
	}
}
