package ledger

import (
	"errors"

	"github.com/apiary-net/hived/wire"
)

// ParseEvidence decodes and checks the canonical encoding (wire.Marshal).
func ParseEvidence(b []byte) (wire.Evidence, error) {
	var e wire.Evidence
	if err := wire.Unmarshal(b, &e, wire.MaxEvidence); err != nil {
		return wire.Evidence{}, err
	}
	if _, _, err := CheckEvidence(e); err != nil {
		return wire.Evidence{}, err
	}
	return e, nil
}

// CheckEvidence verifies the evidence and returns whom it convicts, and in which run.
func CheckEvidence(e wire.Evidence) (wire.PeerID, wire.RunID, error) {
	if err := wire.Unmarshal(wire.Marshal(e), &e, wire.MaxEvidence); err != nil { // its form
		return wire.PeerID{}, wire.RunID{}, err
	}
	switch e.Kind {
	case wire.EvidenceHeads:
		return checkHeads(e)
	case wire.EvidenceFork:
		return checkFork(e)
	}
	return checkEntries(e)
}

func checkHeads(e wire.Evidence) (p wire.PeerID, run wire.RunID, err error) {
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

// checkFork: the proof ties the root that it begins with to the later head, so the
// owner signed two histories of the earlier head's length.
func checkFork(e wire.Evidence) (p wire.PeerID, run wire.RunID, err error) {
	var f wire.Fork
	if err := wire.Unmarshal(e.B, &f, wire.MaxEvidence); err != nil {
		return p, run, err
	}
	a, err := parseAnyHead(e.A)
	if err != nil {
		return p, run, err
	}
	b, err := parseAnyHead(f.Note)
	if err != nil {
		return p, run, err
	}
	if a.Origin != b.Origin || a.Size == 0 || a.Size >= b.Size || a.Root == f.Old {
		return p, run, errors.New("the two heads do not contradict each other")
	}
	if err := CheckTree(b, a.Size, f.Old, f.Proof); err != nil {
		return p, run, err
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

func checkEntries(e wire.Evidence) (p wire.PeerID, run wire.RunID, err error) {
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
