package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"golang.org/x/mod/sumdb/note"

	"github.com/apiary-net/hived/wire"
)

// Keys by peer, by peer and number, and by digest.
const (
	peerHeadKey  = "ledger/peer/head/"
	peerEntryKey = "ledger/peer/entry/"
	witnessedKey = "ledger/witnessed/"
	evidenceKey  = "ledger/evidence/"
)

// maxHeads bounds the peers that are followed; a run has far fewer members.
const maxHeads = 4096

// Heads keeps the newest verified head of every peer in a run, what this peer
// cosigned, and the evidence that it found. All methods may be called
// concurrently.
type Heads struct {
	cfg  Config
	self wire.PeerID

	turn chan struct{} // holds one token; who has it may write
	mu   sync.Mutex
	best map[wire.PeerID]wire.Head // guarded by mu
}

// OpenHeads reads what is stored.
func OpenHeads(cfg Config) (*Heads, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open heads: %w", err)
	}
	h := &Heads{cfg: cfg.withDefaults(), self: cfg.Key.Peer(), turn: make(chan struct{}, 1), best: map[wire.PeerID]wire.Head{}}
	err := cfg.KV.Scan([]byte(peerHeadKey), func(k, v []byte) error {
		var p wire.PeerID
		if len(k) != len(peerHeadKey)+len(p) {
			return fmt.Errorf("%w: key of %d bytes", ErrDamaged, len(k))
		}
		copy(p[:], k[len(peerHeadKey):])
		head, err := ParseHead(v, cfg.Run, p)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		h.best[p] = head
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("open heads: %w", err)
	}
	return h, nil
}

func peerKey(prefix string, p wire.PeerID) []byte { return append([]byte(prefix), p[:]...) }

// Best returns the newest verified head of a peer; ok is false if none is known.
func (h *Heads) Best(p wire.PeerID) (head wire.Head, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	head, ok = h.best[p]
	return head, ok
}

// All returns the newest verified heads.
func (h *Heads) All() map[wire.PeerID]wire.Head {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.best)
}

// Offer gives a head of peer p, with the proof that it extends Best(p): the
// caller asks p's log for ProveTree(Best(p).Size, head.Size). The first head of
// a peer needs none. fresh reports whether it is the new Best, durably. An older
// head is neither kept nor an error. Errors: a bad form or signature;
// ErrInconsistent; *EvidenceError, whose Evidence was kept.
func (h *Heads) Offer(p wire.PeerID, head wire.Head, proof []wire.Digest) (fresh bool, err error) {
	if err := CheckHead(head, h.cfg.Run, p); err != nil {
		return false, fmt.Errorf("offer head: %w", err)
	}
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	old, known := h.Best(p)
	switch {
	case !known && len(h.All()) >= maxHeads:
		return false, fmt.Errorf("offer head of %s: %d peers are followed already", p, maxHeads)
	case known && head.Size == old.Size && head.Root != old.Root:
		return false, h.convict(wire.NewEvidence(wire.EvidenceHeads, old.Note, head.Note))
	case known && head.Size <= old.Size:
		return false, nil
	case known:
		if err := CheckTree(head, old.Size, old.Root, proof); err != nil {
			return false, fmt.Errorf("offer head of %s: %w: %w", p, ErrInconsistent, err)
		}
	}
	if err := h.cfg.KV.Apply([][2][]byte{{peerKey(peerHeadKey, p), head.Note}}, nil, true); err != nil {
		return false, fmt.Errorf("keep head of %s: %w", p, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.best[p] = head
	return true, nil
}

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
	if err := h.cfg.KV.Apply([][2][]byte{{append([]byte(evidenceKey), d[:]...), b}}, nil, true); err != nil {
		return fmt.Errorf("keep evidence: %w", err)
	}
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

// Cosign states that this peer saw head, which must be Best(p), and returns the
// note with the cosignature added (C2SP tlog-cosignature v1). What it cosigns
// only grows: the size and root are durable before they are signed, so not even
// a crash makes it state two histories. Errors: ErrOld, ErrInconsistent.
func (h *Heads) Cosign(p wire.PeerID, head wire.Head) ([]byte, error) {
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	best, ok := h.Best(p)
	if !ok || best.Size != head.Size || best.Root != head.Root {
		return nil, fmt.Errorf("cosign size %d of %s: %w", head.Size, p, ErrOld)
	}
	was, err := h.witnessed(p)
	if err != nil {
		return nil, fmt.Errorf("cosign size %d of %s: %w", head.Size, p, err)
	}
	// Best only moves along consistency proofs, and what was cosigned was Best.
	if was.Size > best.Size || was.Size == best.Size && !was.Root.IsZero() && was.Root != best.Root {
		return nil, fmt.Errorf("cosign size %d of %s after size %d: %w", head.Size, p, was.Size, ErrInconsistent)
	}
	now := wire.Marshal(witnessedState{Size: best.Size, Root: best.Root})
	if err := h.cfg.KV.Apply([][2][]byte{{peerKey(witnessedKey, p), now}}, nil, true); err != nil {
		return nil, fmt.Errorf("cosign size %d of %s: %w", head.Size, p, err)
	}
	k := logKey{origin: best.Origin, peer: p}
	n, err := note.Open(best.Note, note.VerifierList(k))
	if err != nil {
		return nil, fmt.Errorf("cosign size %d of %s: %w", head.Size, p, err)
	}
	n.UnverifiedSigs = nil // others' cosignatures are theirs to send
	b, err := note.Sign(n, witnessKey{h.self, h.cfg.Key, h.cfg.Now})
	if err != nil {
		return nil, fmt.Errorf("cosign size %d of %s: %w", head.Size, p, err)
	}
	return b, nil
}

// witnessedState is the last head of a log that was cosigned.
type witnessedState struct {
	_    struct{} `cbor:",toarray"`
	Size uint64
	Root wire.Digest
}

func (h *Heads) witnessed(p wire.PeerID) (w witnessedState, err error) {
	b, err := h.cfg.KV.Get(peerKey(witnessedKey, p))
	if errors.Is(err, fs.ErrNotExist) {
		return w, nil
	}
	if err != nil {
		return w, err
	}
	if err := wire.Unmarshal(b, &w, 64); err != nil {
		return w, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return w, nil
}

// Peers returns the peers whose heads are known, in peer-id order.
func (h *Heads) Peers() []wire.PeerID {
	return slices.SortedFunc(maps.Keys(h.All()), wire.PeerID.Compare)
}
