package gpbft

import (
	"errors"
	"fmt"

	"github.com/filecoin-project/go-bitfield"
	"github.com/filecoin-project/go-f3/gpbft"

	"github.com/apiary-net/hived/consensus"
	"github.com/apiary-net/hived/wire"
)

// payload is what one vote signs. Chain is empty (bottom), the base, or the
// base and the proposal.
type payload struct {
	_        struct{} `cbor:",toarray"`
	Instance uint64
	Round    uint64
	Phase    uint64
	Chain    []consensus.Tip
}

// justification proves that a strong quorum sent the vote that allows another.
type justification struct {
	_       struct{} `cbor:",toarray"`
	Vote    payload
	Signers []uint32 // indexes into go-f3's power table, ascending
	Sigs    []byte
}

// vote is one GPBFT message.
type vote struct {
	_      struct{} `cbor:",toarray"`
	Rank   uint32
	Vote   payload
	Sig    []byte
	Ticket []byte
	Just   *justification
}

const (
	maxVote  = 8 << 10
	maxPhase = uint64(gpbft.DECIDE_PHASE)
	maxRound = 1 << 10
)

func (p payload) check() error {
	if len(p.Chain) > 2 || p.Phase == 0 || p.Phase > maxPhase || p.Round > maxRound {
		return fmt.Errorf("vote of phase %d, round %d over %d tips", p.Phase, p.Round, len(p.Chain))
	}
	return nil
}

func decodeVote(b []byte) (vote, error) {
	var v vote
	if err := wire.Unmarshal(b, &v, maxVote); err != nil {
		return v, err
	}
	if len(v.Sig) != 64 || (len(v.Ticket) != 0 && len(v.Ticket) != 64) {
		return v, errors.New("vote with a signature or ticket of the wrong length")
	}
	if err := v.Vote.check(); err != nil {
		return v, err
	}
	if j := v.Just; j != nil {
		if len(j.Signers) > wire.MaxVoters || len(j.Sigs) != 64*len(j.Signers) {
			return v, errors.New("justification with the wrong number of signatures")
		}
		for i := range j.Signers {
			if j.Signers[i] >= wire.MaxVoters || i > 0 && j.Signers[i-1] >= j.Signers[i] {
				return v, errors.New("justification's signers are out of order")
			}
		}
		return v, j.Vote.check()
	}
	return v, nil
}

func tipSet(t consensus.Tip) *gpbft.TipSet {
	return &gpbft.TipSet{Epoch: int64(t.Round), Key: t.Record[:], PowerTable: gpbft.MakeCid(t.Table[:])}
}

func chainOf(tips []consensus.Tip) *gpbft.ECChain {
	c := &gpbft.ECChain{}
	for _, t := range tips {
		c.TipSets = append(c.TipSets, tipSet(t))
	}
	return c
}

// supplement is equal for all voters of an instance: it names the base's table.
func supplement(base consensus.Tip) gpbft.SupplementalData {
	return gpbft.SupplementalData{PowerTable: gpbft.MakeCid(base.Table[:])}
}

func (p payload) toF3(base consensus.Tip) gpbft.Payload {
	return gpbft.Payload{Instance: p.Instance, Round: p.Round, Phase: gpbft.Phase(p.Phase),
		SupplementalData: supplement(base), Value: chainOf(p.Chain)}
}

func (v vote) toF3(base consensus.Tip) *gpbft.GMessage {
	m := &gpbft.GMessage{Sender: gpbft.ActorID(v.Rank), Vote: v.Vote.toF3(base), Signature: v.Sig, Ticket: v.Ticket}
	if v.Just != nil {
		signers := make([]uint64, len(v.Just.Signers))
		for i, s := range v.Just.Signers {
			signers[i] = uint64(s)
		}
		m.Justification = &gpbft.Justification{Vote: v.Just.Vote.toF3(base),
			Signers: bitfield.NewFromSet(signers), Signature: v.Just.Sigs}
	}
	return m
}

// tipBook finds the tip that a go-f3 tip set was made from: go-f3 keeps only a
// digest of the table.
type tipBook map[tipKey]consensus.Tip

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
func (b tipBook) add(room int, tips ...consensus.Tip) (int, error) {
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
func (b tipBook) payload(p *gpbft.Payload) payload {
	out := payload{Instance: p.Instance, Round: p.Round, Phase: uint64(p.Phase), Chain: []consensus.Tip{}}
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

func (b tipBook) vote(m *gpbft.GMessage) vote {
	v := vote{Rank: uint32(m.Sender), Vote: b.payload(&m.Vote), Sig: m.Signature, Ticket: m.Ticket}
	if m.Justification != nil {
		v.Just = &justification{Vote: b.payload(&m.Justification.Vote),
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
