package wire

import (
	"errors"
	"fmt"
)

// EvidenceKind says what two statements contradict each other.
type EvidenceKind uint64

// Kinds of evidence. Numbers are part of the format.
const (
	EvidenceHeads   EvidenceKind = 1 // two notes of one origin and size, other roots
	EvidenceEntries EvidenceKind = 2 // two entries of one peer, run and number
	EvidenceFork    EvidenceKind = 3 // a note, and a Fork that contradicts it
)

func (k EvidenceKind) String() string {
	if names := []string{"", "heads", "entries", "fork"}; k > 0 && uint64(k) < uint64(len(names)) {
		return names[k]
	}
	return fmt.Sprintf("kind-%d", uint64(k))
}

const (
	// MaxNote bounds a signed note, and each side of an Evidence.
	MaxNote = 4 << 10
	// MaxEvidence bounds the encoding of an Evidence.
	MaxEvidence = 2*MaxNote + 64
)

// Evidence is a proof that a peer signed two things of which it may sign one.
// Whoever has it can check it, knowing nothing else: ledger.CheckEvidence. A is the
// lesser of the two in byte order, so one lie has one form.
type Evidence struct {
	_    struct{} `cbor:",toarray"`
	V    uint64   // 1
	Kind EvidenceKind
	A, B []byte // notes, or leaves, or a note and a Fork
}

// NewEvidence puts two statements in order.
func NewEvidence(kind EvidenceKind, a, b []byte) Evidence {
	if string(a) > string(b) {
		a, b = b, a
	}
	return Evidence{V: 1, Kind: kind, A: a, B: b}
}

func (e *Evidence) check() error {
	if e.V != 1 {
		return fmt.Errorf("evidence of version %d, want 1", e.V)
	}
	if e.Kind < EvidenceHeads || e.Kind > EvidenceFork {
		return fmt.Errorf("evidence of kind %d", e.Kind)
	}
	if string(e.A) >= string(e.B) {
		return errors.New("evidence is not in order, or says one thing twice")
	}
	return nil
}

// Fork is a later head of a log, and the proof that it did not grow out of an earlier
// one: Proof shows that the log with the head Note begins with the entries of root
// Old, which is not the root of the earlier head of their number.
type Fork struct {
	_     struct{} `cbor:",toarray"`
	Note  []byte
	Old   Digest
	Proof []Digest
}

// Cosigned is the note of a head with the sender's cosignature added.
type Cosigned struct {
	_    struct{} `cbor:",toarray"`
	Note []byte
}

func (c *Cosigned) check() error {
	if len(c.Note) > MaxNote {
		return fmt.Errorf("note of %d bytes, limit %d", len(c.Note), MaxNote)
	}
	return nil
}

// Seen is a head of a peer's log that a witness cosigned.
type Seen struct {
	_    struct{} `cbor:",toarray"`
	Peer PeerID
	Size uint64
	Root Digest
}

// MaxSeen is the most heads that one entry of a witness names.
const MaxSeen = 32

// SeenList is the Extra of an EntryWitness: what was cosigned since the one before.
type SeenList struct {
	_    struct{} `cbor:",toarray"`
	Seen []Seen
}

func (l *SeenList) check() error {
	if len(l.Seen) == 0 || len(l.Seen) > MaxSeen {
		return fmt.Errorf("%d heads were seen, want 1 to %d", len(l.Seen), MaxSeen)
	}
	return nil
}
