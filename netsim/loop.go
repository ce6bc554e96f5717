package netsim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/apiary-net/hived/elastic"
)

// Loop is virtual time: a queue of events in the order of (time, insertion), and
// tasks that are coroutines, of which one runs at a time. Everything that happens
// is a function of what was scheduled: no goroutine, no wall clock, no map order.
type Loop struct {
	now   time.Duration // since epoch
	seq   uint64
	queue eventHeap
	dead  int     // events in the queue that were taken back, about
	ready []*task // to be resumed now, in order
	idle  []*task // whose work is done, for the next that start
	cur   *task   // that runs; nil between tasks
	tasks int     // that live
	Steps uint64  // events and resumptions so far
	fail  error   // the first panic of a task
}

// epoch is when every simulation begins.
var epoch = time.Unix(1_700_000_000, 0).UTC()

// NewLoop returns a loop at its beginning.
func NewLoop() *Loop { return &Loop{} }

// Now returns the virtual time.
func (l *Loop) Now() time.Time { return epoch.Add(l.now) }

// Since returns how long the loop has run, in virtual time.
func (l *Loop) Since() time.Duration { return l.now }

type event struct {
	at  time.Duration // since epoch
	seq uint64
	do  func() // nil: taken back
}

// eventHeap is a binary heap by (at, seq).
type eventHeap []*event

func (h eventHeap) less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}

func (h *eventHeap) push(e *event) {
	*h = append(*h, e)
	for i := len(*h) - 1; i > 0; {
		p := (i - 1) / 2
		if !h.less(i, p) {
			break
		}
		(*h)[i], (*h)[p] = (*h)[p], (*h)[i]
		i = p
	}
}

func (h *eventHeap) pop() *event {
	old := *h
	top, n := old[0], len(old)-1
	old[0], old[n] = old[n], nil
	*h = old[:n]
	h.down(0)
	return top
}

func (h eventHeap) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(h) {
			break
		}
		if c+1 < len(h) && h.less(c+1, c) {
			c++
		}
		if !h.less(c, i) {
			break
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
}

// At calls do at a time, not before now.
func (l *Loop) At(at time.Time, do func()) *event {
	l.seq++
	e := &event{at: max(at.Sub(epoch), l.now), seq: l.seq, do: do}
	l.queue.push(e)
	return e
}

// After calls do after d.
func (l *Loop) After(d time.Duration, do func()) *event { return l.At(l.Now().Add(d), do) }

// takeBack makes an event not happen. Most time-outs end so, long before their
// time: they leave the queue when they are the greater part of it.
func (l *Loop) takeBack(e *event) {
	if e == nil || e.do == nil {
		return
	}
	e.do = nil
	if l.dead++; l.dead < 1024 || l.dead < len(l.queue)/2 {
		return
	}
	l.queue = slices.DeleteFunc(l.queue, func(e *event) bool { return e.do == nil })
	for i := len(l.queue)/2 - 1; i >= 0; i-- {
		l.queue.down(i)
	}
	l.dead = 0
}

// Run lets time pass until until, or until nothing is left to happen. It returns
// an error if a task panicked.
func (l *Loop) Run(until time.Time) error {
	end := until.Sub(epoch)
	for l.fail == nil {
		l.settle()
		if len(l.queue) == 0 || l.queue[0].at > end {
			break
		}
		e := l.queue.pop()
		do := e.do
		if do == nil {
			l.dead--
			continue
		}
		e.do = nil
		l.now = e.at
		l.Steps++
		do()
	}
	if l.fail == nil {
		l.now = max(l.now, end)
	}
	return l.fail
}

// settle resumes tasks until all of them wait.
func (l *Loop) settle() {
	for len(l.ready) > 0 && l.fail == nil {
		t := l.ready[0]
		l.ready = l.ready[1:]
		l.Steps++
		l.resume(t)
	}
}

// task is a coroutine that waits or runs. When its work is done it is kept for
// other work: its stack has grown already.
type task struct {
	f     func() // nil: done
	next  func() (struct{}, bool)
	yield func(struct{}) bool
	stop  func()
	err   error // what the wait that ends returns
}

// maxIdle bounds the coroutines that are kept.
const maxIdle = 1 << 12

// Go starts f as a task, once the caller waits.
func (l *Loop) Go(f func()) {
	var t *task
	if n := len(l.idle); n > 0 {
		t, l.idle = l.idle[n-1], l.idle[:n-1]
	} else {
		t = newTask()
	}
	t.f = f
	l.tasks++
	l.ready = append(l.ready, t)
}

func newTask() *task {
	t := &task{}
	t.next, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		for more := true; more; more = yield(struct{}{}) {
			t.f()
			t.f = nil
		}
	})
	return t
}

func (l *Loop) resume(t *task) {
	defer func() {
		l.cur = nil
		if p := recover(); p != nil {
			l.fail = fmt.Errorf("a simulated task panicked after %v: %v", l.Since(), p)
		}
	}()
	l.cur = t
	t.next()
	if t.f != nil {
		return // it waits
	}
	l.tasks--
	if len(l.idle) < maxIdle {
		l.idle = append(l.idle, t)
	} else {
		t.stop()
	}
}

