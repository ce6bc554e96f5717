package wire

import (
	"errors"
	"fmt"
	"slices"
)

// Bounds of a snapshot, 64 GiB of state, and of one stripe.
const (
	MaxSnapshot       = 16 << 20
	maxSnapshotBlocks = 1 << 16
	MaxStripeData     = 10
	MaxStripeParity   = 2
)

// Snapshot is the placement of one version's blocks: plain data, published in the
// snapshot's entry. Once published a stripe never moves.
type Snapshot struct {
	_       struct{} `cbor:",toarray"`
	Version uint64
	State   CID      // manifest of the version
	Blocks  []CID    // of the state, in order
	Stripes []Stripe // over Blocks in order; none in a swarm of one
}

// Stripe is k data and m parity blocks on k+m different peers. Blocks are
// numbered data first, then parity.
type Stripe struct {
	_       struct{} `cbor:",toarray"`
	Data    []CID
	Len     []uint32 // bytes of each data block; the code runs over the longest, the others count as padded with zeros
	Parity  []CID
	Holders []PeerID // of data, then of parity; all different
}

// OpenSnapshot decodes and checks the canonical encoding.
func OpenSnapshot(b []byte) (Snapshot, error) {
	var s Snapshot
	if err := Unmarshal(b, &s, MaxSnapshot); err != nil {
		return Snapshot{}, err
	}
	return s, nil
}

func (s *Snapshot) check() error {
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
func (s *Snapshot) Held(p PeerID) []CID {
	if len(s.Stripes) == 0 {
		return s.Blocks
	}
	var ids []CID
	for _, st := range s.Stripes {
		for i, h := range st.Holders {
			if h == p {
				ids = append(ids, st.Block(i))
			}
		}
	}
	return ids
}

// Check reports the first way in which s is not a stripe. Those of an opened
// snapshot have been checked.
func (s *Stripe) Check() error {
	k, m := len(s.Data), len(s.Parity)
	if k < 1 || k > MaxStripeData || m < 1 || m > MaxStripeParity {
		return fmt.Errorf("stripe of %d+%d blocks, want at most %d+%d", k, m, MaxStripeData, MaxStripeParity)
	}
	if len(s.Len) != k || len(s.Holders) != k+m {
		return fmt.Errorf("stripe of %d+%d blocks has %d lengths and %d holders", k, m, len(s.Len), len(s.Holders))
	}
	for i, n := range s.Len {
		if n < 1 || n > MaxBlock {
			return fmt.Errorf("block %d of %d bytes, want 1 to %d", i, n, MaxBlock)
		}
	}
	for i := range k + m {
		if s.Block(i).IsZero() {
			return fmt.Errorf("block %d has no name", i)
		}
	}
	return Distinct(s.Holders)
}

// Block returns the name of block i, data first, then parity.
func (s *Stripe) Block(i int) CID {
	if i < len(s.Data) {
		return s.Data[i]
	}
	return s.Parity[i-len(s.Data)]
}

// Distinct reports whether ps are peers, each given once.
func Distinct(ps []PeerID) error {
	s := slices.Clone(ps)
	slices.SortFunc(s, PeerID.Compare)
	for i, p := range s {
		if p.IsZero() {
			return errors.New("a holder is nobody")
		}
		if i > 0 && s[i-1] == p {
			return fmt.Errorf("holder %s is given twice", p)
		}
	}
	return nil
}
