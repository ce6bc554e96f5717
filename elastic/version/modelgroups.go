package version

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/tensorops/merge"
	"github.com/apiary-net/hived/tensorops/num"
	"github.com/apiary-net/hived/wire"
)

// MergeHeaders fetches the contributions of counted headers, checks and merges
// them, and names their nonces. Without headers the merged update is nil.
func (m *Model) MergeHeaders(ctx context.Context, headers []rules.CountedHeader, from func(sender wire.PeerID) GetBlock) ([]float32, wire.Digest, error) {
	var in []Counted
	var nonces []byte
	blocks := map[wire.CID][]byte{}
	for _, ch := range headers {
		unchecked := func(int, wire.PartRef, []byte) error { return nil } // Merge decodes and checks each part
		body, err := m.fetchBody(ctx, &ch.Header, nil, from(ch.Env.Sender), unchecked, func(id wire.CID, b []byte) { blocks[id] = bytes.Clone(b) })
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
func (m *Model) replayGroups(ctx context.Context, rec *wire.Record, s rules.Setting, get GetBlock) ([]float32, error) {
	outcomes := rules.CountedGroups(rec)
	var updates [][]float32
	for _, o := range outcomes {
		v, err := FetchGroupCut(ctx, s, o, get)
		if err != nil {
			return nil, err
		}
		u, nonces, err := m.MergeHeaders(ctx, v.Counted, func(wire.PeerID) GetBlock { return get })
		if err != nil {
			return nil, fmt.Errorf("group %d: %w", o.Group, err)
		}
		if u != nil {
			if v.Outcome.Merged, err = m.MergedCID(u, nil); err != nil {
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

// FetchGroupCut fetches and opens the evidence of an outcome of a round.
func FetchGroupCut(ctx context.Context, s rules.Setting, o *wire.GroupOutcome, get GetBlock) (*rules.GroupView, error) {
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
	return s.OpenGroupCut(&c)
}
