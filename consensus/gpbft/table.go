package gpbft

import (
	"errors"
	"fmt"

	"github.com/filecoin-project/go-f3/gpbft"

	"github.com/apiary-net/hived/wire"
)

// network is the name that go-f3 puts into every signature: it separates runs.
func network(run wire.RunID) gpbft.NetworkName {
	return gpbft.NetworkName("hived/" + run.String())
}

// powerTable turns a table into go-f3's form. Ranks are its actor ids.
func powerTable(t wire.Table) (*gpbft.PowerTable, error) {
	pt := gpbft.NewPowerTable()
	for _, p := range t {
		err := pt.Add(gpbft.PowerEntry{ID: gpbft.ActorID(p.Rank), Power: gpbft.NewStoragePower(int64(p.Power)), PubKey: gpbft.PubKey(p.Peer[:])})
		if err != nil {
			return nil, fmt.Errorf("power table: %w", err)
		}
	}
	if pt.Len() == 0 {
		return nil, errors.New("power table: no voters")
	}
	return pt, nil
}

// aggregate is ed25519's: the signatures one behind the other in signer order.
type aggregate struct{ keys []gpbft.PubKey }

func (a aggregate) Aggregate(mask []int, sigs [][]byte) ([]byte, error) {
	var out []byte
	for i, s := range sigs {
		if len(s) != 64 {
			return nil, fmt.Errorf("signature %d of %d bytes", mask[i], len(s))
		}
		out = append(out, s...)
	}
	return out, nil
}

func (a aggregate) VerifyAggregate(mask []int, payload, sig []byte) error {
	if len(sig) != 64*len(mask) {
		return fmt.Errorf("%d signature bytes for %d signers", len(sig), len(mask))
	}
	for i, m := range mask {
		if m < 0 || m >= len(a.keys) || !verify(a.keys[m], payload, sig[64*i:64*i+64]) {
			return fmt.Errorf("signature of signer %d: %w", m, wire.ErrSignature)
		}
	}
	return nil
}

// voteDomain separates GPBFT signatures from envelopes made by the same key.
const voteDomain = "hived/gpbft/v1\n"

func verify(key gpbft.PubKey, msg, sig []byte) bool {
	var p wire.PeerID
	if len(key) != len(p) {
		return false
	}
	copy(p[:], key)
	return wire.Verify(p, voteDomain, msg, sig)
}
