package elastic

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync/atomic"
	"time"

	"github.com/apiary-net/hived/elastic/decide"
	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/elastic/version"
	"github.com/apiary-net/hived/tensorops/merge"
	"github.com/apiary-net/hived/wire"
	"github.com/apiary-net/hived/wire/invariants"
)

// worker holds a peer's tensors. Its methods run on the worker task, one
// after the other; only sent and trainMs may be read elsewhere.
type worker struct {
	r        *Runner
	state    *version.State
	residual []float32 // error feedback; nil for a lossless codec
	pending  *pending  // the newest own contribution
	late     *pending  // late work that may ride into the next round
	window   *windowState
	early    []sliceIn     // merged parts of a later round
	dropped  uint64        // versions of epochs before it were dropped
	sent     atomic.Uint64 // payload bytes of the newest contribution
}

// pending is own work whose fate is not decided yet.
type pending struct {
	round    uint64
	x        []float32 // delta + residual + late work, before encoding
	residual []float32 // what the residual becomes if it counts
	spans    []wire.Span
}

var stateKey = []byte("state") // newest local version: round and CID

// restore makes the start state and replaces it by the newest local one. It
// returns the start version.
func (w *worker) restore() (wire.CID, error) {
	params, buffers := w.r.cfg.Trainer.Init()
	start, err := w.r.model.StartState(params, buffers)
	if err != nil {
		return wire.CID{}, err
	}
	w.state = start
	b, err := w.r.cfg.KV.Get(stateKey)
	if errors.Is(err, fs.ErrNotExist) {
		return start.ID, nil
	}
	if err != nil {
		return start.ID, fmt.Errorf("read state: %w", err)
	}
	if len(b) < 8 {
		return start.ID, fmt.Errorf("read state: a pointer of %d bytes", len(b))
	}
	id, err := wire.CIDFromBytes(b[8:])
	if err != nil {
		return start.ID, fmt.Errorf("read state: %w", err)
	}
	ctx, cancel := w.r.env.Context(context.Background(), time.Minute)
	defer cancel()
	s, err := w.fetchState(ctx, binary.BigEndian.Uint64(b), id, nil)
	if err != nil { // others will have it
		w.r.log.Warn("local state is not readable, taking it from others", "err", err)
		return start.ID, nil
	}
	w.state = s
	return start.ID, nil
}

// fetchState gets a version by its CID.
func (w *worker) fetchState(ctx context.Context, round uint64, id wire.CID, holders []wire.PeerID) (*version.State, error) {
	s, err := w.r.model.LoadState(ctx, round, id, w.r.getOf(func() []wire.PeerID { return holders }))
	if invariants.On && err == nil {
		w.checkState(s)
	}
	return s, err
}

// keep makes s the newest local version: blocks, then the pointer.
func (w *worker) keep(s *version.State) error {
	epoch := s.Round / StateEpoch
	if err := w.r.model.Blocks(s, func(b []byte) (wire.CID, error) { return w.r.cfg.States.Put(epoch, b) }); err != nil {
		return err
	}
	if err := w.r.cfg.States.Sync(); err != nil { // blocks before the pointer to them
		return err
	}
	ptr := append(binary.BigEndian.AppendUint64(nil, s.Round), s.ID.Bytes()...)
	if err := w.r.cfg.KV.Apply([][2][]byte{{stateKey, ptr}}, nil, true); err != nil {
		return err
	}
	// The version before stays until the next one is whole.
	if epoch > w.dropped && s.Round%StateEpoch > 0 {
		w.dropped = epoch
		return w.r.cfg.States.DropBefore(epoch)
	}
	return nil
}

// train starts the round's local work on the worker.
func (r *Runner) train(c decide.Train) error {
	return r.jobs.put(r.ctx, Forever, func(ctx context.Context) {
		tctx, cancel := r.env.Context(ctx, Forever)
		defer cancel()
		_ = r.ask(ctx, func() error {
			r.stopTrain = cancel
			if r.training != c.Plan.Round {
				cancel()
			}
			return nil
		})
		if tctx.Err() != nil {
			return
		}
		h, err := r.work.train(tctx, c)
		if err != nil {
			if tctx.Err() != nil {
				return
			}
			r.log.Error("training failed", "round", c.Plan.Round, "err", err)
			if !errors.Is(err, errSilent) && r.pause(tctx, trainAgain) {
				r.post(ctx, decide.TrainFailed{Round: c.Plan.Round, Err: err})
			}
			return
		}
		r.post(ctx, decide.Trained{Round: c.Plan.Round, Header: *h})
	})
}

// trainAgain is how long a peer waits before it tries local work again that
// failed, for want of disk space say.
const trainAgain = 2 * time.Second

var errSilent = errors.New("it was signed by an earlier life, its body is gone: staying silent")

