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
	"github.com/apiary-net/hived/tensorops/merge"
	"github.com/apiary-net/hived/wire"
)

type sliceIn struct {
	from wire.PeerID
	s    wire.Slice
}

// Slice takes a slice that from sent. It blocks for a bounded time while the
// window is behind.
func (r *Runner) Slice(from wire.PeerID, b []byte) {
	if !r.Belongs(from) {
		return
	}
	var s wire.Slice
	if err := wire.Unmarshal(b, &s, wire.MaxSlice); err != nil || !r.sliceFits(from, &s) {
		r.log.Debug("slice refused", "peer", from.Short(), "err", err)
		return
	}
	_ = r.slices.put(context.Background(), sendLimit, sliceIn{from, s}) // it fails when nobody is in a window
}

// windowState is this peer's side of a window.
type windowState struct {
	w       *worker
	round   uint64
	prev    *wire.Record
	members []wire.PeerID
	owners  []int // by part: index into members
	self    int
	stop    *flag // another member has ended the window

	grads  map[sliceKey][]byte // of members, for own parts
	merged map[sliceKey][]byte // of owners
	early  []sliceIn           // of the next round

	ids     []wire.CID  // merged gradient of each finished step
	updates [][]float32 // the same, decoded
	params  []float32   // after the finished steps
	outer   []float32
	bytes   uint64 // payload sent
}

type sliceKey struct {
	step, part uint32
	member     int
}

// A step waits at most stepTimeout for gradients, and as long for merged parts, whatever
// comes meanwhile: who sends slowly must not hold up the round. Once another member has
// ended the window it is stopGrace.
const (
	stepTimeout  = 10 * time.Second
	stopGrace    = time.Second
	maxEarly     = 4096
	gradientRule = "mean"
)

// trainWindow does a window of steps and returns the header that commits to it.
func (w *worker) trainWindow(ctx context.Context, c decide.Train) (*wire.Header, error) {
	members := c.Plan.Peers()
	self := slices.Index(members, w.r.self)
	ws := &windowState{w: w, round: c.Plan.Round, prev: c.Prev, members: members, self: self,
		owners: rules.PartOwners(w.r.model.Parts(), len(members)), stop: w.r.windowStop(ctx, c.Plan.Round),
		grads: map[sliceKey][]byte{}, merged: map[sliceKey][]byte{},
		params: slices.Clone(w.state.Params), outer: slices.Clone(w.state.Outer)}
	if w.window != nil {
		ws.early = w.window.early
	}
	w.window = ws
	ws.takeEarly()
	h := &wire.Header{Base: w.state.ID, State: w.r.cfg.Trainer.StateDigest()}
	began := w.r.env.Now()
	batch := uint64(w.r.cfg.Genesis.Preset.Inner.Batch)
	rest := c.Share.Spans
	var loss float64
	for step := range c.Share.Steps {
		var spans []wire.Span
		spans, rest = wire.SplitSpans(rest, batch)
		l, err := ws.step(ctx, step, spans)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			w.r.log.Info("window ends early", "round", ws.round, "steps", step, "err", err)
			break
		}
		loss += float64(l)
		h.Steps++
	}
	h.TrainMs = uint32(max(1, w.r.env.Now().Sub(began).Milliseconds()))
	if h.Steps > 0 {
		h.Loss = float32(loss / float64(h.Steps))
	}
	h.Spans, _ = wire.SplitSpans(c.Share.Spans, uint64(h.Steps)*batch)
	nonce := w.nonce(ws.round)
	index := wire.Marshal(&wire.WindowBody{Nonce: nonce, Merged: ws.ids})
	h.Root, h.Nonce, h.Body, h.Bytes = rules.WindowRoot(ws.ids), wire.Sum(nonce), wire.RawCID(index), ws.bytes
	w.r.cache.put(ws.round, h.Body, index)
	if _, err := w.r.cfg.Bodies.Put(ws.round, index); err != nil {
		return nil, fmt.Errorf("keep own body: %w", err)
	}
	if err := w.r.cfg.Bodies.Sync(); err != nil {
		return nil, fmt.Errorf("keep own body: %w", err)
	}
	w.sent.Store(ws.bytes)
	return h, nil
}

// windowStop returns a flag that goes up when another member's header of the
// round is known.
func (r *Runner) windowStop(ctx context.Context, round uint64) *flag {
	stop := &flag{sig: r.env.NewSignal()}
	_ = r.ask(ctx, func() error {
		r.windowEnd = stop
		if r.training != round || r.committed == round {
			r.endWindow()
		}
		return nil
	})
	return stop
}

