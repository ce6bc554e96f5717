package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/apiary-net/hived/wire"
)

// What is known of evidence besides itself: nothing of what was found here and is
// not yet in the own log. Who found it tells others.
const (
	heardMark = "heard"        // from another peer, which told everybody
	logged    = "logged-"      // it stands in the own log
	foundMark = logged + "own" // and was found here
)

// hear takes evidence that another peer found. It is kept of members only, of others
// there is no end; and of those who are not convicted yet.
func (w *Witness) hear(e wire.Envelope) error {
	ev, err := ParseEvidence(e.Body)
	if err != nil {
		return err
	}
	p, _, err := CheckEvidence(ev)
	if err != nil || !w.peers.Member(p) || w.Convicted(p) {
		return err
	}
	if err := w.OfferEvidence(ev); !errors.Is(err, ErrEquivocation) {
		return err
	}
	if err := w.mark(wire.Sum(e.Body), heardMark); err != nil {
		return err
	}
	signal(w.found)
	return nil
}

// Convicted reports whether evidence against p is kept.
func (h *Heads) Convicted(p wire.PeerID) bool {
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	return h.guilty[p] > 0
}

func (w *Witness) mark(d wire.Digest, how string) error {
	key := append([]byte(toldKey), d[:]...)
	if err := w.cfg.KV.Apply([][2][]byte{{key, []byte(how)}}, nil, true); err != nil {
		return fmt.Errorf("mark evidence %s: %w", d.Short(), err)
	}
	return nil
}

// tellAll writes evidence that is kept, and not yet in the own log, into it, and
// announces what was found here: again after a start, for those who were away.
func (w *Witness) tellAll(ctx context.Context, again bool) {
	kept, err := w.Evidence()
	for _, e := range kept {
		err = errors.Join(err, w.tell(ctx, e, again))
	}
	if err != nil && ctx.Err() == nil {
		w.cfg.Logger.Error("evidence is not in the own log", "err", err)
	}
}

func (w *Witness) tell(ctx context.Context, e wire.Evidence, again bool) error {
	b := wire.Marshal(e)
	d := wire.Sum(b)
	v, err := w.cfg.KV.Get(append([]byte(toldKey), d[:]...))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("tell of evidence %s: %w", d.Short(), err)
	}
	state := string(v)
	found, isLogged := state == "" || state == foundMark, strings.HasPrefix(state, logged)
	if !isLogged {
		if _, err := w.Append(ctx, []wire.EntryBody{{Kind: wire.EntryEvidence, Ref: wire.RawCID(b)}}); err != nil {
			return fmt.Errorf("tell of evidence %s: %w", d.Short(), err)
		}
		now := foundMark
		if !found {
			now = logged + heardMark
		}
		if err := w.mark(d, now); err != nil {
			return err
		}
	}
	if found && (again || !isLogged) {
		sealed := wire.Seal(w.cfg.Key, wire.KindEvidence, w.cfg.Run, 0, &e).Bytes()
		w.attempt(ctx, maxAsk, "evidence not announced", func(ctx context.Context) error { return w.peers.Announce(ctx, sealed) })
	}
	return nil
}

// attempt says something once; what is lost is said again with what comes later.
func (w *Witness) attempt(ctx context.Context, limit time.Duration, lost string, say func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := say(ctx); err != nil {
		w.cfg.Logger.Debug(lost, "err", err)
	}
}
