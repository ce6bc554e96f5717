package elastic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/apiary-net/hived/elastic/decide"
	"github.com/apiary-net/hived/wire"
)

// Answer answers another peer's pull.
func (r *Runner) Answer(ctx context.Context, b []byte) (*wire.PullAnswer, error) {
	var req wire.PullRequest
	if err := wire.Unmarshal(b, &req, wire.MaxPullRequest); err != nil {
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
	ans := &wire.PullAnswer{}
	size := 0
	for i := req.Next; ; i++ {
		raw, err := r.chain.raw(i)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read record %d: %w", i, err)
		}
		if size += len(raw); size > wire.PullBudget {
			break
		}
		ans.Items = append(ans.Items, raw)
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
		if known[string(d[:8])] || !req.Composes && (e.Kind == wire.KindProposal || e.Kind == wire.KindReady) {
			continue
		}
		if size += len(raw); size > wire.PullBudget {
			break
		}
		ans.Envelopes = append(ans.Envelopes, raw)
	}
	return ans, nil
}

// pullSome asks a random peer that may know for what is lacking while a round is
// open. It runs in the loop.
func (r *Runner) pullSome() {
	if r.env.Now().Sub(r.lastPull) < pullInterval/2 {
		return
	}
	if peers := r.mach.Informed(r.cfg.Net.Peers(), r.env.Now()); len(peers) > 0 {
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
	req := wire.PullRequest{Run: r.cfg.Run, Instance: r.mach.NextInstance(), Composes: r.mach.Composes()}
	if h := r.mach.Head(); h != nil {
		req.Next = h.Round + 1
	}
	for i, e := range r.mach.Known() {
		if i == wire.MaxKnown {
			break
		}
		d := e.Digest()
		req.Known = append(req.Known, d[:8])
	}
	b := wire.Marshal(req)
	r.spawn(func() {
		ans, envs := r.pull(p, b)
		_ = r.ask(r.ctx, func() { // its error means that the run ends
			if ans != nil {
				r.takeAnswer(p, req.Next, ans, envs)
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
func (r *Runner) pull(p wire.PeerID, req []byte) (*wire.PullAnswer, []wire.Envelope) {
	ctx, cancel := r.env.Context(r.ctx, 10*time.Second)
	defer cancel()
	ans, err := r.cfg.Net.Pull(ctx, p, req)
	if err != nil {
		r.log.Debug("pull failed", "peer", p.Short(), "err", err)
		return nil, nil
	}
	return ans, r.openAll(p, ans.Envelopes)
}

// takeAnswer checks and feeds what a pull for the records from next on brought. It
// runs in the loop.
func (r *Runner) takeAnswer(from wire.PeerID, next uint64, ans *wire.PullAnswer, envs []wire.Envelope) {
	for i, raw := range ans.Items {
		if h := r.mach.Head(); h != nil && h.Round >= next+uint64(i) {
			continue // it came another way meanwhile
		}
		if err := r.takeItem(raw); err != nil {
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
			r.queue = append(r.queue, decide.Decided{Cert: c})
		}
	}
	for _, e := range envs {
		r.queue = append(r.queue, decide.Heard{Env: e})
	}
	r.fatal(r.drain())
}

// takeItem verifies one decided record and feeds it, before the next is looked
// at: each certificate is checked against the table that the records before it
// gave.
func (r *Runner) takeItem(raw []byte) error {
	it, err := wire.OpenChainItem(raw)
	if err != nil {
		return err
	}
	rec, head := it.Rec, r.mach.Head()
	if rec.Round == 0 {
		if head != nil {
			return nil
		}
		env, err := wire.OpenBlock(it.Start)
		if err != nil || env.Kind != wire.KindProposal || env.Run != r.cfg.Run || env.Sender != r.cfg.Genesis.Creator || !bytes.Equal(env.Body, it.Record) {
			return fmt.Errorf("start record is not the creator's: %w", errors.Join(err))
		}
		r.queue = append(r.queue, decide.Started{Record: rec, Env: env})
		return r.drain()
	}
	if head == nil || rec.Round != head.Round+1 {
		return nil
	}
	c, err := it.OpenCert()
	if err != nil || c == nil || c.Value != rec.Digest() || c.Base != head.Digest() || c.Instance < r.mach.NextInstance() {
		return fmt.Errorf("record %d has no fitting certificate: %w", rec.Round, errors.Join(err))
	}
	if err := r.cfg.Agree.Verify(c); err != nil {
		return err
	}
	ev := decide.Decided{Cert: *c, Record: rec}
	if it.Lean {
		ev.Item = raw
	}
	r.queue = append(r.queue, ev)
	return r.drain()
}
