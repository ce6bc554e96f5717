package ledger

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/apiary-net/hived/wire"
)

// Keys by peer, by peer and number, and by digest.
const (
	peerHeadKey  = "ledger/peer/head/"
	peerEntryKey = "ledger/peer/entry/"
	witnessedKey = "ledger/witnessed/"
	cosignedKey  = "ledger/cosigned/"
	evidenceKey  = "ledger/evidence/"
	toldKey      = "ledger/told/"
)

// maxHeads bounds the peers that are followed; a run has far fewer members.
const maxHeads = 4096

// Heads keeps the newest verified head of every peer in a run, what this peer
// cosigned, and the evidence that it found. All methods may be called
// concurrently.
type Heads struct {
	cfg  Config
	self wire.PeerID

	turn   chan struct{}             // holds one token; who has it may write
	guilty map[wire.PeerID]int       // evidence kept of a peer; belongs to who has the turn
	mu     sync.Mutex                // of best
	best   map[wire.PeerID]wire.Head // guarded by mu
}

// maxGuilty bounds the evidence that is kept of one peer: one is enough, and a liar
// can make any number.
const maxGuilty = 8

// OpenHeads reads what is stored.
func OpenHeads(cfg Config) (*Heads, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open heads: %w", err)
	}
	h := &Heads{cfg: cfg.withDefaults(), self: cfg.Key.Peer(), turn: make(chan struct{}, 1), guilty: map[wire.PeerID]int{}, best: map[wire.PeerID]wire.Head{}}
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
	kept, err := h.Evidence()
	if err != nil {
		return nil, fmt.Errorf("open heads: %w: %w", ErrDamaged, err)
	}
	for _, e := range kept {
		p, _, _ := CheckEvidence(e) // it was checked as it was read
		h.guilty[p]++
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

// base returns what a new head of p must extend: its best one or, if that had to make
// room, what was cosigned of it. The size is 0 if nothing is known.
func (h *Heads) base(p wire.PeerID) (size uint64, root wire.Digest, err error) {
	if best, ok := h.Best(p); ok {
		return best.Size, best.Root, nil
	}
	was, err := h.witnessed(p)
	return was.Size, was.Root, err
}

// makeRoom forgets the best head of one who is no member, should all places be taken.
func (h *Heads) makeRoom(member func(wire.PeerID) bool) error {
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	all := h.All()
	if len(all) < maxHeads {
		return nil
	}
	for p := range all {
		if member(p) {
			continue
		}
		if err := h.cfg.KV.Apply(nil, [][]byte{peerKey(peerHeadKey, p)}, false); err != nil {
			return fmt.Errorf("forget head of %s: %w", p, err)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.best, p)
		return nil
	}
	return nil
}

// Offer gives a head of peer p, with the proof that it extends Best(p): the
// caller asks p's log for ProveTree(Best(p).Size, head.Size). The first head of
// a peer needs none, but one that was cosigned and had to make room. fresh reports whether it is the new Best, durably. An older
// head is neither kept nor an error. Errors: a bad form or signature;
// ErrInconsistent; *EvidenceError, whose Evidence was kept.
func (h *Heads) Offer(p wire.PeerID, head wire.Head, proof []wire.Digest) (fresh bool, err error) {
	if err := CheckHead(head, h.cfg.Run, p); err != nil {
		return false, fmt.Errorf("offer head: %w", err)
	}
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	old, known := h.Best(p)
	size, root, err := h.base(p)
	if err != nil {
		return false, fmt.Errorf("offer head of %s: %w", p, err)
	}
	switch {
	case !known && len(h.All()) >= maxHeads:
		return false, fmt.Errorf("offer head of %s: %d peers are followed already", p, maxHeads)
	case known && head.Size == old.Size && head.Root != old.Root:
		return false, h.convict(wire.NewEvidence(wire.EvidenceHeads, old.Note, head.Note))
	case (known || size > 0) && head.Size <= size:
		return false, nil
	case size > 0:
		if err := CheckTree(head, size, root, proof); err != nil {
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

// Peers returns the peers whose heads are known, in peer-id order.
func (h *Heads) Peers() []wire.PeerID {
	return slices.SortedFunc(maps.Keys(h.All()), wire.PeerID.Compare)
}
