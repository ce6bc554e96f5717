package wire

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

// Status of a planned peer in a record.
type Status uint64

// Statuses. Numbers are part of the format.
const (
	Counted     Status = 1
	Absent      Status = 2 // no header known to more than a third of the weight
	Late        Status = 3 // header known, body not whole
	Refused     Status = 4
	Equivocated Status = 5 // two headers of one sender; both stand in the record
)

func (s Status) String() string {
	names := []string{"", "counted", "absent", "late", "refused", "equivocated"}
	if uint64(s) >= uint64(len(names)) {
		return fmt.Sprintf("status-%d", uint64(s))
	}
	return names[s]
}

// Verdict is one line of a record's cut.
type Verdict struct {
	_         struct{} `cbor:",toarray"`
	Peer      PeerID
	Status    Status
	Reason    Reason
	Header    Digest // of the header envelope; zero if none
	Samples   uint32 // merge weight, when counted
	ArrivalMs uint32 // lower median of what the HAVEs say
	Nonce     []byte // when counted
}

// Seat is a member as a record sees it.
type Seat struct {
	_       struct{} `cbor:",toarray"`
	Peer    PeerID
	Rank    uint32 // order of joining, never given twice
	Counted uint32 // records in a row in which it counted
	Missed  uint32 // records in a row in which it did not
	Lates   uint32 // records in a row in which it was late
	Active  bool   // planned for in the next round
	Speed   uint32 // samples a second, as its last counted header said
}

// Power is a voter's weight.
type Power struct {
	_     struct{} `cbor:",toarray"`
	Rank  uint32
	Peer  PeerID
	Power uint32
}

// Table lists the voters by rank.
type Table []Power

// Total returns the whole weight.
func (t Table) Total() uint64 {
	n := uint64(0)
	for _, p := range t {
		n += uint64(p.Power)
	}
	return n
}

// Peers returns the voters by rank.
func (t Table) Peers() []PeerID {
	out := make([]PeerID, len(t))
	for i, p := range t {
		out[i] = p.Peer
	}
	return out
}

// Of returns p's weight, 0 for those who do not vote.
func (t Table) Of(p PeerID) uint64 {
	for _, q := range t {
		if q.Peer == p {
			return uint64(q.Power)
		}
	}
	return 0
}

// Quorum reports whether weight is at least two thirds of the whole.
func (t Table) Quorum(weight uint64) bool { return len(t) > 0 && 3*weight >= 2*t.Total() }

// More reports whether weight is more than a third of the whole.
func (t Table) More(weight uint64) bool { return 3*weight > t.Total() }

// Certified names the newest version that two thirds of the weight computed.
type Certified struct {
	_       struct{} `cbor:",toarray"`
	Round   uint64
	Version CID
	Merged  CID
}

// Record is what counted in a round and why the others did not. The fields up
// to Groups are what peers signed or committed to; all later fields follow from those and the
// records before by a pure function that everybody recomputes.
type Record struct {
	_       struct{} `cbor:",toarray"`
	V       uint64   // 1
	Run     RunID
	Round   uint64
	Prev    Digest        // of record r-1; zero in record 0
	Headers [][]byte      // envelopes, ascending by (sender, digest)
	Haves   [][]byte      // one of each voter, ascending by sender
	Readys  [][]byte      // ascending by sender
	Attests [][]byte      // ascending by (round, sender)
	Leaves  [][]byte      // ascending by sender
	Stops   [][]byte      // at most one, of the creator
	Merged  []CID         // in a window: merged gradients in step order; the first Steps - (Steps of r-1) count
	Groups  []GroupResult // in a round of several groups, ascending by (group, outcome digest)

	Cut       []Verdict // every planned peer, ascending
	Root      Digest    // RFC 6962 root over the counted header digests in peer order
	Counting  []uint32  // indexes of the Groups that count, in group order
	Certified Certified
	Roster    []Seat // ascending by peer
	Table     Table  // by rank; acts on instances from the one that decides this record + 5
	Cursor    uint64 // first position that was never dealt
	Returned  []Span // positions dealt in vain, dealt again first
	Seed      Digest // of the next round
	Steps     uint64 // outer steps up to and with this round
	Last      bool

	raw  []byte // the canonical encoding of a finished record; see Finish
	name Digest // of raw
}

