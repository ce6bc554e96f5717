package wire

import (
	"errors"
	"fmt"
)

// Tip is one decided or proposed record as an engine of agreement sees it.
type Tip struct {
	_      struct{} `cbor:",toarray"`
	Round  uint64
	Record Digest
	Table  Digest // of the table in that record
}

// TipOf returns r's tip.
func TipOf(r *Record) Tip {
	return Tip{Round: r.Round, Record: r.Digest(), Table: Sum(Marshal(r.Table))}
}

// Bounds of a vote.
const (
	maxVote      = 8 << 10
	MaxVotePhase = 5 // GPBFT's DECIDE
	MaxVoteRound = 1 << 10
)

// VotePayload is what one vote signs. Chain is empty (bottom), the base, or the
// base and the proposal.
type VotePayload struct {
	_        struct{} `cbor:",toarray"`
	Instance uint64
	Round    uint64
	Phase    uint64
	Chain    []Tip
}

// Justification proves that a strong quorum sent the vote that allows another.
type Justification struct {
	_       struct{} `cbor:",toarray"`
	Vote    VotePayload
	Signers []uint32 // indexes into the engine's power table, ascending
	Sigs    []byte   // 64 bytes each
}

// Vote is one GPBFT message.
type Vote struct {
	_      struct{} `cbor:",toarray"`
	Rank   uint32
	Vote   VotePayload
	Sig    []byte
	Ticket []byte
	Just   *Justification
}

// OpenVote decodes a vote, of at most 8 KiB. No signature in it is checked yet.
func OpenVote(b []byte) (Vote, error) {
	var v Vote
	err := Unmarshal(b, &v, maxVote)
	return v, err
}

func (p *VotePayload) check() error {
	if len(p.Chain) > 2 || p.Phase == 0 || p.Phase > MaxVotePhase || p.Round > MaxVoteRound {
		return fmt.Errorf("vote of phase %d, round %d over %d tips", p.Phase, p.Round, len(p.Chain))
	}
	return nil
}

func (v *Vote) check() error {
	if len(v.Sig) != 64 || (len(v.Ticket) != 0 && len(v.Ticket) != 64) {
		return errors.New("vote with a signature or ticket of the wrong length")
	}
	if err := v.Vote.check(); err != nil {
		return err
	}
	if j := v.Just; j != nil {
		if len(j.Signers) > MaxVoters || len(j.Sigs) != 64*len(j.Signers) {
			return errors.New("justification with the wrong number of signatures")
		}
		for i := range j.Signers {
			if j.Signers[i] >= MaxVoters || i > 0 && j.Signers[i-1] >= j.Signers[i] {
				return errors.New("justification's signers are out of order")
			}
		}
		return j.Vote.check()
	}
	return nil
}
