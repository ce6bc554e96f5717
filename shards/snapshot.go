package shards

import (
	"fmt"

	"github.com/apiary-net/hived/wire"
)

// NewSnapshot places blocks on holders, as Encode does with the state's digest
// as seed, and returns the parity blocks too, stripe by stripe.
func NewSnapshot(version uint64, state wire.CID, blocks [][]byte, holders []wire.PeerID) (wire.Snapshot, [][]byte, error) {
	s := wire.Snapshot{Version: version, State: state}
	for _, b := range blocks {
		s.Blocks = append(s.Blocks, wire.RawCID(b))
	}
	var parity [][]byte
	var err error
	s.Stripes, parity, err = Encode(blocks, holders, state.Digest())
	if err != nil {
		return wire.Snapshot{}, nil, fmt.Errorf("place version %d: %w", version, err)
	}
	return s, parity, nil
}