// endWindow tells the window in progress that another member has ended it. It
// runs in the loop.
func (r *Runner) endWindow() {
	if r.windowEnd != nil {
		r.windowEnd.raise()
		r.windowEnd = nil
	}
}

func (ws *windowState) takeEarly() {
	early := ws.early
	ws.early = nil
	for _, in := range early {
		ws.take(in)
	}
}

// take files a slice. Slices of other rounds, of peers that are no members and
// of parts that are not theirs to send are dropped.
func (ws *windowState) take(in sliceIn) {
	switch {
	case in.s.Round == ws.round+1:
		ws.early = keepEarly(ws.early, in, len(ws.owners))
		return
	case in.s.Round != ws.round || in.s.Step >= wire.MaxWindow:
		return
	}
	m := slices.Index(ws.members, in.from)
	if m < 0 {
		return
	}
	owner := ws.owners[in.s.Part]
	if in.s.Merged && owner == m {
		ws.merged[sliceKey{in.s.Step, in.s.Part, m}] = in.s.Data
	} else if !in.s.Merged && owner == ws.self {
		ws.grads[sliceKey{in.s.Step, in.s.Part, m}] = in.s.Data
	}
}

// step does one step: gradient, scatter, merge of the own parts, gather, and the
// outer step onto the tentative parameters.
func (ws *windowState) step(ctx context.Context, step uint32, spans []wire.Span) (float32, error) {
	t, model := ws.w.r.cfg.Trainer, ws.w.r.model
	grad := make([]float32, model.Params())
	loss, err := t.Gradient(ctx, spans, grad)
	if err != nil {
		return 0, err
	}
	if err := ws.scatter(ctx, step, grad); err != nil {
		return 0, err
	}
	update := make([]float32, model.Params())
	if err := ws.reduce(ctx, step, update); err != nil {
		return 0, err
	}
	if err := ws.gather(ctx, step, update); err != nil {
		return 0, err
	}
	keep := func(b []byte) (wire.CID, error) {
		id := wire.RawCID(b)
		ws.w.r.cache.put(ws.round, id, b)
		return id, nil
	}
	id, err := model.MergedCID(update, keep)
	if err != nil {
		return 0, err
	}
	ws.ids, ws.updates = append(ws.ids, id), append(ws.updates, slices.Clone(update))
	model.Step(ws.params, ws.outer, update, ws.round, ws.prev.Steps+uint64(len(ws.ids)))
	return loss, t.Load(ctx, ws.params, ws.w.state.Buffers)
}

// scatter sends each part of the gradient to its owner.
func (ws *windowState) scatter(ctx context.Context, step uint32, grad []float32) error {
	model := ws.w.r.model
	for i, p := range model.Parts() {
		b, err := model.EncodePart(grad[p.Lo:p.Hi])
		if err != nil {
			return fmt.Errorf("encode gradient: %w", err)
		}
		if ws.owners[i] == ws.self {
			ws.grads[sliceKey{step, uint32(i), ws.self}] = b
			continue
		}
		if err := ws.send(ctx, ws.members[ws.owners[i]], wire.Slice{Round: ws.round, Step: step, Part: uint32(i), Data: b}); err != nil {
			return err
		}
	}
	return nil
}

func (ws *windowState) send(ctx context.Context, to wire.PeerID, s wire.Slice) error {
	s.Run = ws.w.r.cfg.Run
	ws.bytes += uint64(len(s.Data))
	sctx, cancel := ws.w.r.env.Context(ctx, stepTimeout)
	defer cancel()
	if err := ws.w.r.cfg.Net.Send(sctx, to, SendSlice, wire.Marshal(s)); err != nil {
		return fmt.Errorf("send step %d to %s: %w", s.Step, to.Short(), err)
	}
	return nil
}

var errStepTimeout = errors.New("a member did not answer in time")

// wait takes slices until have reports that all are there.
func (ws *windowState) wait(ctx context.Context, have func() bool) error {
	env, in := ws.w.r.env, ws.w.r.slices
	until := env.Now().Add(stepTimeout)
	stopped := false
	for !have() {
		if !stopped && ws.stop.up.Load() {
			stopped, until = true, env.Now().Add(stopGrace)
		}
		if s, ok := in.take(); ok && ctx.Err() == nil && env.Now().Before(until) {
			ws.take(s)
			continue
		}
		if err := env.Wait(ctx, until.Sub(env.Now()), in.more, ws.stop.sig); errors.Is(err, ErrTimeout) {
			return errStepTimeout
		} else if err != nil {
			return err
		}
	}
	return nil
}

