package elastic

import (
	"context"
	"errors"
	"time"

	"github.com/apiary-net/hived/elastic/decide"
	"github.com/apiary-net/hived/wire"
)

// Run takes part until ctx ends or the peer must stop.
func (r *Runner) Run(ctx context.Context) error {
	lctx, cancel := r.env.Context(ctx, Forever)
	r.ctx = lctx
	r.spawn(func() { r.runJobs(lctx) })
	err := r.loop(lctx)
	cancel()
	r.events.close()
	r.votes.close()
	r.slices.close()
	for _, c := range r.calls.close() {
		c.done.sig.Raise()
	}
	for r.tasks.Load() > 0 {
		_ = r.env.Wait(context.Background(), Forever, r.idle)
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// spawn runs f as a task that Run waits for.
func (r *Runner) spawn(f func()) {
	r.tasks.Add(1)
	r.env.Go(func() {
		defer func() {
			if r.tasks.Add(-1) == 0 {
				r.idle.Raise()
			}
		}()
		f()
	})
}

// runJobs is the worker: one heavy job after the other.
func (r *Runner) runJobs(ctx context.Context) {
	for {
		j, err := r.jobs.get(ctx)
		if err != nil {
			return
		}
		j(ctx)
	}
}

// loop owns the machine, the agreement and the slots.
func (r *Runner) loop(ctx context.Context) error {
	if r.progress.Load().record == nil {
		r.queue = append(r.queue, decide.Applied{Round: 0, Version: r.work.state.ID})
	}
	r.queue = append(r.queue, decide.Begun{Connected: r.cfg.Net.Peers()})
	r.queue = append(r.queue, decide.Tick{})
	r.tickAt = r.env.Now().Add(askInterval)
	for ctx.Err() == nil {
		took, err := r.takeIn()
		if err != nil {
			return err
		}
		if due, err := r.takeDue(); err != nil {
			return err
		} else if took || due {
			continue
		}
		_ = r.env.Wait(ctx, r.nextDue().Sub(r.env.Now()), r.inbox)
	}
	return ctx.Err()
}

// takeIn handles at most one event, one vote and one call, and reports whether
// there was any.
func (r *Runner) takeIn() (took bool, err error) {
	if ev, ok := r.events.take(); ok {
		r.queue, took = append(r.queue, ev), true
	}
	if err := r.drain(); err != nil {
		return took, err
	}
	if env, ok := r.votes.take(); ok {
		took = true
		if err := r.agree(wire.EngineVote{Env: env}); err != nil {
			return took, err
		}
		r.queue = append(r.queue, decide.Tick{})
	}
	if c, ok := r.calls.take(); ok {
		took = true
		if c.taken.CompareAndSwap(false, true) {
			err := c.do()
			c.done.raise()
			if err != nil {
				return took, err
			}
		}
	}
	return took, r.drain()
}

// takeDue does what is due by the clock, and reports whether there was anything.
func (r *Runner) takeDue() (due bool, err error) {
	now := r.env.Now()
	passed := func(t *time.Time) bool {
		if t.IsZero() || now.Before(*t) {
			return false
		}
		*t, due = time.Time{}, true
		return true
	}
	if passed(&r.wakeAt) {
		r.queue = append(r.queue, decide.Tick{})
	}
	if passed(&r.alarmAt) {
		if err := r.agree(wire.EngineAlarm{}); err != nil {
			return due, err
		}
	}
	if passed(&r.tickAt) {
		r.tickAt = now.Add(askInterval)
		if err := r.step(decide.Due{Connected: r.cfg.Net.Peers()}); err != nil {
			return due, err
		}
	}
	return due, r.drain()
}

// nextDue returns when takeDue has something to do.
func (r *Runner) nextDue() time.Time {
	at := r.tickAt
	for _, t := range []time.Time{r.wakeAt, r.alarmAt} {
		if !t.IsZero() && t.Before(at) {
			at = t
		}
	}
	return at
}

// drain feeds queued events to the machine and executes what it commands.
func (r *Runner) drain() error {
	for len(r.queue) > 0 {
		ev := r.queue[0]
		r.queue = r.queue[1:]
		switch ev := ev.(type) {
		case decide.Applied:
			r.trouble(ev.Err)
		case decide.TrainFailed:
			r.trouble(ev.Err)
		case decide.Trained:
			r.trouble(nil)
		}
		if err := r.step(ev); err != nil {
			return err
		}
	}
	return nil
}

// step feeds one event to the machine and executes what it commands.
func (r *Runner) step(ev decide.Event) error {
	for _, c := range r.mach.Step(r.env.Now(), ev) {
		if err := r.do(c); err != nil {
			return err
		}
	}
	return nil
}

// post gives an event to the loop from another task. It waits while the queue is
// full, until ctx or the run ends.
func (r *Runner) post(ctx context.Context, ev decide.Event) { _ = r.events.put(ctx, Forever, ev) }