// pause waits and reports whether ctx lives on.
func (r *Runner) pause(ctx context.Context, d time.Duration) bool {
	return errors.Is(r.env.Wait(ctx, d), ErrTimeout)
}

// train does the local work of a round and encodes it. It returns the header to
// be signed. If an earlier life signed one, that contribution is sent again if
// its body was kept, and else this peer stays silent in the round.
func (w *worker) train(ctx context.Context, c decide.Train) (*wire.Header, error) {
	env, held, err := w.r.slotHeld(decide.Slot("header", c.Plan.Round))
	if err != nil {
		return nil, err
	}
	if held {
		var h wire.Header
		if err := env.Decode(&h); err != nil {
			return nil, err
		}
		if _, err := w.r.local(h.Body); err != nil {
			return nil, fmt.Errorf("header of round %d: %w", c.Plan.Round, errSilent)
		}
		return &h, nil
	}
	t := w.r.cfg.Trainer
	if err := t.Load(ctx, w.state.Params, w.state.Buffers); err != nil {
		return nil, err
	}
	if w.r.cfg.Genesis.Preset.Cadence.Window {
		return w.trainWindow(ctx, c)
	}
	h := &wire.Header{Base: w.state.ID, State: t.StateDigest()}
	began := w.r.env.Now()
	u, err := t.Train(ctx, Job{Round: c.Plan.Round, Spans: c.Share.Spans, Batch: int(w.r.cfg.Genesis.Preset.Inner.Batch),
		Steps: int(c.Share.Steps), LRScale: c.Plan.LRScale})
	if err != nil {
		return nil, err
	}
	if u.Steps == 0 || ctx.Err() != nil {
		return nil, fmt.Errorf("round %d ended before a local step", c.Plan.Round)
	}
	h.TrainMs = uint32(max(1, w.r.env.Now().Sub(began).Milliseconds()))
	h.Steps, h.Loss = uint32(u.Steps), u.Loss
	h.Spans, _ = wire.SplitSpans(c.Share.Spans, u.Used)
	return h, w.encode(c, h, u.Delta)
}

// encode turns delta into a contribution: late work and residual are added, the
// norm is clipped to twice the median of the last record's.
func (w *worker) encode(c decide.Train, h *wire.Header, delta []float32) error {
	x := slices.Clone(delta)
	p := &pending{round: c.Plan.Round, x: x}
	if l := w.late; l != nil && l.round == c.Plan.Round-1 && c.Plan.Groups == nil {
		for i := range x {
			x[i] += l.x[i]
		}
		h.Late, h.Spans = l.round, append(slices.Clone(l.spans), h.Spans...)
	}
	w.late = nil
	if limit := 2 * rules.MedianNorm(c.Prev); limit > 0 {
		merge.ClipNorm(x, float64(limit))
	}
	if w.r.cfg.Genesis.Preset.Codec != "none" {
		if w.residual == nil {
			w.residual = make([]float32, len(x))
		}
		p.residual = slices.Clone(w.residual)
	}
	nonce := w.nonce(c.Plan.Round)
	con, err := w.r.model.Encode(x, p.residual, nonce)
	if err != nil {
		return err
	}
	h.Root, h.Norm, h.Bytes, h.Nonce, h.Body, h.Parts = con.Root, con.Norm, con.Bytes, wire.Sum(nonce), wire.RawCID(con.Index), uint32(len(con.Blocks))
	for _, b := range append(con.Blocks, con.Index) {
		w.r.cache.put(c.Plan.Round, wire.RawCID(b), b)
		if _, err := w.r.cfg.Bodies.Put(c.Plan.Round, b); err != nil {
			return fmt.Errorf("keep own body: %w", err)
		}
	}
	if err := w.r.cfg.Bodies.Sync(); err != nil { // before the header that names it is signed
		return fmt.Errorf("keep own body: %w", err)
	}
	p.spans = h.Spans
	w.pending = p
	w.sent.Store(con.Bytes)
	return nil
}

// nonce is this peer's secret of a round: nobody else can foresee it, and a
// restart gives the same one.
func (w *worker) nonce(round uint64) []byte {
	n := wire.Sum(w.r.cfg.Key.Sign("hived/nonce/v1\n", binary.BigEndian.AppendUint64(w.r.cfg.Run[:], round)))
	return n[:]
}

// fatalError means that this peer must stop, not only that a round failed: whether its
// log holds an entry is not known, and nothing more may be signed.
type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }
func (e *fatalError) Unwrap() error { return e.err }

