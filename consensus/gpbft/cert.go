package gpbft

import (
	"errors"
	"fmt"

	"github.com/filecoin-project/go-f3/gpbft"

	"github.com/apiary-net/hived/wire"
)

func certTips(c *wire.Cert) (base wire.Tip, chain []wire.Tip) {
	base = wire.Tip{Round: c.BaseRound, Record: c.Base, Table: c.BaseTable}
	chain = []wire.Tip{base}
	if c.Decided() {
		chain = append(chain, wire.Tip{Round: c.Round, Record: c.Value, Table: c.ValTable})
	}
	return base, chain
}

// newCert makes the certificate of a decision of an instance that used table.
func newCert(base wire.Tip, chain []wire.Tip, instance uint64, j *gpbft.Justification, pt *gpbft.PowerTable) wire.Cert {
	c := wire.Cert{V: 1, Instance: instance, BaseRound: base.Round, Base: base.Record, BaseTable: base.Table, Round: base.Round, ValTable: base.Table}
	if len(chain) == 2 {
		c.Round, c.Value, c.ValTable = chain[1].Round, chain[1].Record, chain[1].Table
	}
	type signed struct {
		rank uint32
		sig  []byte
	}
	var all []signed
	for i, s := range signers(j) {
		all = append(all, signed{uint32(pt.Entries[s].ID), j.Signature[64*i : 64*i+64]})
	}
	for len(all) > 0 { // ascending by rank
		least := 0
		for i := range all {
			if all[i].rank < all[least].rank {
				least = i
			}
		}
		c.Signers = append(c.Signers, all[least].rank)
		c.Sigs = append(c.Sigs, all[least].sig...)
		all = append(all[:least], all[least+1:]...)
	}
	return c
}

// Verify checks that voters of two thirds of table's weight signed the decision
// that c states in a run. Whether table is the one of c.Instance and whether the
// base is the newest decided record is for the caller to know.
func Verify(run wire.RunID, c *wire.Cert, table wire.Table) error {
	base, chain := certTips(c)
	if c.Decided() && c.Round != c.BaseRound+1 || !c.Decided() && (c.Round != c.BaseRound || c.ValTable != c.BaseTable) {
		return fmt.Errorf("verify certificate %d: record %d on base %d", c.Instance, c.Round, c.BaseRound)
	}
	p := payloadToF3(wire.VotePayload{Instance: c.Instance, Phase: uint64(gpbft.DECIDE_PHASE), Chain: chain}, base)
	msg := p.MarshalForSigning(network(run))
	weight := uint64(0)
	for i, rank := range c.Signers {
		var voter *wire.Power
		for k := range table {
			if table[k].Rank == rank {
				voter = &table[k]
			}
		}
		if voter == nil {
			return fmt.Errorf("verify certificate %d: rank %d does not vote", c.Instance, rank)
		}
		if !wire.Verify(voter.Peer, voteDomain, msg, c.Sigs[64*i:64*i+64]) {
			return fmt.Errorf("verify certificate %d: signature of %s: %w", c.Instance, voter.Peer.Short(), wire.ErrSignature)
		}
		weight += uint64(voter.Power)
	}
	if !table.Quorum(weight) {
		return errors.Join(fmt.Errorf("verify certificate %d: weight %d of %d", c.Instance, weight, table.Total()), errNoQuorum)
	}
	return nil
}

var errNoQuorum = errors.New("signers hold less than two thirds of the weight")
