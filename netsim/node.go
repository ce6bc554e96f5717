package netsim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/apiary-net/hived/consensus/gpbft"
	"github.com/apiary-net/hived/elastic"
	"github.com/apiary-net/hived/elastic/decide"
	"github.com/apiary-net/hived/ledger"
	"github.com/apiary-net/hived/wire"
)

// Node is one simulated machine. Its disk outlives its process.
type Node struct {
	Index int
	Group string
	Key   wire.Key
	ID    wire.PeerID
	// Speed divides the time of a local step.
	Speed float64
	// Skew is added to the machine's clock.
	Skew time.Duration
	// Lie changes what the process sends; nil is an honest peer.
	Lie *liar

	sw    *Swarm
	disk  *disk
	wires wires
	life  *life // nil while no process runs
	lives int

	heads   []wire.Head // of the own log, as each append returned it
	version wire.CID    // newest in the own log
	round   uint64      // of version
	since   time.Time   // when the process was started
	left    bool        // it said good-bye and stays away
	traffic
}

// traffic counts what a peer sent, without framing.
type traffic struct {
	Control uint64 // announcements, votes, pulls
	Payload uint64 // blocks and slices
}

// life is one process of a node.
type life struct {
	n      *Node
	runner *elastic.Runner
	log    *ledger.Log
	ctx    context.Context
	cancel context.CancelFunc
	links  links
	dead   bool // killed: nothing that it still does has an effect
	ended  bool // Run has returned
	err    error
}

// Up reports whether a process runs.
func (n *Node) Up() bool { return n.life != nil }

// Runner returns the running process, or nil.
func (n *Node) Runner() *elastic.Runner {
	if n.life == nil {
		return nil
	}
	return n.life.runner
}

// clock is the Env of one node.
type clock struct {
	*Loop
	n *Node
}

// Now implements elastic.Env.
func (c clock) Now() time.Time { return c.Loop.Now().Add(c.n.Skew) }

// Start starts the node's process on what its disk holds.
func (n *Node) Start() error {
	sw := n.sw
	if n.life != nil || sw.closed {
		return fmt.Errorf("peer %d runs already, or the simulation is over", n.Index)
	}
	lf := &life{n: n, links: newLinks()}
	lf.ctx, lf.cancel = sw.Loop.Context(sw.ctx, elastic.Forever)
	kv := lifeKV{lf, n.disk.kv, true}
	log := sw.log.With("peer", n.Index)
	env := clock{sw.Loop, n}
	var err error
	if lf.log, err = ledger.Open(ledger.Config{KV: lifeKV{lf, n.disk.log, false}, Key: n.Key, Run: sw.Run, Logger: log, Now: env.Now}); err != nil {
		return fmt.Errorf("peer %d: %w", n.Index, err)
	}
	if got, want := lf.log.Head().Size, n.acknowledged(); got < want {
		sw.check.fail(CheckLogs, "peer %d starts with %d entries, %d were acknowledged", n.Index, got, want)
	}
	sw.check.durable(n)
	agree := gpbft.NewAgreement(gpbft.Config{Key: n.Key, Run: sw.Run, Slot: elastic.Slots(kv), Logger: log})
	lf.runner, err = elastic.New(elastic.Config{Genesis: &sw.Genesis, Run: sw.Run, Key: n.Key, Trainer: sw.model.trainer(n, lf), Net: lf, KV: kv,
		Bodies: lifeBlocks{lf, n.disk.bodies}, States: lifeBlocks{lf, n.disk.states}, Log: lf, Agree: agree, DataRoot: sw.root,
		Observe: lf.observe, Logger: log, Env: env, Plans: sw.plans, Rand: rand.New(rand.NewPCG(sw.cfg.Seed, uint64(n.Index)<<16+uint64(n.lives)))})
	if err != nil {
		return fmt.Errorf("peer %d: %w", n.Index, err)
	}
	n.lives++
	n.life, n.since, n.left = lf, sw.Loop.Now(), false
	sw.trail.add(Event{Kind: "start", Peer: n.Index})
	sw.Loop.Go(func() {
		err := lf.runner.Run(lf.ctx)
		lf.ended, lf.err = true, err
		if err != nil && !lf.dead {
			sw.log.Error("a peer stopped", "peer", n.Index, "err", err)
			sw.trail.add(Event{Kind: "stopped", Peer: n.Index, Text: err.Error()})
			n.drop()
		}
	})
	sw.connect(n)
	return nil
}