// apply makes the version that a decided record gives, or comes nearer to it,
// and tells the machine.
func (w *worker) apply(ctx context.Context, c decide.Apply) {
	merged, err := w.advance(ctx, c)
	if err != nil {
		if ctx.Err() != nil {
			return
		}
		var fatal *fatalError
		if errors.As(err, &fatal) {
			_ = w.r.ask(ctx, func() error { return err }) // which ends the run
			return
		}
		w.r.log.Warn("version not made yet", "round", c.Record.Round, "err", err)
		if !w.r.pause(ctx, time.Second) { // ask again later: others may come back
			return
		}
	}
	w.r.post(ctx, decide.Applied{Round: w.state.Round, Version: w.state.ID, Merged: merged, Err: err})
}

func (w *worker) advance(ctx context.Context, c decide.Apply) (wire.CID, error) {
	attested := c.Attested
	if w.state.Round+1 == c.Record.Round {
		merged, err := w.merge(ctx, c.Record, c.Prev, attested)
		if err == nil {
			return merged, nil
		}
		if attested.Version.IsZero() {
			return wire.CID{}, err
		}
		w.r.log.Warn("merge failed, taking the version from others", "round", c.Record.Round, "err", err)
	}
	// Behind by more than one: the newest version that others vouch for.
	target, round := attested.Version, c.Record.Round
	if target.IsZero() {
		target, round = c.Record.Certified.Version, c.Record.Certified.Round
	}
	if round > w.state.Round && !target.IsZero() {
		if err := w.jump(ctx, round, target); err == nil || w.state.Round+1 >= c.Record.Round {
			return wire.CID{}, err
		}
	}
	// Nobody has it whole: a snapshot from its stripes, or the next record from its
	// contributions.
	if err := w.restoreSnapshot(ctx); err == nil {
		return wire.CID{}, nil
	}
	rec, err := w.r.chain.record(w.state.Round + 1)
	if err != nil {
		return wire.CID{}, err
	}
	prev, err := w.r.chain.record(w.state.Round)
	if err != nil {
		return wire.CID{}, err
	}
	return w.merge(ctx, rec, prev, wire.Attest{})
}

// jump takes a version from others. Residual and late work are of another
// trajectory and are dropped.
func (w *worker) jump(ctx context.Context, round uint64, id wire.CID) error {
	fctx, cancel := w.r.env.Context(ctx, 2*time.Minute)
	defer cancel()
	s, err := w.fetchState(fctx, round, id, w.r.holders())
	if err != nil {
		return fmt.Errorf("take version %d: %w", round, err)
	}
	w.residual, w.pending, w.late, w.window = nil, nil, nil, nil
	return w.adopt(ctx, s, wire.CID{})
}

// adopt makes s durable, then visible.
func (w *worker) adopt(ctx context.Context, s *version.State, merged wire.CID) error {
	if invariants.On {
		w.checkState(w.state)
		w.checkState(s)
	}
	if err := w.keep(s); err != nil {
		return fmt.Errorf("keep version %d: %w", s.Round, err)
	}
	rec, err := w.r.chain.record(s.Round)
	if err != nil {
		return fmt.Errorf("adopt version %d: %w", s.Round, err)
	}
	var entries []wire.EntryBody
	env, held, err := w.r.slotHeld(decide.Slot("header", s.Round))
	if err != nil {
		return fmt.Errorf("adopt version %d: %w", s.Round, err)
	}
	if held {
		entries = append(entries, wire.EntryBody{Kind: wire.EntryContribution, Ref: wire.RawDigestCID(env.Digest()), Parent: w.state.ID, Round: s.Round})
	}
	entries = append(entries,
		wire.EntryBody{Kind: wire.EntryRecord, Ref: wire.RawDigestCID(rec.Digest()), Round: s.Round},
		wire.EntryBody{Kind: wire.EntryVersion, Ref: s.ID, Parent: merged, Round: s.Round})
	if snap, err := w.snapshot(ctx, s, rec); err != nil {
		w.r.log.Error("no snapshot was made", "round", s.Round, "err", err)
	} else if !snap.IsZero() {
		entries = append(entries, wire.EntryBody{Kind: wire.EntrySnapshot, Ref: snap, Parent: s.ID, Round: s.Round})
	}
	if rec.Last {
		entries = append(entries, wire.EntryBody{Kind: wire.EntryEnd, Ref: s.ID, Round: s.Round})
	}
	if err := w.r.cfg.Bodies.Sync(); err != nil { // what the entries name is durable first
		return fmt.Errorf("keep bodies of round %d: %w", s.Round, err)
	}
	if _, err := w.r.cfg.Log.Append(ctx, entries); err != nil {
		return &fatalError{fmt.Errorf("log version %d: %w", s.Round, err)}
	}
	w.state = s
	return nil
}

