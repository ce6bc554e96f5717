package elastic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/apiary-net/hived/elastic/decide"
	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/elastic/version"
	"github.com/apiary-net/hived/wire"
)

// Judge opens an announcement and says what is to be done with it. It may be called
// concurrently and keeps nothing.
func (r *Runner) Judge(b []byte) (wire.Envelope, decide.Verdict) {
	e, err := wire.OpenBlock(b)
	if err != nil || len(b) > wire.MaxSaid || len(b) > wire.MaxMessage && e.Kind != wire.KindProposal && e.Kind != wire.KindGroupCut {
		return e, decide.Reject
	}
	v := decide.CheckForm(r.cfg.Run, &e)
	if v == decide.Accept && !r.concerns(&e) {
		v = decide.Ignore
	}
	return e, v
}

// Hear takes an announcement that Judge has accepted. It blocks while the run's queue
// is full.
func (r *Runner) Hear(ctx context.Context, e wire.Envelope) { r.post(ctx, decide.Heard{Env: e}) }

// Offer is Judge and Hear for a caller that cannot wait: while the queue is full an
// announcement is lost, and pulled later. It returns what Judge does.
func (r *Runner) Offer(b []byte) decide.Verdict {
	e, v := r.Judge(b)
	if v == decide.Accept {
		_ = r.events.try(decide.Heard{Env: e})
	}
	return v
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
	r.post(ctx, decide.Connected{Peer: p, Up: up})
}

// ask runs f in the loop and waits for it. An error of f ends the run; what ask
// returns is only whether f has run.
func (r *Runner) ask(ctx context.Context, f func() error) error {
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

// getFrom returns a GetBlock that takes what is here and fetches the rest from
// the connected peers, of whom those named are asked first.
func (r *Runner) getFrom(first ...wire.PeerID) version.GetBlock {
	return r.getOf(func() []wire.PeerID { return r.holders(first...) })
}

// getOf is getFrom with the holders, who are named when one is needed.
func (r *Runner) getOf(holders func() []wire.PeerID) version.GetBlock {
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
		from := holders()
		if len(from) == 0 {
			return fmt.Errorf("%d blocks are not here and nobody is connected", len(lacking))
		}
		return r.cfg.Net.Fetch(ctx, lacking, from, got)
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

// fetchBody fetches and checks one contribution and tells the machine.
func (r *Runner) fetchBody(ctx context.Context, c decide.FetchBody) {
	if r.fetchers.enter(ctx) != nil {
		return
	}
	defer r.fetchers.leave()
	fctx, cancel := r.env.Context(ctx, bodyDeadline)
	defer cancel()
	ev := decide.BodyChecked{Header: c.Env.Digest()}
	var nonce []byte
	var merged []wire.CID
	var err error
	switch {
	case c.Base.IsZero():
		err = errNoBase
	case c.Header.Base != c.Base:
		err = &version.BadBody{Reason: wire.ReasonStale, Detail: fmt.Sprintf("trained from %s, the version is %s", c.Header.Base.Short(), c.Base.Short())}
	default:
		nonce, merged, err = r.takeBody(fctx, c)
	}
	var refused *version.BadBody
	switch {
	case err == nil:
		// Also of the own contribution only the parts that this peer owns: the others
		// must not depend on its sender's life.
		ev.Whole, ev.Nonce, ev.Merged, ev.Parts = true, nonce, merged, c.Parts
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

// takeBody fetches one body whole and keeps it: in memory for the merge, and on
// disk if this peer sent it or is one of its holders.
func (r *Runner) takeBody(ctx context.Context, c decide.FetchBody) (nonce []byte, merged []wire.CID, err error) {
	others := c.From
	if others == nil {
		others = r.holders()
	}
	var mine func(int) bool
	if c.Parts != nil {
		mine = func(i int) bool { return c.Parts[i/8]&(1<<(i%8)) != 0 }
	}
	round, get := c.Env.Round, r.getOf(func() []wire.PeerID { return append([]wire.PeerID{c.Env.Sender}, others...) })
	keep := c.Env.Sender == r.self || mine != nil || rules.Holds(c.Env.Digest(), c.Env.Sender, r.self, others)
	var unkept error // what a HAVE says that this peer holds it must hold
	got := func(id wire.CID, b []byte) {
		r.cache.put(round, id, b)
		if !keep {
			return
		}
		if _, err := r.cfg.Bodies.Put(round, b); err != nil {
			unkept = fmt.Errorf("keep body: %w", err)
		}
	}
	if r.cfg.Genesis.Preset.Cadence.Window {
		var body *wire.WindowBody
		err := get(ctx, []wire.CID{c.Header.Body}, func(id wire.CID, b []byte) (err error) {
			if body, err = version.CheckWindowBody(&c.Header, b); err == nil {
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
		return body.Nonce, body.Merged, unkept
	}
	body, err := r.model.FetchBody(ctx, &c.Header, mine, get, got)
	if err != nil {
		return nil, nil, err
	}
	return body.Nonce, nil, unkept
}

// Leave says good-bye: it returns when a record has put this peer to rest and its
// vote is not needed any more, when the run has ended, or when ctx ends.
func (r *Runner) Leave(ctx context.Context) {
	for left := false; !left; {
		err := r.ask(ctx, func() error {
			err := r.step(decide.Leaving{Alone: len(r.cfg.Net.Peers()) == 0})
			if err == nil {
				err = r.drain()
			}
			left = r.left
			return err
		})
		if err != nil || !r.pause(ctx, 50*time.Millisecond) {
			return
		}
	}
}

// Snapshot is what Status returns.
type Snapshot struct {
	decide.View
	Finished bool
}

// Status returns where the run stands at this peer.
func (r *Runner) Status(ctx context.Context) (Snapshot, error) {
	var s Snapshot
	err := r.ask(ctx, func() error {
		s.View = r.mach.View()
		return nil
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