func (n *Node) acknowledged() uint64 {
	if len(n.heads) == 0 {
		return 0
	}
	return n.heads[len(n.heads)-1].Size
}

// Kill ends the process at once, as kill -9 does. With power the disk loses what
// was not synced.
func (n *Node) Kill(power bool) {
	if n.life == nil {
		return
	}
	n.sw.trail.add(Event{Kind: "kill", Peer: n.Index})
	n.drop()
	if power {
		n.disk.crash()
	}
}

// drop takes the process away; the others notice that its connections are gone.
func (n *Node) drop() {
	lf := n.life
	lf.dead = true
	lf.cancel()
	others := n.sw.neighbours(n)
	n.life = nil
	n.sw.uptime += n.sw.Loop.Now().Sub(n.since)
	n.sw.disconnect(n, lf, others)
}

// Leave stops the process cleanly: it says good-bye first.
func (n *Node) Leave() {
	lf := n.life
	if lf == nil {
		return
	}
	n.sw.trail.add(Event{Kind: "leave", Peer: n.Index})
	n.sw.Loop.Go(func() {
		ctx, cancel := n.sw.Loop.Context(lf.ctx, time.Minute)
		defer cancel()
		lf.runner.Leave(ctx)
		if n.life == lf {
			n.drop()
			n.left = true
		}
	})
}

// Wipe loses the disk of a node that does not run.
func (n *Node) Wipe() {
	n.disk.wipe()
	n.heads, n.version, n.round = nil, wire.CID{}, 0
	n.sw.trail.add(Event{Kind: "wipe", Peer: n.Index})
}

// observe is told what the runner saw.
func (lf *life) observe(i elastic.Info) {
	if lf.dead {
		return
	}
	switch {
	case i.Round != nil:
		lf.n.sw.check.decided(lf.n, i.Round)
	case i.Finished != nil:
		lf.n.sw.check.finished(lf.n)
	}
}

// Append implements elastic.Log on the real ledger, and tells the checkers.
func (lf *life) Append(ctx context.Context, entries []wire.EntryBody) (wire.Head, error) {
	if d := lf.n.disk.slow; d > 0 {
		if err := lf.n.sw.Loop.Sleep(ctx, d); err != nil {
			return wire.Head{}, err
		}
	}
	if lf.dead {
		return wire.Head{}, fs.ErrClosed
	}
	h, err := lf.log.Append(ctx, entries)
	if err != nil {
		return h, err
	}
	lf.n.sw.check.appended(lf.n, h, entries)
	return h, nil
}

// The methods below implement elastic.Network.

// announce gives an announcement to one peer; it may be lost.
func (lf *life) announce(o *Node, b []byte) {
	sw := lf.n.sw
	lf.n.Control += uint64(len(b))
	at, lost := carry(sw.Loop.Now(), sw.rng, &lf.n.wires, &o.wires, len(b))
	if lost {
		return
	}
	to := o.life
	sw.Loop.At(at, func() {
		if o.life != to || sw.isCut(lf.n, o) || to.runner.Offer(b) != decide.Accept {
			return
		}
		if o.Lie != nil {
			o.Lie.heard(b)
		}
	})
}

var errUnreachable = errors.New("peer is not connected")

// Send implements elastic.Network.
func (lf *life) Send(_ context.Context, to wire.PeerID, kind elastic.SendKind, b []byte) error {
	sw := lf.n.sw
	o := sw.byID[to]
	if o == nil || !sw.linked(lf.n, o) {
		return fmt.Errorf("send to %s: %w", to.Short(), errUnreachable)
	}
	if kind == elastic.SendVote {
		lf.n.Control += uint64(len(b))
	} else {
		lf.n.Payload += uint64(len(b))
	}
	at, _ := carry(sw.Loop.Now(), sw.rng, &lf.n.wires, &o.wires, len(b))
	target := o.life
	sw.Loop.At(at, func() {
		switch {
		case o.life != target || sw.isCut(lf.n, o):
		case kind == elastic.SendVote:
			target.runner.Vote(lf.n.ID, b)
		default:
			sw.Loop.Go(func() { target.runner.Slice(lf.n.ID, b) })
		}
	})
	return nil
}

