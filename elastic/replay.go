package elastic

import (
	"bytes"
	"context"
	"fmt"

	"github.com/apiary-net/hived/wire"
)

// Updates returns the merged updates that a record counts, computed from the
// contributions or, in a window, loaded as they were merged, and the CID that
// attestations name. from returns a source of blocks for the contribution of a
// sender.
func (m *Model) Updates(ctx context.Context, rec, prev *wire.Record, from func(sender wire.PeerID) GetBlock) ([][]float32, wire.CID, error) {
	if m.g.Preset.Cadence.Window {
		var out [][]float32
		var last wire.CID
		for _, id := range rec.Merged[:WindowSteps(rec, prev)] {
			v, err := LoadVectors(ctx, m.digest, id, map[string]int{"merged": m.params}, from(wire.PeerID{}))
			if err != nil {
				return nil, id, fmt.Errorf("merged gradient: %w", err)
			}
			out, last = append(out, v["merged"]), id
		}
		return out, last, nil
	}
	headers, err := CountedHeaders(rec)
	if err != nil || len(headers) == 0 {
		return nil, wire.CID{}, err
	}
	var in []Counted
	blocks := map[wire.CID][]byte{}
	for _, ch := range headers {
		body, err := m.FetchBody(ctx, &ch.Header, nil, from(ch.Env.Sender), func(id wire.CID, b []byte) { blocks[id] = bytes.Clone(b) })
		if err != nil {
			return nil, wire.CID{}, fmt.Errorf("contribution of %s: %w", ch.Env.Sender.Short(), err)
		}
		in = append(in, Counted{Samples: ch.Samples, Body: body, Part: func(i int) ([]byte, error) {
			return blocks[wire.RawDigestCID(body.Parts[i].Block)], nil
		}})
	}
	merged, err := m.Merge(in)
	if err != nil {
		return nil, wire.CID{}, err
	}
	id, err := MergedCID(m.digest, m.g.Preset.Merged, merged, nil)
	return [][]float32{merged}, id, err
}

// Replay computes version after version from start over recs, which begin with
// record 0, and calls step for each. It believes no stated result: only the
// records' cuts and the blocks that get returns, whose hashes are checked.
func (m *Model) Replay(ctx context.Context, start *State, recs []*wire.Record, get GetBlock, step func(s *State, merged wire.CID) error) (*State, error) {
	s := start
	for i := 1; i < len(recs); i++ {
		rec, prev := recs[i], recs[i-1]
		updates, merged, err := m.Updates(ctx, rec, prev, func(wire.PeerID) GetBlock { return get })
		if err != nil {
			return nil, fmt.Errorf("replay round %d: %w", rec.Round, err)
		}
		params, outer := m.Next(s, prev.Steps, updates)
		if s, err = NewState(m.digest, rec.Round, params, s.Buffers, outer, nil); err != nil {
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
	return NewState(m.digest, 0, params, buffers, make([]float32, m.OuterLen()), nil)
}
