package ledger

import (
	"context"

	"github.com/apiary-net/hived/wire"
)

// KV is the durable store that a log stands on. Keys of different runs must not
// meet; all keys of this package start with "ledger/".
type KV interface {
	// Get returns a copy; errors.Is(err, fs.ErrNotExist) if there is none.
	Get(key []byte) ([]byte, error)
	// Apply is one atomic batch, durable when it returns if sync.
	Apply(puts [][2][]byte, dels [][]byte, sync bool) error
	// Scan is ascending; f's slices are valid during the call.
	Scan(prefix []byte, f func(key, value []byte) error) error
	Close() error
}

// Dir is where Export writes: an empty folder, or an archive. Names have
// slashes; a file is written once.
type Dir interface {
	WriteFile(name string, b []byte) error
}

// Peers is how a Witness reaches others. Sends are attempts: what is lost is said
// again.
type Peers interface {
	// Member reports whether p has a seat in the run.
	Member(p wire.PeerID) bool
	// Proof asks p for the proof that its log of newer entries begins with older ones.
	Proof(ctx context.Context, p wire.PeerID, older, newer uint64) ([]wire.Digest, error)
	// Entries asks p for its whole log.
	Entries(ctx context.Context, p wire.PeerID) (wire.Head, [][]byte, error)
	// Send gives a sealed statement to one peer, Announce to all members, and
	// AnnounceHead to those who follow the own log.
	Send(ctx context.Context, p wire.PeerID, b []byte) error
	Announce(ctx context.Context, b []byte) error
	AnnounceHead(ctx context.Context, b []byte) error
}
