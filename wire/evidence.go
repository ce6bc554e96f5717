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
)

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
	A, B []byte // notes, or leaves
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
	if e.Kind != EvidenceHeads && e.Kind != EvidenceEntries {
		return fmt.Errorf("evidence of kind %d", e.Kind)
	}
	if string(e.A) >= string(e.B) {
		return errors.New("evidence is not in order, or says one thing twice")
	}
	return nil
}
