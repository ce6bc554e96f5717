package shards

import (
	"fmt"

	"github.com/apiary-net/hived/wire"
)

// Bounds of a snapshot: 64 GiB of state.
const (
	maxSnapshotBlocks = 1 << 16
	maxSnapshotBytes  = 16 << 20
)

// Snapshot is the placement of one version's blocks: plain data with one
// canonical encoding (wire.Marshal), published in the snapshot's entry. Once
// published a stripe never moves; only StandIn names a new holder of a lost block.
type Snapshot struct {
	_       struct{} `cbor:",toarray"`
	Version uint64
	State   wire.CID   // manifest of the version
	Blocks  []wire.CID // of the state, in order
	Stripes []Stripe   // over Blocks in order; none in a swarm of one
}

// NewSnapshot places blocks on holders, as Encode does with the state's digest
// as seed, and returns the parity blocks too, stripe by stripe.
func NewSnapshot(version uint64, state wire.CID, blocks [][]byte, holders []wire.PeerID) (Snapshot, [][]byte, error) {
	s := Snapshot{Version: version, State: state}
	for _, b := range blocks {
		s.Blocks = append(s.Blocks, wire.RawCID(b))
	}
	var parity [][]byte
	var err error
	s.Stripes, parity, err = Encode(blocks, holders, state.Digest())
	if err != nil {
		return Snapshot{}, nil, fmt.Errorf("place version %d: %w", version, err)
	}
	return s, parity, nil
}

// ParseSnapshot decodes and checks the canonical encoding.
func ParseSnapshot(b []byte) (Snapshot, error) {
	var s Snapshot
	if err := wire.Unmarshal(b, &s, maxSnapshotBytes); err != nil {
		return Snapshot{}, err
	}
	if err := s.Check(); err != nil {
		return Snapshot{}, err
	}
	return s, nil
}

// Check reports the first way in which s is not a snapshot.
func (s Snapshot) Check() error {
	if s.State.IsZero() {
		return fmt.Errorf("snapshot of version %d names no state", s.Version)
	}
	if len(s.Blocks) == 0 || len(s.Blocks) > maxSnapshotBlocks {
		return fmt.Errorf("snapshot of %d blocks, want 1 to %d", len(s.Blocks), maxSnapshotBlocks)
	}
	at := 0
	for i, st := range s.Stripes {
		if err := st.Check(); err != nil {
			return fmt.Errorf("stripe %d: %w", i, err)
		}
		for _, id := range st.Data {
			if at >= len(s.Blocks) || s.Blocks[at] != id {
				return fmt.Errorf("stripe %d: data is not the state's blocks in order", i)
			}
			at++
		}
	}
	if len(s.Stripes) > 0 && at != len(s.Blocks) {
		return fmt.Errorf("stripes cover %d of %d blocks", at, len(s.Blocks))
	}
	return nil
}

// Held returns what p has to keep: all blocks in a swarm of one, else its block
// of each stripe.
func (s Snapshot) Held(p wire.PeerID) []wire.CID {
	if len(s.Stripes) == 0 {
		return s.Blocks
	}
	var ids []wire.CID
	for _, st := range s.Stripes {
		for i, h := range st.Holders {
			if h == p {
				ids = append(ids, st.Block(i))
			}
		}
	}
	return ids
}

// StandIn names the peer that takes over the blocks of lost: the first of
// candidates, in rendezvous order of this stripe, that holds nothing of it. It
// returns false if there is none.
func (s Snapshot) StandIn(stripe int, lost wire.PeerID, candidates []wire.PeerID) (wire.PeerID, bool) {
	taken := map[wire.PeerID]bool{lost: true}
	for _, h := range s.Stripes[stripe].Holders {
		taken[h] = true
	}
	for _, c := range rank(candidates, s.State.Digest(), uint64(stripe)) {
		if !taken[c] {
			return c, true
		}
	}
	return wire.PeerID{}, false
}