// travel blocks until n bytes have gone from one node to another.
func (sw *Swarm) travel(ctx context.Context, from, to *Node, n int) error {
	if !sw.linked(from, to) {
		return errUnreachable
	}
	target := to.life
	at, _ := carry(sw.Loop.Now(), sw.rng, &from.wires, &to.wires, n)
	if err := sw.Loop.Sleep(ctx, at.Sub(sw.Loop.Now())); err != nil {
		return err
	}
	if to.life != target || sw.isCut(from, to) {
		return errUnreachable
	}
	return nil
}

// Pull implements elastic.Network. An answer is not copied: records are large, and all
// who ask have the same one under way.
func (lf *life) Pull(ctx context.Context, from wire.PeerID, req []byte) (*wire.PullAnswer, error) {
	sw := lf.n.sw
	o := sw.byID[from]
	if o == nil {
		return nil, errUnreachable
	}
	lf.n.Control += uint64(len(req))
	if err := sw.travel(ctx, lf.n, o, len(req)); err != nil {
		return nil, fmt.Errorf("pull from %s: %w", from.Short(), err)
	}
	a, err := o.life.runner.Answer(ctx, req)
	if err != nil {
		return nil, err
	}
	o.Control += uint64(a.Size())
	if err := sw.travel(ctx, o, lf.n, a.Size()); err != nil {
		return nil, fmt.Errorf("pull from %s: %w", from.Short(), err)
	}
	return a, nil
}

const requestSize = 40 // bytes that name a block

// Fetch implements elastic.Network: each holder in turn is asked for what is
// still lacking.
func (lf *life) Fetch(ctx context.Context, ids []wire.CID, from []wire.PeerID, got func(wire.CID, []byte) error) error {
	lacking := ids
	last := error(fs.ErrNotExist)
	for _, p := range from {
		if len(lacking) == 0 {
			return nil
		}
		o := lf.n.sw.byID[p]
		if o == nil || !lf.n.sw.linked(lf.n, o) {
			last = errUnreachable
			continue
		}
		rest, err := lf.fetchFrom(ctx, o, lacking, got)
		if err != nil {
			last = err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var stop *callbackError
		if errors.As(err, &stop) {
			return stop.err
		}
		lacking = rest
	}
	if len(lacking) > 0 {
		return fmt.Errorf("fetch %s: %w", lacking[0].Short(), last)
	}
	return nil
}

// callbackError is an error of the caller's own, not of the holder.
type callbackError struct{ err error }

func (e *callbackError) Error() string { return e.err.Error() }

// fetchFrom asks one holder and returns what it did not give.
func (lf *life) fetchFrom(ctx context.Context, o *Node, ids []wire.CID, got func(wire.CID, []byte) error) ([]wire.CID, error) {
	sw := lf.n.sw
	lf.n.Control += uint64(requestSize * len(ids))
	if err := sw.travel(ctx, lf.n, o, requestSize*len(ids)); err != nil {
		return ids, err
	}
	server := o.life
	var rest, have []wire.CID
	var blocks [][]byte
	size := 0
	err := error(nil)
	for _, id := range ids {
		b, e := server.runner.Block(lf.n.ID, id)
		if e == nil && o.Lie != nil {
			b = o.Lie.block(b)
		}
		if e != nil || b == nil {
			if rest = append(rest, id); e != nil {
				err = e
			}
			continue
		}
		have, blocks, size = append(have, id), append(blocks, b), size+len(b)
	}
	if len(have) == 0 {
		return rest, err
	}
	o.Payload += uint64(size)
	if err := sw.travel(ctx, o, lf.n, size); err != nil {
		return ids, err
	}
	for i, id := range have {
		if !id.Names(blocks[i]) {
			rest, err = append(rest, id), errors.New("a holder sent other bytes")
			continue
		}
		if err := got(id, blocks[i]); err != nil {
			return nil, &callbackError{err}
		}
	}
	return rest, err
}

// Peers implements elastic.Network.
func (lf *life) Peers() []wire.PeerID {
	var out []wire.PeerID
	for _, o := range lf.n.sw.neighbours(lf.n) {
		out = append(out, o.ID)
	}
	return out
}

func discard(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}
