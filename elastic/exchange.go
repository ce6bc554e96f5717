package elastic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/apiary-net/hived/wire"
)

// Check judges the bytes of an announcement that a peer forwarded. It may be
// called concurrently and keeps nothing.
func (r *Runner) Check(b []byte) Verdict {
	e, err := wire.Open(b)
	if err != nil {
		return Reject
	}
	v := CheckForm(r.cfg.Run, &e)
	if v == Accept && !r.concerns(&e) {
		return Ignore
	}
	return v
}

// Hear takes an announcement. What Check does not accept is dropped. It blocks
// while the run's queue is full.
func (r *Runner) Hear(ctx context.Context, b []byte) {
	e, err := wire.Open(b)
	if err != nil || CheckForm(r.cfg.Run, &e) != Accept || !r.concerns(&e) {
		return
	}
	r.post(ctx, Heard{e})
}

// Vote takes a sealed vote that from sent.
func (r *Runner) Vote(from wire.PeerID, b []byte) {
	if !r.mayVote(from) {
		return // before the signature: it is checked for those who may vote
	}
	e, err := wire.Open(b)
	if err != nil || e.Kind != wire.KindVote || e.Run != r.cfg.Run || e.Sender != from {
		r.log.Debug("vote refused", "peer", from.Short(), "err", err)
		return
	}
	_ = r.votes.try(e) // when the queue is full: GPBFT rebroadcasts
}

// Connected tells that a connection to a peer came up or went down.
func (r *Runner) Connected(ctx context.Context, p wire.PeerID, up bool) {
	r.post(ctx, Connected{p, up})
	if up {
		_ = r.ask(ctx, func() {
			r.fatal(r.agree(AgreeEvent{Rebroadcast: true}))
			r.pullFrom(p)
		})
	}
}

// fatal logs an error inside a call that has nobody to return it to; the next
// write to the same store fails the loop.
func (r *Runner) fatal(err error) {
	if err != nil {
		r.log.Error("run step failed", "err", err)
	}
}

// ask runs f in the loop and waits for it.
func (r *Runner) ask(ctx context.Context, f func()) error {
	c := &call{do: f, done: flag{sig: r.env.NewSignal()}}
	if err := r.calls.put(ctx, Forever, c); err != nil {
		return err
	}
	if err := r.env.Wait(ctx, Forever, c.done.sig); err != nil {
		if c.taken.CompareAndSwap(false, true) {
			return err // and f never runs
		}
		_ = r.env.Wait(context.Background(), Forever, c.done.sig)
	}
	if !c.done.up.Load() {
		return errClosed
	}
	return nil
}

// Block returns a block for another peer: fs.ErrPermission while a body may not
// be shown to it yet, fs.ErrNotExist when it is not here.
func (r *Runner) Block(asker wire.PeerID, id wire.CID) ([]byte, error) {
	b, err := r.cache.serve(asker, id)
	if !errors.Is(err, fs.ErrNotExist) {
		return b, err
	}
	return r.local(id)
}

// Local returns a block that this peer has, for itself.
func (r *Runner) Local(id wire.CID) ([]byte, error) { return r.local(id) }

// local returns a block of the own stores.
func (r *Runner) local(id wire.CID) ([]byte, error) {
	if b := r.cache.get(id); b != nil {
		return b, nil
	}
	if b, err := r.cfg.States.Get(id); err == nil {
		return b, nil
	}
	return r.cfg.Bodies.Get(id)
}

// getFrom returns a GetBlock that takes what is here and fetches the rest.
func (r *Runner) getFrom(holders []wire.PeerID) GetBlock {
	return func(ctx context.Context, ids []wire.CID, got func(wire.CID, []byte) error) error {
		var lacking []wire.CID
		for _, id := range ids {
			b, err := r.local(id)
			if err != nil {
				lacking = append(lacking, id)
				continue
			}
			if err := got(id, b); err != nil {
				return err
			}
		}
		if len(lacking) == 0 {
			return nil
		}
		if len(holders) == 0 {
			return fmt.Errorf("%d blocks are not here and nobody is connected", len(lacking))
		}
		return r.cfg.Net.Fetch(ctx, lacking, holders, got)
	}
}

