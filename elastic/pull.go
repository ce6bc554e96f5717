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
	err := r.ask(ctx, func() error {
		envs, next = r.mach.Known(), r.next
		return nil
	})
	if err != nil {
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
	base, err := r.chain.base()
	if err != nil {
		return nil, err
	}
	if base != nil && base.Instance >= req.Instance && base.Instance < next {
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

// pull asks a peer for what is lacking, in a task. It runs in the loop.
func (r *Runner) pull(c decide.Pull) {
	b := wire.Marshal(c.Request)
	r.spawn(func() {
		ans, envs := r.pullFrom(c.Peer, b)
		_ = r.ask(r.ctx, func() error { // its error means that the run ends
			if ans != nil {
				if err := r.takeAnswer(c.Peer, c.Request.Next, ans, envs); err != nil {
					return err
				}
			}
			return r.step(decide.Pulled{Peer: c.Peer})
		})
	})
}

// pullFrom asks p once and returns nil if it gave nothing of use.
func (r *Runner) pullFrom(p wire.PeerID, req []byte) (*wire.PullAnswer, []wire.Envelope) {
	ctx, cancel := r.env.Context(r.ctx, 10*time.Second)
	defer cancel()
	ans, err := r.cfg.Net.Pull(ctx, p, req)
	if err != nil {
		r.log.Debug("pull failed", "peer", p.Short(), "err", err)
		return nil, nil
	}
	return ans, r.openAll(p, ans.Envelopes)
}

// takeAnswer checks and feeds what a pull for the records from next on brought. Each
// record is fed before the next is looked at: its certificate is checked against the
// table that the records before it gave. What the peer got wrong is only told; an error
// is this peer's own. It runs in the loop.
func (r *Runner) takeAnswer(from wire.PeerID, next uint64, ans *wire.PullAnswer, envs []wire.Envelope) error {
	for i, raw := range ans.Items {
		if h := r.progress.Load().record; h != nil && h.Round >= next+uint64(i) {
			continue // it came another way meanwhile
		}
		ev, err := r.checkItem(raw)
		if err != nil {
			r.log.Warn("record refused", "peer", from.Short(), "err", err)
			return nil
		}
		if ev == nil {
			continue
		}
		r.queue = append(r.queue, ev)
		if err := r.drain(); err != nil {
			return err
		}
	}
	if len(ans.Base) > 0 {
		var c wire.Cert
		if err := wire.Unmarshal(ans.Base, &c, wire.MaxMessage); err != nil || c.Decided() {
			r.log.Warn("certificate refused", "peer", from.Short(), "err", err)
			return nil
		}
		if c.Instance >= r.next && r.cfg.Agree.Verify(&c) == nil {
			r.queue = append(r.queue, decide.Decided{Cert: c})
		}
	}
	for _, e := range envs {
		r.queue = append(r.queue, decide.Heard{Env: e})
	}
	return r.drain()
}

// checkItem verifies one decided record and returns the event that it is; nil for one
// that does not follow the head.
func (r *Runner) checkItem(raw []byte) (decide.Event, error) {
	it, err := wire.OpenChainItem(raw)
	if err != nil {
		return nil, err
	}
	rec, head := it.Rec, r.progress.Load().record
	if rec.Round == 0 {
		if head != nil {
			return nil, nil
		}
		env, err := wire.OpenBlock(it.Start)
		if err != nil {
			return nil, fmt.Errorf("start record: %w", err)
		}
		if env.Kind != wire.KindProposal || env.Run != r.cfg.Run || env.Sender != r.cfg.Genesis.Creator || !bytes.Equal(env.Body, it.Record) {
			return nil, errors.New("start record is not the creator's")
		}
		return decide.Started{Record: rec, Env: env}, nil
	}
	if head == nil || rec.Round != head.Round+1 {
		return nil, nil
	}
	c, err := it.OpenCert()
	if err != nil {
		return nil, fmt.Errorf("certificate of record %d: %w", rec.Round, err)
	}
	if c == nil || c.Value != rec.Digest() || c.Base != head.Digest() || c.Instance < r.next {
		return nil, fmt.Errorf("record %d has no fitting certificate", rec.Round)
	}
	if err := r.cfg.Agree.Verify(c); err != nil {
		return nil, err
	}
	ev := decide.Decided{Cert: *c, Record: rec}
	if it.Lean {
		ev.Item = raw
	}
	return ev, nil
}