// Close ends the coroutines that have no work.
func (l *Loop) Close() {
	for _, t := range l.idle {
		t.stop()
	}
	l.idle = nil
}

// Tasks returns how many tasks live.
func (l *Loop) Tasks() int { return l.tasks }

// Sleep blocks the calling task.
func (l *Loop) Sleep(ctx context.Context, d time.Duration) error {
	if err := l.Wait(ctx, d); !errors.Is(err, elastic.ErrTimeout) {
		return err
	}
	return nil
}

// waiter is one wait of a task, registered with what may end it.
type waiter struct {
	t     *task
	done  bool
	timer *event
	ctx   *loopContext
	at    int // index in ctx.waiters
}

func (l *Loop) wake(w *waiter, err error) {
	if w.done {
		return
	}
	w.done, w.t.err = true, err
	l.takeBack(w.timer)
	if w.ctx != nil {
		w.ctx.drop(w)
	}
	l.ready = append(l.ready, w.t)
}

// signal implements elastic.Signal.
type signal struct {
	l       *Loop
	raised  bool
	waiters []*waiter
}

// NewSignal returns a signal that is not raised.
func (l *Loop) NewSignal() elastic.Signal { return &signal{l: l} }

func (s *signal) Raise() {
	for len(s.waiters) > 0 {
		w := s.waiters[0]
		s.waiters = s.waiters[1:]
		if !w.done {
			s.l.wake(w, nil)
			return
		}
	}
	s.raised = true
}

// Wait implements elastic.Env for the calling task. It panics outside of a task:
// events must not block.
func (l *Loop) Wait(ctx context.Context, limit time.Duration, sigs ...elastic.Signal) error {
	for _, s := range sigs {
		if s := s.(*signal); s.raised {
			s.raised = false
			return nil
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if limit <= 0 {
		return elastic.ErrTimeout
	}
	t := l.cur
	if t == nil {
		panic("netsim: an event waits; only tasks may")
	}
	w := &waiter{t: t}
	if c, ok := ctx.(*loopContext); ok {
		c.add(w)
	} else if ctx.Done() != nil {
		panic("netsim: a wait on a context of another clock")
	}
	if limit != elastic.Forever {
		w.timer = l.After(limit, func() { l.wake(w, elastic.ErrTimeout) })
	}
	for _, s := range sigs {
		s := s.(*signal)
		if len(s.waiters) > 4 {
			s.waiters = slices.DeleteFunc(s.waiters, func(w *waiter) bool { return w.done })
		}
		s.waiters = append(s.waiters, w)
	}
	t.yield(struct{}{})
	l.cur = t
	return t.err
}

// loopContext is a context whose deadline is virtual. Its parent is another one
// or the background.
type loopContext struct {
	context.Context
	l        *Loop
	parent   *loopContext
	done     chan struct{}
	err      error
	timer    *event
	waiters  []*waiter
	children []*loopContext
	at       int // index in parent.children
}

// Context implements elastic.Env.
func (l *Loop) Context(parent context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	c := &loopContext{Context: context.Background(), l: l, done: make(chan struct{})}
	if p, ok := parent.(*loopContext); ok {
		c.Context, c.parent = p.Context, p
		if p.err != nil {
			c.end(p.err)
			return c, func() {}
		}
		c.at = len(p.children)
		p.children = append(p.children, c)
	} else if parent.Done() != nil {
		panic("netsim: a context of another clock")
	}
	if limit != elastic.Forever {
		c.timer = l.After(limit, func() { c.end(context.DeadlineExceeded) })
	}
	return c, func() { c.end(context.Canceled) }
}

func (c *loopContext) Done() <-chan struct{} { return c.done }
func (c *loopContext) Err() error            { return c.err }
func (c *loopContext) Deadline() (time.Time, bool) {
	return time.Time{}, false // the standard library would compare it with the wall clock
}

func (c *loopContext) end(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	close(c.done)
	c.l.takeBack(c.timer)
	if p := c.parent; p != nil && p.err == nil {
		last := len(p.children) - 1
		p.children[c.at] = p.children[last]
		p.children[c.at].at = c.at
		p.children[last] = nil
		p.children = p.children[:last]
	}
	for _, ch := range c.children {
		ch.end(err)
	}
	c.children = nil
	ws := c.waiters
	c.waiters = nil
	for _, w := range ws {
		w.ctx = nil
		c.l.wake(w, err)
	}
}

func (c *loopContext) add(w *waiter) {
	w.ctx, w.at = c, len(c.waiters)
	c.waiters = append(c.waiters, w)
}

func (c *loopContext) drop(w *waiter) {
	last := len(c.waiters) - 1
	c.waiters[w.at] = c.waiters[last]
	c.waiters[w.at].at = w.at
	c.waiters[last] = nil
	c.waiters = c.waiters[:last]
	w.ctx = nil
}