// holders returns the connected peers, the likely ones first.
func (r *Runner) holders(first ...wire.PeerID) []wire.PeerID {
	out := []wire.PeerID{}
	seen := map[wire.PeerID]bool{r.self: true}
	connected := r.cfg.Net.Peers()
	for _, list := range [][]wire.PeerID{first, connected} {
		for _, p := range list {
			if !seen[p] {
				seen[p] = true
				out = append(out, p)
			}
		}
	}
	return out
}

const bodyDeadline = 30 * time.Second

// errNoBase means that a contribution cannot be judged before the version exists
// here that it should have been trained from.
var errNoBase = errors.New("the base version is not here yet")

// fetchBody fetches and checks one contribution and tells the machine. base is
// the version that it must have been trained from, zero while not known; mine
// names the parts that this peer owns, nil means all.
func (r *Runner) fetchBody(ctx context.Context, c FetchBody, base wire.CID, mine func(int) bool) {
	if r.fetchers.enter(ctx) != nil {
		return
	}
	defer r.fetchers.leave()
	fctx, cancel := r.env.Context(ctx, bodyDeadline)
	defer cancel()
	ev := BodyChecked{Header: c.Env.Digest()}
	var nonce []byte
	var merged []wire.CID
	var err error
	switch {
	case base.IsZero():
		err = errNoBase
	case c.Header.Base != base:
		err = bad(wire.ReasonStale, "trained from %s, the version is %s", c.Header.Base.Short(), base.Short())
	default:
		nonce, merged, err = r.takeBody(fctx, c, mine, r.getFrom(r.holders(c.Env.Sender)))
	}
	var refused *BadBody
	switch {
	case err == nil:
		ev.Whole, ev.Nonce, ev.Merged = true, nonce, merged
		if mine != nil {
			// Also of the own contribution only the parts that this peer owns: the
			// others must not depend on its sender's life.
			ev.Parts = bitmap(len(r.model.parts), mine)
		}
	case errors.As(err, &refused):
		ev.Reason = refused.Reason
		r.log.Warn("contribution refused", "round", c.Env.Round, "peer", c.Env.Sender.Short(), "err", err)
	default:
		r.log.Debug("body not here yet", "round", c.Env.Round, "peer", c.Env.Sender.Short(), "err", err)
		// A body that is not shown before its reader has committed is asked for
		// again; time-outs only decide when.
		if !r.pause(ctx, 200*time.Millisecond) {
			return
		}
	}
	r.post(ctx, ev)
}

func bitmap(n int, has func(int) bool) []byte {
	out := make([]byte, (n+7)/8)
	for i := range n {
		if has(i) {
			out[i/8] |= 1 << (i % 8)
		}
	}
	return out
}

