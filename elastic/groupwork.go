package elastic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/apiary-net/hived/elastic/decide"
	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/elastic/version"
	"github.com/apiary-net/hived/wire"
)

// mergeGroup merges what a cut of the own group counts and tells the machine. It
// tries until the round is decided: bodies that two thirds hold can be had.
func (r *Runner) mergeGroup(ctx context.Context, c decide.MergeGroup) {
	v, round := c.View, c.Round
	for ctx.Err() == nil && r.progress.Load().head() < round {
		ev, err := r.mergeCut(ctx, v, round, c.Members)
		if err == nil {
			r.post(ctx, ev)
			return
		}
		r.log.Debug("group not merged yet", "round", round, "group", v.Outcome.Group, "err", err)
		if !r.pause(ctx, 500*time.Millisecond) {
			return
		}
	}
}

func (r *Runner) mergeCut(ctx context.Context, v *rules.GroupView, round uint64, members []wire.PeerID) (decide.GroupMerged, error) {
	ev := decide.GroupMerged{Round: round, Cut: v.Outcome.Cut}
	if err := r.merges.enter(ctx); err != nil {
		return ev, err
	}
	defer r.merges.leave()
	fctx, cancel := r.env.Context(ctx, bodyDeadline)
	defer cancel()
	merged, nonces, err := r.model.MergeHeaders(fctx, v.Counted, func(sender wire.PeerID) version.GetBlock {
		return r.getFrom(append([]wire.PeerID{sender}, members...)...)
	})
	if err != nil {
		return ev, err
	}
	ev.Nonces = nonces
	if _, err := r.cfg.Bodies.Put(round, wire.Marshal(&v.Cut)); err != nil {
		return ev, fmt.Errorf("keep the group's cut: %w", err)
	}
	if merged != nil {
		if ev.Merged, err = r.model.MergedCID(merged, r.cacheMerged(round)); err != nil {
			return ev, err
		}
	}
	return ev, r.cfg.Bodies.Sync() // before the vote for it is signed
}

// cacheMerged keeps the blocks of a merged update, for voters and for those who
// take it from them: in memory, or on disk where that is full.
func (r *Runner) cacheMerged(round uint64) func(b []byte) (wire.CID, error) {
	return func(b []byte) (wire.CID, error) {
		id := wire.RawCID(b)
		if r.cache.putMerged(round, id, b) {
			return id, nil
		}
		return r.cfg.Bodies.Put(round, b)
	}
}

// fetchGroup fetches and checks another group's merged update.
func (r *Runner) fetchGroup(ctx context.Context, c decide.FetchGroup) {
	if r.merges.enter(ctx) != nil {
		return
	}
	defer r.merges.leave()
	fctx, cancel := r.env.Context(ctx, bodyDeadline)
	defer cancel()
	ev := decide.BodyChecked{Header: c.Outcome.Digest()}
	_, err := r.loadMerged(fctx, c.Round, c.Outcome.Merged, c.Members)
	var refused *version.BadBody
	switch {
	case err == nil:
		ev.Whole = true
	case errors.As(err, &refused):
		ev.Reason = refused.Reason
		r.log.Warn("group result refused", "round", c.Round, "group", c.Outcome.Group, "err", err)
	default:
		r.log.Debug("group result not here yet", "round", c.Round, "group", c.Outcome.Group, "err", err)
		if !r.pause(ctx, 200*time.Millisecond) {
			return
		}
	}
	r.post(ctx, ev)
}

// loadMerged returns a merged update by its CID, from its holders, and keeps its
// blocks.
func (r *Runner) loadMerged(ctx context.Context, round uint64, id wire.CID, holders []wire.PeerID) ([]float32, error) {
	get := r.getOf(func() []wire.PeerID {
		return slices.DeleteFunc(slices.Clone(holders), func(p wire.PeerID) bool { return p == r.self })
	})
	keep := func(ctx context.Context, ids []wire.CID, got func(wire.CID, []byte) error) error {
		return get(ctx, ids, func(id wire.CID, b []byte) error {
			err := got(id, b)
			if err == nil {
				r.cache.putMerged(round, id, b)
			}
			return err
		})
	}
	return r.model.LoadMerged(ctx, id, keep)
}

// groupUpdates returns the merged update of a record of several groups: merged
// from the groups' updates, or, by who did not vote, taken from the voters under
// the CID that they attest.
func (w *worker) groupUpdates(ctx context.Context, rec, prev *wire.Record, attested wire.Attest) ([][]float32, wire.CID, error) {
	if len(rec.Counting) == 0 {
		return nil, wire.CID{}, nil
	}
	fctx, cancel := w.r.env.Context(ctx, bodyDeadline)
	defer cancel()
	if prev.Table.Of(w.r.self) == 0 && !attested.Merged.IsZero() {
		if u, err := w.r.loadMerged(fctx, rec.Round, attested.Merged, prev.Table.Peers()); err == nil {
			return [][]float32{u}, attested.Merged, nil
		}
	}
	var updates [][]float32
	outcomes := rules.CountedGroups(rec)
	for _, o := range outcomes {
		if o.Merged.IsZero() {
			updates = append(updates, nil)
			continue
		}
		u, err := w.r.loadMerged(fctx, rec.Round, o.Merged, rules.MembersOf(rec, o))
		if err != nil {
			return nil, wire.CID{}, fmt.Errorf("update of group %d: %w", o.Group, err)
		}
		updates = append(updates, u)
	}
	merged, err := w.r.model.MergeGroups(outcomes, updates)
	if err != nil || merged == nil {
		return nil, wire.CID{}, err
	}
	id, err := w.r.model.MergedCID(merged, w.r.cacheMerged(rec.Round))
	return [][]float32{merged}, id, err
}