// Finish says that r will not be changed any more: its bytes and its digest are
// kept. It returns r.
func (r *Record) Finish() *Record {
	r.raw = Marshal(r)
	r.name = Sum(r.raw)
	return r
}

// Bytes returns the canonical encoding. The caller must not change it.
func (r *Record) Bytes() []byte {
	if r.raw != nil {
		return r.raw
	}
	return Marshal(r)
}

// Digest names the record.
func (r *Record) Digest() Digest {
	if r.raw != nil {
		return r.name
	}
	return Sum(Marshal(r))
}

// Seat returns p's seat.
func (r *Record) Seat(p PeerID) (Seat, bool) {
	i, ok := slices.BinarySearchFunc(r.Roster, p, func(s Seat, p PeerID) int { return s.Peer.Compare(p) })
	if !ok {
		return Seat{}, false
	}
	return r.Roster[i], true
}

// Verdict returns the line of the cut about p.
func (r *Record) Verdict(p PeerID) (Verdict, bool) {
	i, ok := slices.BinarySearchFunc(r.Cut, p, func(v Verdict, p PeerID) int { return v.Peer.Compare(p) })
	if !ok {
		return Verdict{}, false
	}
	return r.Cut[i], true
}

// CountedPeers returns how many contributions count.
func (r *Record) CountedPeers() int {
	n := 0
	for _, v := range r.Cut {
		if v.Status == Counted {
			n++
		}
	}
	return n
}

func (r *Record) check() error {
	if r.V != 1 {
		return fmt.Errorf("record of version %d, want 1", r.V)
	}
	if len(r.Stops) > 1 || len(r.Table) > MaxVoters || len(r.Roster) > MaxSeats || len(r.Merged) > MaxWindow {
		return errors.New("record holds too many stops, voters, seats or steps")
	}
	for i, n := range r.Counting {
		if int(n) >= len(r.Groups) || i > 0 && r.Counting[i-1] >= n {
			return errors.New("record counts a group result that it does not hold")
		}
	}
	for i := range r.Groups {
		if err := r.Groups[i].check(); err != nil {
			return err
		}
	}
	return checkSpans(r.Returned)
}

// OpenRecord decodes a record, which the caller must not change: others may have
// it too.
func OpenRecord(b []byte) (*Record, error) {
	name := Sum(b)
	if r, ok := decoded.get(name); ok {
		return r, nil
	}
	r := &Record{}
	if err := Unmarshal(b, r, MaxRecord); err != nil {
		return nil, err
	}
	r.raw, r.name = bytes.Clone(b), name
	decoded.add(name, r, 4*len(b))
	return r, nil
}

// Cert proves that voters of two thirds of the weight decided an instance.
// Value is the decided record's digest, or zero for a base decision, which
// leaves everything as it was.
type Cert struct {
	_         struct{} `cbor:",toarray"`
	V         uint64   // 1
	Instance  uint64
	BaseRound uint64 // record that the instance built on
	Base      Digest
	BaseTable Digest // of the table in record BaseRound
	Round     uint64 // of Value; BaseRound for a base decision
	Value     Digest
	ValTable  Digest   // of the table in record Round
	Signers   []uint32 // ranks, ascending
	Sigs      []byte   // 64 bytes a signer
}

func (c *Cert) check() error {
	if c.V != 1 || len(c.Signers) == 0 || len(c.Signers) > MaxVoters || len(c.Sigs) != 64*len(c.Signers) {
		return fmt.Errorf("certificate of version %d with %d signers and %d signature bytes", c.V, len(c.Signers), len(c.Sigs))
	}
	for i := range c.Signers {
		if i > 0 && c.Signers[i-1] >= c.Signers[i] {
			return errors.New("certificate's signers are out of order")
		}
	}
	return nil
}

// Decided reports whether the certificate decides a record.
func (c *Cert) Decided() bool { return !c.Value.IsZero() }
