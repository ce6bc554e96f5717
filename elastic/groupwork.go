package elastic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/apiary-net/hived/tensorops/merge"
	"github.com/apiary-net/hived/tensorops/num"
	"github.com/apiary-net/hived/wire"
)

// mergeGroup merges what a cut of the own group counts and tells the machine. It
// tries until the round is decided: bodies that two thirds hold can be had.
func (r *Runner) mergeGroup(ctx context.Context, v *GroupView, round uint64, members []wire.PeerID) {
	for ctx.Err() == nil && r.crowd.Load().head < round {
		ev, err := r.mergeCut(ctx, v, round, members)
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

func (r *Runner) mergeCut(ctx context.Context, v *GroupView, round uint64, members []wire.PeerID) (GroupMerged, error) {
	ev := GroupMerged{Round: round, Cut: v.Outcome.Cut}
	if err := r.merges.enter(ctx); err != nil {
		return ev, err
	}
	defer r.merges.leave()
	fctx, cancel := r.env.Context(ctx, bodyDeadline)
	defer cancel()
	merged, nonces, err := r.model.MergeHeaders(fctx, v.Counted, func(sender wire.PeerID) GetBlock {
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
		ev.Merged, err = MergedCID(r.model.digest, r.model.g.Preset.Merged, merged, r.cacheMerged(round))
	}
	return ev, err
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
func (r *Runner) fetchGroup(ctx context.Context, c FetchGroup) {
	if r.merges.enter(ctx) != nil {
		return
	}
	defer r.merges.leave()
	fctx, cancel := r.env.Context(ctx, bodyDeadline)
	defer cancel()
	ev := BodyChecked{Header: c.Outcome.Digest()}
	_, err := r.loadMerged(fctx, c.Round, c.Outcome.Merged, c.Members)
	var refused *BadBody
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
	v, err := LoadVectors(ctx, r.model.digest, id, map[string]int{"merged": r.model.params}, keep)
	if err != nil {
		return nil, err
	}
	return v["merged"], nil
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
	outcomes := CountedGroups(rec)
	for _, o := range outcomes {
		if o.Merged.IsZero() {
			updates = append(updates, nil)
			continue
		}
		u, err := w.r.loadMerged(fctx, rec.Round, o.Merged, membersOf(rec, o))
		if err != nil {
			return nil, wire.CID{}, fmt.Errorf("update of group %d: %w", o.Group, err)
		}
		updates = append(updates, u)
	}
	merged, err := w.r.model.MergeGroups(outcomes, updates)
	if err != nil || merged == nil {
		return nil, wire.CID{}, err
	}
	id, err := MergedCID(w.r.model.digest, w.r.model.g.Preset.Merged, merged, w.r.cacheMerged(rec.Round))
	return [][]float32{merged}, id, err
}

// membersOf returns the peers whose contributions an outcome counts.
func membersOf(rec *wire.Record, o *wire.GroupOutcome) []wire.PeerID {
	headers := map[wire.Digest]bool{}
	for _, r := range o.Rows {
		headers[r.Header] = r.Status == wire.Counted
	}
	var out []wire.PeerID
	for _, v := range rec.Cut {
		if headers[v.Header] {
			out = append(out, v.Peer)
		}
	}
	return out
}

// MergeHeaders fetches the contributions of counted headers, checks and merges
// them, and names their nonces. Without headers the merged update is nil.
func (m *Model) MergeHeaders(ctx context.Context, headers []CountedHeader, from func(sender wire.PeerID) GetBlock) ([]float32, wire.Digest, error) {
	var in []Counted
	var nonces []byte
	blocks := map[wire.CID][]byte{}
	for _, ch := range headers {
		body, err := m.FetchBody(ctx, &ch.Header, nil, from(ch.Env.Sender), func(id wire.CID, b []byte) { blocks[id] = bytes.Clone(b) })
		if err != nil {
			return nil, wire.Digest{}, fmt.Errorf("contribution of %s: %w", ch.Env.Sender.Short(), err)
		}
		nonces = append(nonces, body.Nonce...)
		in = append(in, Counted{Samples: ch.Samples, Body: body, Part: func(i int) ([]byte, error) {
			return blocks[wire.RawDigestCID(body.Parts[i].Block)], nil
		}})
	}
	if len(in) == 0 {
		return nil, wire.Sum(nil), nil
	}
	merged, err := m.Merge(in)
	return merged, wire.Sum(nonces), err
}

// MergeGroups merges the updates of groups, in group order, by the run's rule:
// what a group weighs are the samples of what it counts. updates[i] is nil for a
// group that counts nothing; the result is nil if all are.
func (m *Model) MergeGroups(outcomes []*wire.GroupOutcome, updates [][]float32) ([]float32, error) {
	var weights []uint64
	var in [][]float32
	for i, u := range updates {
		if u != nil {
			in, weights = append(in, u), append(weights, outcomes[i].Weight())
		}
	}
	if len(in) == 0 {
		return nil, nil
	}
	for slices.Max(weights) > merge.MaxSamples {
		for i := range weights {
			weights[i] = max(1, weights[i]/2)
		}
	}
	out := make([]float32, m.params)
	stats, views := make([]merge.Stat, len(in)), make([][]float32, len(in))
	for i, p := range m.parts {
		for k, u := range in {
			views[k] = u[p.Lo:p.Hi]
			stats[k] = merge.Stat{Samples: uint32(weights[k]), SumSquares: num.SumSquares(views[k])}
		}
		w, total, err := m.rule.Weights(stats)
		if err != nil {
			return nil, fmt.Errorf("merge part %d of groups: %w", i, err)
		}
		rep, err := m.rule.Merge(out[p.Lo:p.Hi], views, w, total)
		if err != nil {
			return nil, fmt.Errorf("merge part %d of groups: %w", i, err)
		}
		if rep.NonFinite {
			return nil, fmt.Errorf("merge part %d of groups: a merged value is not finite", i)
		}
	}
	return out, nil
}

// replayGroups recomputes the merged update of a record of several groups from
// the evidence of each: its cut, and the contributions that this counts. Nothing
// that the result states is believed.
func (m *Model) replayGroups(ctx context.Context, rec *wire.Record, s setting, get GetBlock) ([]float32, error) {
	outcomes := CountedGroups(rec)
	var updates [][]float32
	for _, o := range outcomes {
		v, err := fetchGroupCut(ctx, s, o, get)
		if err != nil {
			return nil, err
		}
		u, nonces, err := m.MergeHeaders(ctx, v.Counted, func(wire.PeerID) GetBlock { return get })
		if err != nil {
			return nil, fmt.Errorf("group %d: %w", o.Group, err)
		}
		if u != nil {
			if v.Outcome.Merged, err = MergedCID(m.digest, m.g.Preset.Merged, u, nil); err != nil {
				return nil, err
			}
		}
		v.Outcome.Nonces = nonces
		if v.Outcome.Digest() != o.Digest() {
			return nil, fmt.Errorf("group %d: its evidence gives another outcome", o.Group)
		}
		updates = append(updates, u)
	}
	return m.MergeGroups(outcomes, updates)
}

// fetchGroupCut fetches and opens the evidence of an outcome of a round.
func fetchGroupCut(ctx context.Context, s setting, o *wire.GroupOutcome, get GetBlock) (*GroupView, error) {
	var c wire.GroupCut
	err := get(ctx, []wire.CID{wire.RawDigestCID(o.Cut)}, func(_ wire.CID, b []byte) error {
		if wire.Sum(b) != o.Cut {
			return errors.New("bytes do not match")
		}
		return wire.Unmarshal(b, &c, wire.MaxBlock)
	})
	if err != nil {
		return nil, fmt.Errorf("cut of group %d: %w", o.Group, err)
	}
	if c.Group != o.Group {
		return nil, fmt.Errorf("cut of group %d is of group %d", o.Group, c.Group)
	}
	return s.openGroupCut(&c)
}
