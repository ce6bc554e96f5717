package gpbft

import (
	"errors"
	"fmt"

	"github.com/filecoin-project/go-bitfield"
	"github.com/filecoin-project/go-f3/gpbft"

	"github.com/apiary-net/hived/wire"
)

// What wire takes for the last phase is go-f3's.
var _ = [1]struct{}{}[wire.MaxVotePhase-gpbft.DECIDE_PHASE]

func tipSet(t wire.Tip) *gpbft.TipSet {
	return &gpbft.TipSet{Epoch: int64(t.Round), Key: t.Record[:], PowerTable: gpbft.MakeCid(t.Table[:])}
}

func chainOf(tips []wire.Tip) *gpbft.ECChain {
	c := &gpbft.ECChain{}
	for _, t := range tips {
		c.TipSets = append(c.TipSets, tipSet(t))
	}
	return c
}

// supplement is equal for all voters of an instance: it names the base's table.
func supplement(base wire.Tip) gpbft.SupplementalData {
	return gpbft.SupplementalData{PowerTable: gpbft.MakeCid(base.Table[:])}
}

func payloadToF3(p wire.VotePayload, base wire.Tip) gpbft.Payload {
	return gpbft.Payload{Instance: p.Instance, Round: p.Round, Phase: gpbft.Phase(p.Phase),
		SupplementalData: supplement(base), Value: chainOf(p.Chain)}
}

func voteToF3(v wire.Vote, base wire.Tip) *gpbft.GMessage {
	m := &gpbft.GMessage{Sender: gpbft.ActorID(v.Rank), Vote: payloadToF3(v.Vote, base), Signature: v.Sig, Ticket: v.Ticket}
	if v.Just != nil {
		signers := make([]uint64, len(v.Just.Signers))
		for i, s := range v.Just.Signers {
			signers[i] = uint64(s)
		}
		m.Justification = &gpbft.Justification{Vote: payloadToF3(v.Just.Vote, base),
			Signers: bitfield.NewFromSet(signers), Signature: v.Just.Sigs}
	}
	return m
}

// tipBook finds the tip that a go-f3 tip set was made from: go-f3 keeps only a
// digest of the table.
type tipBook map[tipKey]wire.Tip

// tipKey holds all that go-f3 signs of a tip: under less, a voter could put its
// own tip in the place of another's.
type tipKey struct {
	epoch       int64
	key, powers string
}

func keyOf(ts *gpbft.TipSet) tipKey {
	return tipKey{ts.Epoch, string(ts.Key), ts.PowerTable.KeyString()}
}

// maxTold is how many tips one voter may bring into an instance: an honest one
// knows the base and one proposal, and passes on those of a justification.
const maxTold = 6

// add puts tips into the book and returns how many were new. At most room new
// ones have a place.
func (b tipBook) add(room int, tips ...wire.Tip) (int, error) {
	added := 0
	for _, t := range tips {
		k := keyOf(tipSet(t))
		if _, ok := b[k]; ok {
			continue
		}
		if added == room {
			return added, errors.New("sender names too many proposals")
		}
		b[k] = t
		added++
	}
	return added, nil
}

// payload returns the wire form of p, whose tips must all be in the book.
func (b tipBook) payload(p *gpbft.Payload) wire.VotePayload {
	out := wire.VotePayload{Instance: p.Instance, Round: p.Round, Phase: uint64(p.Phase), Chain: []wire.Tip{}}
	if p.Value == nil { // bottom
		return out
	}
	for _, ts := range p.Value.TipSets {
		t, ok := b[keyOf(ts)]
		if !ok {
			panic(fmt.Sprintf("gpbft: vote over a tip set that never came in, epoch %d", ts.Epoch))
		}
		out.Chain = append(out.Chain, t)
	}
	return out
}

func (b tipBook) vote(m *gpbft.GMessage) wire.Vote {
	v := wire.Vote{Rank: uint32(m.Sender), Vote: b.payload(&m.Vote), Sig: m.Signature, Ticket: m.Ticket}
	if m.Justification != nil {
		v.Just = &wire.Justification{Vote: b.payload(&m.Justification.Vote),
			Signers: signers(m.Justification), Sigs: m.Justification.Signature}
	}
	return v
}

func signers(j *gpbft.Justification) []uint32 {
	out := []uint32{}
	// The error is only for a bit field that was decoded from bytes.
	_ = j.Signers.ForEach(func(i uint64) error {
		out = append(out, uint32(i))
		return nil
	})
	return out
}
