package elastic

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/elastic/version"
	"github.com/apiary-net/hived/wire"
)

// partTimeout is how long a peer waits for merged parts without progress before
// it merges what is lacking itself.
const partTimeout = 3 * time.Second

// reduction is the merge of one decided cut under a reduced topology: each part
// is merged by its owner and sent to all. Whoever lacks a part merges it itself:
// by canonical arithmetic over the same cut the bytes are the same, so everybody
// is a stand-in for everybody.
type reduction struct {
	w       *worker
	rec     *wire.Record
	headers []rules.CountedHeader
	members []wire.PeerID
	owners  []int
	self    int
	in      []version.Counted // indexes of the counted bodies; fetched when first needed
	blocks  map[wire.CID][]byte
	update  []float32
	done    []bool // by part
}

// reducedUpdates computes the merged update of a round whose parts are merged by
// their owners.
func (w *worker) reducedUpdates(ctx context.Context, rec, prev *wire.Record) ([][]float32, wire.CID, error) {
	headers, err := rules.CountedHeaders(rec)
	if err != nil {
		return nil, wire.CID{}, err
	}
	members := rules.ActiveIn(prev)
	m := w.r.model
	d := &reduction{w: w, rec: rec, headers: headers, members: members, owners: rules.PartOwners(m.Parts(), len(members)),
		self: slices.Index(members, w.r.self), blocks: map[wire.CID][]byte{}, update: make([]float32, m.Params()), done: make([]bool, len(m.Parts()))}
	rctx, cancel := w.r.env.Context(ctx, bodyDeadline)
	defer cancel()
	if d.self >= 0 {
		if err := d.mergeOwn(rctx); err != nil {
			w.r.log.Warn("own parts not merged yet", "round", rec.Round, "err", err)
		}
		d.gather(rctx)
	}
	if err := d.fill(rctx); err != nil {
		return nil, wire.CID{}, err
	}
	id, err := m.MergedCID(d.update, nil)
	return [][]float32{d.update}, id, err
}

// mergePart merges one part from the contributions.
func (d *reduction) mergePart(ctx context.Context, i int) error {
	if d.in == nil {
		if err := d.indexes(ctx); err != nil {
			return err
		}
	}
	m := d.w.r.model
	for k, c := range d.in {
		id := wire.RawDigestCID(c.Body.Parts[i].Block)
		if d.blocks[id] != nil {
			continue
		}
		err := d.get(d.headers[k].Env.Sender)(ctx, []wire.CID{id}, func(id wire.CID, b []byte) error {
			d.blocks[id] = bytes.Clone(b)
			return nil
		})
		if err != nil {
			return fmt.Errorf("part %d of %s: %w", i, d.headers[k].Env.Sender.Short(), err)
		}
	}
	p := m.Parts()[i]
	if err := m.MergePart(i, d.in, d.update[p.Lo:p.Hi]); err != nil {
		return err
	}
	m.EncodeMerged(d.update[p.Lo:p.Hi]) // rounds to what others decode
	d.done[i] = true
	return nil
}

func (d *reduction) get(sender wire.PeerID) version.GetBlock { return d.w.r.getFrom(sender) }

// indexes fetches the index blocks of the counted bodies.
func (d *reduction) indexes(ctx context.Context) error {
	var in []version.Counted
	for _, h := range d.headers {
		body, err := d.w.r.model.FetchBody(ctx, &h.Header, func(int) bool { return false }, d.get(h.Env.Sender), func(wire.CID, []byte) {})
		if err != nil {
			return fmt.Errorf("index of %s: %w", h.Env.Sender.Short(), err)
		}
		in = append(in, version.Counted{Samples: h.Samples, Body: body, Part: func(i int) ([]byte, error) {
			return d.blocks[wire.RawDigestCID(body.Parts[i].Block)], nil
		}})
	}
	d.in = in
	return nil
}

// mergeOwn merges the own parts and sends them to the other members.
func (d *reduction) mergeOwn(ctx context.Context) error {
	m := d.w.r.model
	for i, p := range m.Parts() {
		if d.owners[i] != d.self {
			continue
		}
		if err := d.mergePart(ctx, i); err != nil {
			return err
		}
		b := wire.Marshal(wire.Slice{Run: d.w.r.cfg.Run, Round: d.rec.Round, Part: uint32(i), Merged: true, Data: m.EncodeMerged(d.update[p.Lo:p.Hi])})
		for _, to := range d.members {
			if to == d.w.r.self {
				continue
			}
			if err := d.w.r.cfg.Net.Send(ctx, to, SendSlice, b); err != nil {
				d.w.r.log.Debug("merged part not delivered", "peer", to.Short(), "err", err)
			}
		}
	}
	return nil
}

// gather takes merged parts from their owners until all are there or nothing
// comes any more.
func (d *reduction) gather(ctx context.Context) {
	early := d.w.early
	d.w.early = nil
	for _, in := range early {
		d.take(in)
	}
	env, in := d.w.r.env, d.w.r.slices
	until := env.Now().Add(partTimeout)
	for slices.Contains(d.done, false) {
		s, ok := in.take()
		ok = ok && ctx.Err() == nil && env.Now().Before(until)
		if ok && d.take(s) {
			until = env.Now().Add(partTimeout)
		}
		if !ok && env.Wait(ctx, until.Sub(env.Now()), in.more) != nil {
			return
		}
	}
}

// take uses a merged part of this round from its owner, and keeps those of the
// next one.
func (d *reduction) take(in sliceIn) bool {
	if in.s.Round > d.rec.Round {
		d.w.early = keepEarly(d.w.early, in, len(d.owners))
		return false
	}
	i := int(in.s.Part)
	if in.s.Round != d.rec.Round || !in.s.Merged || d.done[i] || d.members[d.owners[i]] != in.from {
		return false
	}
	m := d.w.r.model
	p := m.Parts()[i]
	if err := m.DecodeMerged(d.update[p.Lo:p.Hi], in.s.Data); err != nil {
		d.w.r.log.Warn("merged part refused", "peer", in.from.Short(), "err", err)
		return false
	}
	d.done[i] = true
	return true
}

// fill merges what nobody has sent.
func (d *reduction) fill(ctx context.Context) error {
	for i, done := range d.done {
		if done {
			continue
		}
		if err := d.mergePart(ctx, i); err != nil {
			return err
		}
	}
	return nil
}
