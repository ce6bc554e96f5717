package ledger

import (
	"errors"
	"fmt"

	"github.com/apiary-net/hived/wire"
)

// EvidenceKind says what two statements contradict each other.
type EvidenceKind uint64

// Kinds of evidence. Numbers are part of the format.
const (
	EvidenceHeads   EvidenceKind = 1 // two notes of one origin and size, other roots
	EvidenceEntries EvidenceKind = 2 // two entries of one peer, run and number
)

// maxEvidence bounds the encoding of an Evidence.
const maxEvidence = 2*maxNote + 64

// Evidence is a proof that a peer signed two things of which it may sign one.
// Whoever has it can check it, knowing nothing else. A is the lesser of the two
// in byte order, so one lie has one form.
type Evidence struct {
	_    struct{} `cbor:",toarray"`
	V    uint64   // 1
	Kind EvidenceKind
	A, B []byte // notes, or leaves
}

func newEvidence(kind EvidenceKind, a, b []byte) Evidence {
	if string(a) > string(b) {
		a, b = b, a
	}
	return Evidence{V: 1, Kind: kind, A: a, B: b}
}

// ParseEvidence decodes and checks the canonical encoding (wire.Marshal).
func ParseEvidence(b []byte) (Evidence, error) {
	var e Evidence
	if err := wire.Unmarshal(b, &e, maxEvidence); err != nil {
		return Evidence{}, err
	}
	if _, _, err := e.Check(); err != nil {
		return Evidence{}, err
	}
	return e, nil
}

// Check verifies the evidence and returns whom it convicts, and in which run.
func (e Evidence) Check() (wire.PeerID, wire.RunID, error) {
	if e.V != 1 {
		return wire.PeerID{}, wire.RunID{}, fmt.Errorf("evidence of version %d, want 1", e.V)
	}
	if string(e.A) >= string(e.B) {
		return wire.PeerID{}, wire.RunID{}, errors.New("evidence is not in order, or says one thing twice")
	}
	switch e.Kind {
	case EvidenceHeads:
		return e.checkHeads()
	case EvidenceEntries:
		return e.checkEntries()
	}
	return wire.PeerID{}, wire.RunID{}, fmt.Errorf("evidence of kind %d", e.Kind)
}

func (e Evidence) checkHeads() (p wire.PeerID, run wire.RunID, err error) {
	a, err := parseAnyHead(e.A)
	if err != nil {
		return p, run, err
	}
	b, err := parseAnyHead(e.B)
	if err != nil {
		return p, run, err
	}
	if a.Origin != b.Origin || a.Size != b.Size || a.Root == b.Root {
		return p, run, errors.New("the two heads do not contradict each other")
	}
	run, p, err = parseOrigin(a.Origin)
	return p, run, err
}

// parseAnyHead checks a note against the key that its own first line names.
func parseAnyHead(b []byte) (wire.Head, error) {
	for i, c := range b[:min(len(b), 256)] {
		if c != '\n' {
			continue
		}
		run, p, err := parseOrigin(string(b[:i]))
		if err != nil {
			return wire.Head{}, err
		}
		return ParseHead(b, run, p)
	}
	return wire.Head{}, errors.New("note has no origin line")
}

func (e Evidence) checkEntries() (p wire.PeerID, run wire.RunID, err error) {
	a, err := wire.OpenEntry(e.A)
	if err != nil {
		return p, run, err
	}
	b, err := wire.OpenEntry(e.B)
	if err != nil {
		return p, run, err
	}
	if a.Peer != b.Peer || a.Run != b.Run || a.Seq != b.Seq {
		return p, run, errors.New("the two entries do not contradict each other")
	}
	return a.Peer, a.Run, nil
}
