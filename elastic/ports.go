package elastic

import (
	"context"
	"time"

	"github.com/apiary-net/hived/wire"
)

// Trainer does the local work of a peer. One goroutine calls it at a time.
type Trainer interface {
	Schema() wire.Schema
	// Init returns the start weights that the seed gives: the same bits on every
	// machine. The caller owns the slices.
	Init() (params, buffers []float32)
	// Load copies a version into the trainer.
	Load(ctx context.Context, params, buffers []float32) error
	// Train does local steps from the loaded version. It ends early and cleanly
	// when ctx does, with what was done.
	Train(ctx context.Context, j Job) (Update, error)
	// Gradient writes the mean gradient over the samples of spans at the loaded
	// parameters into dst.
	Gradient(ctx context.Context, spans []wire.Span, dst []float32) (loss float32, err error)
	// StateDigest names the inner optimizer's state.
	StateDigest() wire.Digest
}

// Job is one round's local work.
type Job struct {
	Round   uint64
	Spans   []wire.Span
	Batch   int
	Steps   int
	LRScale float32
}

// Update is what local steps gave.
type Update struct {
	Delta []float32 // base - theta; owned by the trainer until the next call
	Steps int
	Used  uint64 // positions: a prefix of the job's
	Loss  float32
}

// Network is what a run sees of the swarm.
type Network interface {
	// Publish announces an envelope to the run's peers.
	Publish(ctx context.Context, b []byte) error
	// Tell announces an envelope to some peers, who may include this one, which
	// needs it not.
	Tell(ctx context.Context, to []wire.PeerID, b []byte) error
	// Keep asks for connections with the peers that the open round needs, instead
	// of those that the one before needed, and returns who cannot be reached.
	Keep(ctx context.Context, peers []wire.PeerID) (unreachable []wire.PeerID)
	// Send gives one message to one peer, in order, within a deadline.
	Send(ctx context.Context, to wire.PeerID, kind SendKind, b []byte) error
	// Pull asks one peer for round state.
	Pull(ctx context.Context, from wire.PeerID, req []byte) (*wire.PullAnswer, error)
	// Fetch gets blocks from any of the holders and checks their hashes.
	Fetch(ctx context.Context, ids []wire.CID, from []wire.PeerID, got func(wire.CID, []byte) error) error
	// Peers returns the connected peers.
	Peers() []wire.PeerID
}

// SendKind separates the streams of direct messages.
type SendKind string

// Kinds of direct messages.
const (
	SendVote  SendKind = "vote"  // a sealed GPBFT vote
	SendSlice SendKind = "slice" // a Slice of a window
)

// KV is the durable store of slots, records and certificates. A missing key
// gives an error that is fs.ErrNotExist.
type KV interface {
	Get(key []byte) ([]byte, error)
	Apply(puts [][2][]byte, dels [][]byte, sync bool) error
	Scan(prefix []byte, f func(key, value []byte) error) error
}

// Blocks is the local content-addressed store.
type Blocks interface {
	// Put keeps a block, which is durable after the next Sync.
	Put(epoch uint64, b []byte) (wire.CID, error)
	Sync() error
	Get(id wire.CID) ([]byte, error)
}

// Snapshots keeps versions erasure-coded over their holders.
type Snapshots interface {
	// Keep places a version's blocks, the manifest among them, on holders and
	// stores those of this peer. It returns the name of the placement.
	Keep(ctx context.Context, version uint64, state wire.CID, blocks [][]byte, holders []wire.PeerID) (wire.CID, error)
	// Restore brings the blocks of the newest known snapshot into the state store, of
	// those only that certified names: it returns the state that the chain certifies
	// for a version that is of use.
	Restore(ctx context.Context, certified func(version uint64) (wire.CID, bool)) (version uint64, state wire.CID, err error)
}

// Log is the peer's own append-only log of the run.
type Log interface {
	// Append makes entries durable before it returns.
	Append(ctx context.Context, entries []wire.EntryBody) (wire.Head, error)
}

// Agreement decides records; consensus implements it. Calls are serialised.
type Agreement interface {
	// Step runs the engine.
	Step(now time.Time, ev wire.EngineEvent) []wire.EngineCommand
	// Final tells which record an instance decided; nil for a base decision.
	// The start record is told with instance 0 before all others.
	Final(instance uint64, r *wire.Record)
	// Table returns the voters of an instance not older than the newest final one.
	Table(instance uint64) wire.Table
	// Leader returns who proposes round r in an instance.
	Leader(seed wire.Digest, r, instance uint64) wire.PeerID
	// Held returns the weight of those whose votes for a later instance wait.
	Held(instance uint64) uint64
	// Verify checks a certificate against the table of its instance.
	Verify(c *wire.Cert) error
}