// takeBody fetches one body whole and keeps it: in memory for the merge, and on
// disk if this peer sent it or is one of its holders.
func (r *Runner) takeBody(ctx context.Context, c FetchBody, mine func(int) bool, get GetBlock) (nonce []byte, merged []wire.CID, err error) {
	round := c.Env.Round
	keep := c.Env.Sender == r.self || mine != nil || r.holds(c.Env.Digest(), c.Env.Sender)
	got := func(id wire.CID, b []byte) {
		r.cache.put(round, id, b)
		if !keep {
			return
		}
		if _, err := r.cfg.Bodies.Put(round, b); err != nil {
			r.log.Error("body not kept", "round", round, "err", err)
		}
	}
	if r.cfg.Genesis.Preset.Cadence.Window {
		var body *wire.WindowBody
		err := get(ctx, []wire.CID{c.Header.Body}, func(id wire.CID, b []byte) (err error) {
			if body, err = CheckWindowBody(&c.Header, b); err == nil {
				got(id, bytes.Clone(b))
			}
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		if body == nil {
			return nil, nil, errors.New("index block did not come")
		}
		return body.Nonce, body.Merged, nil
	}
	body, err := r.model.FetchBody(ctx, &c.Header, mine, get, got)
	if err != nil {
		return nil, nil, err
	}
	return body.Nonce, nil, nil
}

// holds reports whether this peer is one of the two holders that keep a body
// besides its sender: those with the least digest of (header, peer).
func (r *Runner) holds(header wire.Digest, sender wire.PeerID) bool {
	return Holds(header, sender, r.self, r.holders())
}

// Holds reports whether self is one of the two holders of a header's body among
// the others.
func Holds(header wire.Digest, sender, self wire.PeerID, others []wire.PeerID) bool {
	score := func(p wire.PeerID) wire.Digest { return wire.Sum(append(header[:], p[:]...)) }
	mine, better := score(self), 0
	for _, p := range others {
		if p != sender && p != self && score(p).Compare(mine) < 0 {
			better++
		}
	}
	return better < 2
}

// Answer answers another peer's pull.
func (r *Runner) Answer(ctx context.Context, b []byte) ([]byte, error) {
	var req pullRequest
	if err := wire.Unmarshal(b, &req, maxPullRequest); err != nil {
		return nil, err
	}
	if req.Run != r.cfg.Run {
		return nil, fmt.Errorf("pull for run %s: not in progress here", req.Run.Short())
	}
	var envs []wire.Envelope
	var next uint64
	if err := r.ask(ctx, func() { envs, next = r.mach.Known(), r.mach.NextInstance() }); err != nil {
		return nil, err
	}
	ans := pullAnswer{}
	size := 0
	for i := req.Next; ; i++ {
		it, err := r.chain.item(i)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read record %d: %w", i, err)
		}
		if size += len(it.Record) + len(it.Cert) + len(it.Start); size > pullBudget {
			break
		}
		ans.Items = append(ans.Items, it)
	}
	if base := r.chain.base(); base != nil && base.Instance >= req.Instance && base.Instance < next {
		ans.Base = wire.Marshal(base)
	}
	known := map[string]bool{}
	for _, k := range req.Known {
		known[string(k)] = true
	}
	for _, e := range envs {
		raw := e.Bytes()
		d := wire.Sum(raw)
		if size += len(raw); size > pullBudget {
			break
		}
		if !known[string(d[:8])] {
			ans.Envelopes = append(ans.Envelopes, raw)
		}
	}
	return wire.Marshal(ans), nil
}

// pullSome asks one random peer for what is lacking while a round is open. It
// runs in the loop.
func (r *Runner) pullSome() {
	peers := r.cfg.Net.Peers()
	if len(peers) > 0 && r.env.Now().Sub(r.lastPull) >= pullInterval/2 {
		r.pullFrom(peers[r.cfg.Rand.IntN(len(peers))])
	}
}

// pullFrom asks p for what is lacking, in a task. It runs in the loop.
func (r *Runner) pullFrom(p wire.PeerID) {
	if _, busy := r.pulling[p]; busy {
		r.pulling[p] = true
		return
	}
	r.pulling[p] = false
	r.lastPull = r.env.Now()
	req := pullRequest{Run: r.cfg.Run, Instance: r.mach.NextInstance()}
	if h := r.mach.Head(); h != nil {
		req.Next = h.Round + 1
	}
	for _, e := range r.mach.Known() {
		d := e.Digest()
		req.Known = append(req.Known, d[:8])
	}
	b := wire.Marshal(req)
	r.spawn(func() {
		ans, envs := r.pull(p, b)
		_ = r.ask(r.ctx, func() { // its error means that the run ends
			if ans != nil {
				r.takeAnswer(p, ans, envs)
			}
			again := r.pulling[p]
			if delete(r.pulling, p); again {
				r.pullFrom(p)
			}
		})
	})
}

// pull asks p once and returns nil if it gave nothing of use. The next pull from
// p waits until it has returned.
func (r *Runner) pull(p wire.PeerID, req []byte) (*pullAnswer, []wire.Envelope) {
	ctx, cancel := r.env.Context(r.ctx, 10*time.Second)
	defer cancel()
	b, err := r.cfg.Net.Pull(ctx, p, req)
	if err != nil {
		r.log.Debug("pull failed", "peer", p.Short(), "err", err)
		return nil, nil
	}
	var ans pullAnswer
	if err := wire.Unmarshal(b, &ans, maxPullAnswer); err != nil {
		r.log.Warn("pull answer refused", "peer", p.Short(), "err", err)
		return nil, nil
	}
	return &ans, r.openAll(p, ans.Envelopes)
}

// takeAnswer checks and feeds what a pull brought. It runs in the loop.
func (r *Runner) takeAnswer(from wire.PeerID, ans *pullAnswer, envs []wire.Envelope) {
	for _, it := range ans.Items {
		if err := r.takeItem(it); err != nil {
			r.log.Warn("record refused", "peer", from.Short(), "err", err)
			return
		}
	}
	if len(ans.Base) > 0 {
		var c wire.Cert
		if err := wire.Unmarshal(ans.Base, &c, wire.MaxMessage); err != nil || c.Decided() {
			r.log.Warn("certificate refused", "peer", from.Short(), "err", err)
			return
		}
		if c.Instance >= r.mach.NextInstance() && r.cfg.Agree.Verify(&c) == nil {
			r.queue = append(r.queue, Decided{Cert: c})
		}
	}
	for _, e := range envs {
		r.queue = append(r.queue, Heard{e})
	}
	r.fatal(r.drain())
}

// takeItem verifies one decided record and feeds it, before the next is looked
// at: each certificate is checked against the table that the records before it
// gave.
func (r *Runner) takeItem(it chainItem) error {
	rec, err := wire.OpenRecord(it.Record)
	if err != nil {
		return err
	}
	head := r.mach.Head()
	if rec.Round == 0 {
		if head != nil {
			return nil
		}
		env, err := wire.OpenBlock(it.Start)
		if err != nil || env.Kind != wire.KindProposal || env.Run != r.cfg.Run || env.Sender != r.cfg.Genesis.Creator || !bytes.Equal(env.Body, it.Record) {
			return fmt.Errorf("start record is not the creator's: %w", errors.Join(err))
		}
		r.queue = append(r.queue, Started{rec, env})
		return r.drain()
	}
	if head == nil || rec.Round != head.Round+1 {
		return nil
	}
	c, err := it.cert()
	if err != nil || c == nil || c.Value != rec.Digest() || c.Base != head.Digest() || c.Instance < r.mach.NextInstance() {
		return fmt.Errorf("record %d has no fitting certificate: %w", rec.Round, errors.Join(err))
	}
	if err := r.cfg.Agree.Verify(c); err != nil {
		return err
	}
	r.queue = append(r.queue, Decided{Cert: *c, Record: rec})
	return r.drain()
}

// Leave says good-bye: it returns when a record has put this peer to rest and its
// vote is not needed any more, when the run has ended, or when ctx ends.
func (r *Runner) Leave(ctx context.Context) {
	gone := false
	for !gone {
		err := r.ask(ctx, func() {
			r.mach.Leave()
			r.queue = append(r.queue, Tick{})
			r.fatal(r.drain())
			h := r.mach.Head()
			gone = h == nil || h.Last || len(r.cfg.Net.Peers()) == 0
			if h != nil && !gone {
				s, ok := h.Seat(r.self)
				gone = (!ok || !s.Active) && r.spared()
			}
		})
		if err != nil || !r.pause(ctx, 50*time.Millisecond) {
			return
		}
	}
}

// spared reports whether the agreement goes on without this peer: a table acts
// some instances after the record that changed it, and until then a leaver may be
// needed. It runs in the loop.
func (r *Runner) spared() bool {
	table, weight := r.cfg.Agree.Table(r.mach.NextInstance()), uint64(0)
	for _, s := range r.mach.Head().Roster {
		if s.Active && s.Peer != r.self {
			weight += table.Of(s.Peer)
		}
	}
	return table.Of(r.self) == 0 || table.Quorum(weight)
}

// Snapshot is what Status returns.
type Snapshot struct {
	Head     *wire.Record // nil before the start record
	Version  wire.CID     // newest version here
	Applied  uint64
	Instance uint64
	Plan     *Plan
	Finished bool
}

// Status returns where the run stands at this peer.
func (r *Runner) Status(ctx context.Context) (Snapshot, error) {
	var s Snapshot
	err := r.ask(ctx, func() {
		s = Snapshot{Head: r.mach.Head(), Version: r.version, Applied: r.mach.Applied(), Instance: r.mach.NextInstance(), Plan: r.mach.Plan()}
	})
	select {
	case <-r.ended:
		s.Finished = true
	default:
	}
	return s, err
}

// Ended is closed when the run is over and its last version certified.
func (r *Runner) Ended() <-chan struct{} { return r.ended }