// reduce merges the own parts over all members, in the order of peer ids, and
// sends the result to everybody.
func (ws *windowState) reduce(ctx context.Context, step uint32, update []float32) error {
	model := ws.w.r.model
	err := ws.wait(ctx, func() bool {
		for i := range model.Parts() {
			for m := range ws.members {
				if ws.owners[i] == ws.self && ws.grads[sliceKey{step, uint32(i), m}] == nil {
					return false
				}
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	rule, err := merge.NewRule(gradientRule)
	if err != nil {
		return err
	}
	for i, p := range model.Parts() {
		if ws.owners[i] != ws.self {
			continue
		}
		out := update[p.Lo:p.Hi]
		if err := ws.reducePart(rule, step, i, out); err != nil {
			return err
		}
		b := model.EncodeMerged(out)
		for m, to := range ws.members {
			if m == ws.self {
				continue
			}
			if err := ws.send(ctx, to, wire.Slice{Round: ws.round, Step: step, Part: uint32(i), Merged: true, Data: b}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (ws *windowState) reducePart(rule merge.Rule, step uint32, part int, out []float32) error {
	in := make([][]float32, len(ws.members))
	stats := make([]merge.Stat, len(ws.members))
	for m := range ws.members {
		k := sliceKey{step, uint32(part), m}
		in[m] = make([]float32, len(out))
		if err := ws.w.r.model.DecodePart(in[m], ws.grads[k]); err != nil {
			return fmt.Errorf("gradient of %s: %w", ws.members[m].Short(), err)
		}
		delete(ws.grads, k)
		stats[m] = merge.Stat{Samples: 1}
	}
	a, total, err := rule.Weights(stats)
	if err != nil {
		return err
	}
	rep, err := rule.Merge(out, in, a, total)
	if err == nil && rep.NonFinite {
		err = errors.New("merged gradient is not finite")
	}
	return err
}

// gather waits for the parts that others own.
func (ws *windowState) gather(ctx context.Context, step uint32, update []float32) error {
	model := ws.w.r.model
	err := ws.wait(ctx, func() bool {
		for i := range model.Parts() {
			if o := ws.owners[i]; o != ws.self && ws.merged[sliceKey{step, uint32(i), o}] == nil {
				return false
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	for i, p := range model.Parts() {
		o := ws.owners[i]
		if o == ws.self {
			continue
		}
		k := sliceKey{step, uint32(i), o}
		if err := model.DecodeMerged(update[p.Lo:p.Hi], ws.merged[k]); err != nil {
			return fmt.Errorf("merged gradient of %s: %w", ws.members[o].Short(), err)
		}
		delete(ws.merged, k)
	}
	return nil
}

// windowUpdates returns the merged gradients of the steps that a window's record
// counts: the own ones where they agree, else those of others.
func (w *worker) windowUpdates(ctx context.Context, rec, prev *wire.Record) ([][]float32, wire.CID, error) {
	n := rules.WindowSteps(rec, prev)
	if n == 0 {
		return nil, wire.CID{}, nil
	}
	ids := rec.Merged[:n]
	last := ids[n-1]
	if err := w.keepMerged(ctx, rec, ids); err != nil {
		return nil, last, err
	}
	if ws := w.window; ws != nil && ws.round == rec.Round && len(ws.ids) >= n && slices.Equal(ws.ids[:n], ids) {
		return ws.updates[:n], last, nil
	}
	return w.r.model.Updates(ctx, rec, rules.Setting{Genesis: w.r.cfg.Genesis, Run: rec.Run, Prev: prev}, func(wire.PeerID) version.GetBlock { return w.r.getFrom() })
}

// keepMerged writes the merged gradients that this peer holds for the ledger to
// disk: those for which it is one of two holders.
func (w *worker) keepMerged(ctx context.Context, rec *wire.Record, ids []wire.CID) error {
	for _, id := range ids {
		if !rules.Holds(id.Digest(), wire.PeerID{}, w.r.self, w.r.holders()) {
			continue
		}
		err := version.EachBlock(ctx, id, w.r.getFrom(), func(b []byte) error {
			_, err := w.r.cfg.Bodies.Put(rec.Round, b)
			return err
		})
		if err != nil {
			return fmt.Errorf("keep merged gradient: %w", err)
		}
	}
	return nil
}
