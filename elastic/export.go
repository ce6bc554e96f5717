package elastic

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/elastic/version"
	"github.com/apiary-net/hived/wire"
)

// Export writes the chain of records, the attestations, and every block that a
// replay needs: bodies of what counts (or, in windows, the merged gradients), and
// the final version. What this peer lacks it takes from others.
func (r *Runner) Export(ctx context.Context, put wire.Put) error {
	attests := map[uint64]map[wire.PeerID]wire.Envelope{}
	add := func(e wire.Envelope) {
		if attests[e.Round] == nil {
			attests[e.Round] = map[wire.PeerID]wire.Envelope{}
		}
		attests[e.Round][e.Sender] = e
	}
	var known []wire.Envelope
	err := r.ask(ctx, func() error {
		known = r.mach.Known()
		return nil
	})
	if err != nil {
		return err
	}
	for _, e := range known {
		if e.Kind == wire.KindAttest {
			add(e)
		}
	}
	var h rules.History // before the record
	err = r.chain.walk(0, func(it *wire.OpenedItem) error {
		rec := it.Rec
		if err := put(wire.RecordFile(rec.Round), wire.Marshal(it.ChainItem)); err != nil {
			return err
		}
		for _, raw := range rec.Attests {
			e, err := wire.Open(raw)
			if err != nil {
				return err
			}
			add(e)
		}
		if len(h) == 0 {
			h = rules.History{rec}
			return nil
		}
		if err := r.exportBlocks(ctx, rec, h, put); err != nil {
			return fmt.Errorf("blocks of round %d: %w", rec.Round, err)
		}
		h = h.With(rec)
		return nil
	})
	if err != nil {
		return fmt.Errorf("export run %s: %w", r.cfg.Run.Short(), err)
	}
	for round, m := range attests {
		l := wire.AttestList{}
		for _, e := range slices.SortedFunc(maps.Values(m), rules.BySender) {
			l.Envelopes = append(l.Envelopes, e.Bytes())
		}
		if err := put(wire.AttestFile(round), wire.Marshal(l)); err != nil {
			return err
		}
	}
	return r.exportState(ctx, put)
}

func (r *Runner) exportBlocks(ctx context.Context, rec *wire.Record, h rules.History, put wire.Put) error {
	write := func(id wire.CID, b []byte) error { return put(wire.BlockFile(id), b) }
	if r.cfg.Genesis.Preset.Cadence.Window {
		for _, id := range rec.Merged[:rules.WindowSteps(rec, h.Head())] {
			err := version.EachBlock(ctx, id, r.getFrom(), func(b []byte) error { return write(wire.RawCID(b), b) })
			if err != nil {
				return fmt.Errorf("merged gradient: %w", err)
			}
		}
		return nil
	}
	headers, err := rules.CountedHeaders(rec)
	if err != nil {
		return err
	}
	if err := r.exportBodies(ctx, headers, nil, write); err != nil {
		return err
	}
	s := rules.Setting{Genesis: r.cfg.Genesis, Run: rec.Run, Prev: h.Head(), Plan: r.cfg.Plans.After(h)}
	for _, o := range rules.CountedGroups(rec) {
		members := rules.MembersOf(rec, o)
		v, err := version.FetchGroupCut(ctx, s, o, r.getFrom(members...))
		if err != nil {
			return err
		}
		if err := write(wire.RawDigestCID(o.Cut), wire.Marshal(&v.Cut)); err != nil {
			return err
		}
		if err := r.exportBodies(ctx, v.Counted, members, write); err != nil {
			return err
		}
	}
	return nil
}

// exportBodies writes the bodies of counted headers, which their senders have,
// and perhaps others. Several are fetched at a time.
func (r *Runner) exportBodies(ctx context.Context, headers []rules.CountedHeader, others []wire.PeerID, write func(wire.CID, []byte) error) error {
	ctx, cancel := r.env.Context(ctx, Forever)
	defer cancel()
	var mu sync.Mutex // of failed and write
	var failed error
	fail := func(h rules.CountedHeader, err error) {
		if failed == nil && err != nil {
			failed = fmt.Errorf("contribution of %s: %w", h.Env.Sender.Short(), err)
			cancel()
		}
	}
	fetches := newGate(r.env, maxFetchers)
	for _, h := range headers {
		if fetches.enter(ctx) != nil {
			break
		}
		r.env.Go(func() {
			defer fetches.leave()
			_, err := r.model.FetchBody(ctx, &h.Header, nil, r.getFrom(append([]wire.PeerID{h.Env.Sender}, others...)...), func(id wire.CID, b []byte) {
				mu.Lock()
				defer mu.Unlock()
				fail(h, write(id, b))
			})
			mu.Lock()
			defer mu.Unlock()
			fail(h, err)
		})
	}
	for range maxFetchers { // until all have left
		_ = fetches.enter(context.Background())
	}
	if failed == nil {
		failed = ctx.Err()
	}
	return failed
}

// exportState writes the newest version here.
func (r *Runner) exportState(ctx context.Context, put wire.Put) error {
	var id wire.CID
	err := r.ask(ctx, func() error {
		id = r.mach.View().Version
		return nil
	})
	if err != nil {
		return err
	}
	return version.EachBlock(ctx, id, r.getFrom(), func(b []byte) error { return put(wire.BlockFile(wire.RawCID(b)), b) })
}