// snapshot keeps every n-th version erasure-coded on the voters.
func (w *worker) snapshot(ctx context.Context, s *version.State, rec *wire.Record) (wire.CID, error) {
	every := uint64(w.r.cfg.Genesis.Snapshot)
	if w.r.cfg.Snapshots == nil || every == 0 || s.Round%every != 0 || s.Round == 0 {
		return wire.CID{}, nil
	}
	var blocks [][]byte
	err := w.r.model.Blocks(s, func(b []byte) (wire.CID, error) {
		blocks = append(blocks, b)
		return wire.RawCID(b), nil
	})
	if err != nil {
		return wire.CID{}, err
	}
	return w.r.cfg.Snapshots.Keep(ctx, s.Round, s.ID, blocks, rec.Table.Peers())
}

// restoreSnapshot takes the newest snapshot, from any k blocks of each stripe, if
// it is newer than what is here and the chain certifies it.
func (w *worker) restoreSnapshot(ctx context.Context) error {
	if w.r.cfg.Snapshots == nil {
		return errors.New("no snapshots are kept")
	}
	sctx, cancel := w.r.env.Context(ctx, 2*time.Minute)
	defer cancel()
	version, id, err := w.r.cfg.Snapshots.Restore(sctx, w.certified)
	if err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	if want, ok := w.certified(version); !ok || want != id {
		return fmt.Errorf("restore snapshot: version %d is not newer than %d and certified by the next record", version, w.state.Round)
	}
	return w.jump(ctx, version, id)
}

// certified returns what the next record certifies as a version that is newer than what
// is here.
func (w *worker) certified(version uint64) (wire.CID, bool) {
	if version <= w.state.Round {
		return wire.CID{}, false
	}
	next, err := w.r.chain.record(version + 1)
	if err != nil || next.Certified.Round != version {
		return wire.CID{}, false
	}
	return next.Certified.Version, true
}

// merge computes the version of rec, the record after the worker's version.
func (w *worker) merge(ctx context.Context, rec, prev *wire.Record, attested wire.Attest) (wire.CID, error) {
	updates, id, err := w.updates(ctx, rec, prev, attested)
	if err != nil {
		return wire.CID{}, err
	}
	params, outer := w.tentative(rec, len(updates))
	if params == nil {
		params, outer = w.r.model.Next(w.state, prev.Steps, updates)
	}
	s, err := w.r.model.NewState(rec.Round, params, w.state.Buffers, outer)
	if err != nil {
		return wire.CID{}, err
	}
	if len(rec.Groups) > 0 && !attested.Version.IsZero() && s.ID != attested.Version {
		return wire.CID{}, fmt.Errorf("merged to version %s, more than a third of the voters attest %s", s.ID.Short(), attested.Version.Short())
	}
	w.settle(rec)
	return id, w.adopt(ctx, s, id)
}

// tentative returns what a window's own steps gave, if just those count: the
// same bits without doing them again.
func (w *worker) tentative(rec *wire.Record, n int) (params, outer []float32) {
	ws := w.window
	if ws == nil || ws.round != rec.Round || len(ws.ids) != n || !slices.Equal(ws.ids, rec.Merged[:min(n, len(rec.Merged))]) {
		return nil, nil
	}
	return ws.params, ws.outer
}

// updates returns the merged updates that rec counts, and the CID that stands
// for them in the attestation.
func (w *worker) updates(ctx context.Context, rec, prev *wire.Record, attested wire.Attest) ([][]float32, wire.CID, error) {
	if w.r.cfg.Genesis.Preset.Cadence.Window {
		return w.windowUpdates(ctx, rec, prev)
	}
	if w.r.cfg.Genesis.Preset.Reduced() && rec.CountedPeers() > 0 {
		return w.reducedUpdates(ctx, rec, prev)
	}
	if len(rec.Groups) > 0 {
		return w.groupUpdates(ctx, rec, prev, attested)
	}
	fctx, cancel := w.r.env.Context(ctx, bodyDeadline)
	defer cancel()
	return w.r.model.Updates(fctx, rec, rules.Setting{Genesis: w.r.cfg.Genesis, Run: rec.Run, Prev: prev}, func(sender wire.PeerID) version.GetBlock { return w.r.getFrom(sender) })
}

// settle books the fate of the own contribution: counted moves the residual,
// late may ride once into the next round, anything else is dropped.
func (w *worker) settle(rec *wire.Record) {
	p := w.pending
	if p == nil || p.round != rec.Round {
		return
	}
	w.pending = nil
	switch v, _ := rec.Verdict(w.r.self); {
	case v.Status == wire.Counted:
		w.residual = p.residual
	case v.Status == wire.Late && w.lateAllowed(rec, v):
		w.late = p
	}
}

// lateAllowed reports whether late work may ride: only work that did not itself
// carry late work does.
func (w *worker) lateAllowed(rec *wire.Record, v wire.Verdict) bool {
	for _, raw := range rec.Headers {
		var h wire.Header
		if e, err := wire.Open(raw); err == nil && e.Digest() == v.Header && e.Decode(&h) == nil {
			return h.Late == 0
		}
	}
	return false
}
