package version

import (
	"context"
	"fmt"

	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/wire"
)

// Updates returns the merged updates that a record counts, computed from the
// contributions or, in a window, loaded as they were merged, and the CID that
// attestations name. s is the round's setting, whose plan only rounds of several
// groups need. from returns a source of blocks for the contribution of a sender.
func (m *Model) Updates(ctx context.Context, rec *wire.Record, s rules.Setting, from func(sender wire.PeerID) GetBlock) ([][]float32, wire.CID, error) {
	if m.g.Preset.Cadence.Window {
		var out [][]float32
		var last wire.CID
		for _, id := range rec.Merged[:rules.WindowSteps(rec, s.Prev)] {
			v, err := LoadVectors(ctx, m.digest, id, map[string]int{"merged": m.params}, from(wire.PeerID{}))
			if err != nil {
				return nil, id, fmt.Errorf("merged gradient: %w", err)
			}
			out, last = append(out, v["merged"]), id
		}
		return out, last, nil
	}
	merged, err := m.mergeRecord(ctx, rec, s, from)
	if err != nil || merged == nil {
		return nil, wire.CID{}, err
	}
	id, err := m.MergedCID(merged, nil)
	return [][]float32{merged}, id, err
}

// mergeRecord merges what rec counts; nil for nothing.
func (m *Model) mergeRecord(ctx context.Context, rec *wire.Record, s rules.Setting, from func(sender wire.PeerID) GetBlock) ([]float32, error) {
	if len(rec.Counting) > 0 {
		return m.replayGroups(ctx, rec, s, from(wire.PeerID{}))
	}
	headers, err := rules.CountedHeaders(rec)
	if err != nil {
		return nil, err
	}
	merged, _, err := m.MergeHeaders(ctx, headers, from)
	return merged, err
}

// Replay computes version after version from start over recs, which begin with
// record 0, and calls step for each. It believes no stated result: only the
// records' cuts and the blocks that get returns, whose hashes are checked.
func (m *Model) Replay(ctx context.Context, start *State, recs []*wire.Record, get GetBlock, step func(s *State, merged wire.CID) error) (*State, error) {
	s, plans, h := start, rules.NewPlans(m.g), rules.History{recs[0]}
	for i := 1; i < len(recs); i++ {
		rec, prev := recs[i], recs[i-1]
		updates, merged, err := m.Updates(ctx, rec, rules.Setting{Genesis: m.g, Run: rec.Run, Prev: prev, Plan: plans.After(h)}, func(wire.PeerID) GetBlock { return get })
		if err != nil {
			return nil, fmt.Errorf("replay round %d: %w", rec.Round, err)
		}
		h = h.With(rec)
		params, outer := m.Next(s, prev.Steps, updates)
		if s, err = m.NewState(rec.Round, params, s.Buffers, outer); err != nil {
			return nil, fmt.Errorf("replay round %d: %w", rec.Round, err)
		}
		if err := step(s, merged); err != nil {
			return nil, fmt.Errorf("replay round %d: %w", rec.Round, err)
		}
	}
	return s, nil
}

// StartState returns version 0 of the given start weights.
func (m *Model) StartState(params, buffers []float32) (*State, error) {
	return m.NewState(0, params, buffers, make([]float32, m.OuterLen()))
}
