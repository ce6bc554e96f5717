package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/apiary-net/hived/wire"
	"golang.org/x/mod/sumdb/note"
)

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

// OfferCosigned gives a note of this peer's own log l that a witness cosigned. The
// newest of each witness is kept. Errors: those of OfferOwn, and a bad form or
// signature.
func (h *Heads) OfferCosigned(l *Log, witness wire.PeerID, cosigned []byte) error {
	head, err := ParseHead(cosigned, h.cfg.Run, h.self)
	if err != nil {
		return fmt.Errorf("offer cosignature: %w", err)
	}
	if _, err := Cosignature(cosigned, witness); err != nil {
		return fmt.Errorf("offer cosignature: %w", err)
	}
	if err := h.OfferOwn(l, head); err != nil {
		return err
	}
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	key := peerKey(cosignedKey, witness)
	old, err := h.cfg.KV.Get(key)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keep cosignature of %s: %w", witness, err)
	}
	if err == nil {
		if was, err := ParseHead(old, h.cfg.Run, h.self); err == nil && was.Size >= head.Size {
			return nil
		}
	}
	if err := h.cfg.KV.Apply([][2][]byte{{key, cosigned}}, nil, false); err != nil {
		return fmt.Errorf("keep cosignature of %s: %w", witness, err)
	}
	return nil
}

// CosignedHead is a head of the own log that a witness saw.
type CosignedHead struct {
	Witness wire.PeerID
	Head    wire.Head // its Note has the cosignature
	At      time.Time // by the witness's clock
}

// Cosigned returns the newest head of the own log that each witness cosigned, by
// witness.
func (h *Heads) Cosigned() ([]CosignedHead, error) {
	var out []CosignedHead
	err := h.cfg.KV.Scan([]byte(cosignedKey), func(k, v []byte) error {
		c := CosignedHead{}
		if len(k) != len(cosignedKey)+len(c.Witness) {
			return fmt.Errorf("%w: key of %d bytes", ErrDamaged, len(k))
		}
		copy(c.Witness[:], k[len(cosignedKey):])
		var err error
		if c.Head, err = ParseHead(v, h.cfg.Run, h.self); err == nil {
			c.At, err = Cosignature(v, c.Witness)
		}
		out = append(out, c)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read cosignatures: %w", err)
	}
	return out, nil
}
