package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"github.com/apiary-net/hived/wire"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// OfferOwn gives a head of this peer's own log that another peer shows. It
// returns ErrBehind if the log here has fewer entries, and an *EvidenceError if
// it has others: the state here is an old copy, or the key lives elsewhere too.
// The caller stops the log then.
func (h *Heads) OfferOwn(l *Log, head wire.Head) error {
	if err := CheckHead(head, h.cfg.Run, h.self); err != nil {
		return fmt.Errorf("offer own head: %w", err)
	}
	have := l.Head()
	if head.Size > have.Size {
		return fmt.Errorf("head of size %d, log of %d: %w", head.Size, have.Size, ErrBehind)
	}
	root, err := l.RootAt(head.Size)
	if err != nil || root == head.Root {
		return err
	}
	mine, err := signHead(l.key, head.Size, root)
	if err != nil {
		return err
	}
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	return h.convict(wire.NewEvidence(wire.EvidenceHeads, mine.Note, head.Note))
}

// OfferEntry gives an entry of any peer. The first of each number is kept; a
// second one that differs is an *EvidenceError.
func (h *Heads) OfferEntry(leaf []byte) error {
	e, err := wire.OpenEntry(leaf)
	if err != nil {
		return fmt.Errorf("offer entry: %w", err)
	}
	if e.Run != h.cfg.Run || e.Seq >= maxSize {
		return fmt.Errorf("offer entry %d of run %s: not of this run", e.Seq, e.Run.Short())
	}
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	k := numbered(string(peerKey(peerEntryKey, e.Peer)), e.Seq)
	old, err := h.cfg.KV.Get(k)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := h.cfg.KV.Apply([][2][]byte{{k, leaf}}, nil, false); err != nil {
			return fmt.Errorf("keep entry %d of %s: %w", e.Seq, e.Peer, err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("offer entry %d of %s: %w", e.Seq, e.Peer, err)
	case bytes.Equal(old, leaf):
		return nil
	}
	return h.convict(wire.NewEvidence(wire.EvidenceEntries, old, leaf))
}

// OfferLog gives the whole log of a peer: head and all its entries. If it does not
// begin with what was seen of it before, that is an *EvidenceError; a log that is not
// the head's, or shorter than what was seen, is another error.
func (h *Heads) OfferLog(p wire.PeerID, head wire.Head, entries [][]byte) error {
	if err := CheckHead(head, h.cfg.Run, p); err != nil {
		return fmt.Errorf("offer log: %w", err)
	}
	v := &verifier{run: h.cfg.Run, peer: p}
	for _, leaf := range entries {
		if err := v.entry(leaf); err != nil {
			return fmt.Errorf("offer log of %s: %w", p, err)
		}
	}
	root, err := v.rootAt(v.size)
	if err != nil {
		return fmt.Errorf("offer log of %s: %w", p, err)
	}
	if v.size != head.Size || root != head.Root {
		return fmt.Errorf("offer log of %s: %d entries are not those of its head of size %d", p, v.size, head.Size)
	}
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	best, known := h.Best(p)
	switch {
	case !known:
		return nil
	case best.Size > head.Size:
		return fmt.Errorf("offer log of %s: size %d, %d was seen: %w", p, head.Size, best.Size, ErrOld)
	case best.Size == head.Size && best.Root != head.Root:
		return h.convict(wire.NewEvidence(wire.EvidenceHeads, best.Note, head.Note))
	}
	old, err := v.rootAt(best.Size)
	if err != nil || old == best.Root {
		return err
	}
	proof, err := tlog.ProveTree(int64(head.Size), int64(best.Size), v)
	if err != nil {
		return fmt.Errorf("offer log of %s: %w", p, err)
	}
	a, err := bareNote(best, p)
	if err != nil {
		return err
	}
	b, err := bareNote(head, p)
	if err != nil {
		return err
	}
	return h.convict(wire.NewEvidence(wire.EvidenceFork, a, wire.Marshal(wire.Fork{Note: b, Old: old, Proof: digests(proof)})))
}

// OfferEvidence gives what another peer found. What convicts a peer of this run is
// kept; the error is then an *EvidenceError.
func (h *Heads) OfferEvidence(e wire.Evidence) error {
	_, run, err := CheckEvidence(e)
	if err == nil && run != h.cfg.Run {
		err = fmt.Errorf("it is of run %s", run.Short())
	}
	if err != nil {
		return fmt.Errorf("offer evidence: %w", err)
	}
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	return h.convict(e)
}

// bareNote is the note of a head without others' cosignatures.
func bareNote(head wire.Head, p wire.PeerID) ([]byte, error) {
	n, err := note.Open(head.Note, note.VerifierList(logKey{origin: head.Origin, peer: p}))
	if err != nil {
		return nil, fmt.Errorf("read note of %s: %w", p, err)
	}
	n.UnverifiedSigs = nil
	return note.Sign(n)
}

// EvidenceError carries the proof of a contradiction; it is an ErrEquivocation.
type EvidenceError struct{ Evidence wire.Evidence }

func (e *EvidenceError) Error() string {
	p, _, err := CheckEvidence(e.Evidence)
	if err != nil {
		return ErrEquivocation.Error()
	}
	return fmt.Sprintf("%s: %s", p, ErrEquivocation)
}

// Unwrap returns ErrEquivocation.
func (e *EvidenceError) Unwrap() error { return ErrEquivocation }

// convict keeps evidence and returns it as an error. The caller has the turn.
func (h *Heads) convict(e wire.Evidence) error {
	p, _, err := CheckEvidence(e)
	if err != nil {
		return fmt.Errorf("keep evidence: %w", err)
	}
	b := wire.Marshal(e)
	d := wire.Sum(b)
	key := append([]byte(evidenceKey), d[:]...)
	if _, err := h.cfg.KV.Get(key); err == nil || h.guilty[p] >= maxGuilty {
		return &EvidenceError{e}
	}
	if err := h.cfg.KV.Apply([][2][]byte{{key, b}}, nil, true); err != nil {
		return fmt.Errorf("keep evidence: %w", err)
	}
	h.guilty[p]++
	h.cfg.Logger.Error("peer signed two statements of which it may sign one", "peer", p.String(), "evidence", d.String())
	return &EvidenceError{e}
}

// Evidence returns all that was kept, in the order of digests.
func (h *Heads) Evidence() ([]wire.Evidence, error) {
	var out []wire.Evidence
	err := h.cfg.KV.Scan([]byte(evidenceKey), func(_, v []byte) error {
		e, err := ParseEvidence(v)
		out = append(out, e)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read evidence: %w", err)
	}
	return out, nil
}
