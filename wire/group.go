package wire

import (
	"errors"
	"fmt"
	"math"
)

// GroupCut is what the members of an averaging group state of each other's
// contributions in the envelope's round: evidence from which everybody computes
// the same verdicts. It is a raw block too.
type GroupCut struct {
	_       struct{} `cbor:",toarray"`
	Group   uint32
	Headers [][]byte // envelopes, ascending by (sender, digest)
	Haves   [][]byte // of KindGroupHave, one of each member that spoke, ascending by sender
}

func (c *GroupCut) check() error {
	return errors.Join(inRange("headers of a group", uint64(len(c.Headers)), 0, 2*MaxMembers),
		inRange("HAVEs of a group", uint64(len(c.Haves)), 1, MaxMembers))
}

// GroupRow is the verdict on one member of a group.
type GroupRow struct {
	_         struct{} `cbor:",toarray"`
	Status    Status
	Reason    Reason
	Header    Digest // of the header envelope; zero if none
	Samples   uint32 // merge weight, when counted: positions used
	ArrivalMs uint32
	Speed     uint32 // samples a second, as its header says; 0 if none counts
}

// GroupOutcome is what a group makes of a round.
type GroupOutcome struct {
	_      struct{} `cbor:",toarray"`
	Group  uint32
	Cut    Digest     // of the canonical GroupCut
	Merged CID        // manifest of the merged update; zero when nothing counts
	Nonces Digest     // SHA-256 of the nonces of what counts, in peer order
	Norm   float32    // lower median of the counted norms
	Loss   float32    // mean of the counted losses, by samples
	Rows   []GroupRow // one for each member, in peer order
}

func (o *GroupOutcome) check() error {
	for _, x := range []float64{float64(o.Norm), float64(o.Loss)} {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return errors.New("norm or loss of a group is not finite")
		}
	}
	return inRange("rows of a group", uint64(len(o.Rows)), 1, MaxMembers)
}

// Weight returns the samples of what counts.
func (o *GroupOutcome) Weight() uint64 {
	n := uint64(0)
	for _, r := range o.Rows {
		if r.Status == Counted {
			n += uint64(r.Samples)
		}
	}
	return n
}

// Digest names the outcome.
func (o *GroupOutcome) Digest() Digest { return Sum(Marshal(o)) }

// GroupVote says that its sender checked every contribution of a group's outcome
// and merged them itself.
type GroupVote struct {
	_       struct{} `cbor:",toarray"`
	Outcome Digest
}

// GroupResult is an outcome with the signatures of its group's members.
type GroupResult struct {
	_       struct{} `cbor:",toarray"`
	Outcome GroupOutcome
	Signers []byte // bitmap of members in peer order, least significant bit first
	Sigs    []byte // of the signers' GroupVote envelopes, 64 bytes each, in that order
}

func (r *GroupResult) check() error {
	if err := r.Outcome.check(); err != nil {
		return err
	}
	n := 0
	for i := range 8 * len(r.Signers) {
		if r.Signed(i) {
			n++
		}
	}
	if len(r.Signers) != (len(r.Outcome.Rows)+7)/8 || len(r.Sigs) != 64*n {
		return fmt.Errorf("group result with %d bytes of signers and %d of signatures", len(r.Signers), len(r.Sigs))
	}
	return nil
}

// Signed reports whether member i signed.
func (r *GroupResult) Signed(i int) bool { return r.Signers[i/8]&(1<<(i%8)) != 0 }

// Signatures returns how many of the members, in peer order, signed the outcome in
// a round of run. A bad signature is an error.
func (r *GroupResult) Signatures(run RunID, round uint64, members []PeerID) (int, error) {
	if len(members) != len(r.Outcome.Rows) {
		return 0, fmt.Errorf("group %d has %d members, the result has %d rows", r.Outcome.Group, len(members), len(r.Outcome.Rows))
	}
	body := Marshal(&GroupVote{Outcome: r.Outcome.Digest()})
	n := 0
	for i, p := range members {
		if !r.Signed(i) {
			continue
		}
		e := Envelope{V: 1, Kind: KindGroupVote, Run: run, Round: round, Sender: p, Body: body}
		if !Verify(p, envelopeDomain, e.signed(), r.Sigs[64*n:64*n+64]) {
			return 0, fmt.Errorf("group vote of %s: %w", p.Short(), ErrSignature)
		}
		n++
	}
	for i := len(members); i < 8*len(r.Signers); i++ {
		if r.Signed(i) {
			return 0, errors.New("a signer of a group result is no member")
		}
	}
	return n, nil
}
