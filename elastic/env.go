package elastic

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// Env is the time and the concurrency that a Runner lives in. Threads is the
// real one; netsim gives another, coroutines on one seeded event loop, in which
// the same code runs.
type Env interface {
	// Now returns the peer's clock.
	Now() time.Time
	// Go runs f as a task of its own.
	Go(f func())
	// Context is context.WithTimeout on this clock; a limit of Forever is none.
	Context(parent context.Context, limit time.Duration) (context.Context, context.CancelFunc)
	// NewSignal returns a signal that is not raised.
	NewSignal() Signal
	// Wait blocks the calling task until one of at most two signals is raised and
	// takes it back. It returns ErrTimeout after limit and the error of ctx once
	// that has ended.
	Wait(ctx context.Context, limit time.Duration, s ...Signal) error
}

// Signal wakes one task that waits for it, now or the next that will.
type Signal interface {
	// Raise does not block. A signal that is raised already stays so.
	Raise()
}

// Forever is no limit.
const Forever time.Duration = 1<<63 - 1

// ErrTimeout is what Wait returns after its limit.
var ErrTimeout = errors.New("time is up")

// Threads is the Env of goroutines and the wall clock.
type Threads struct{}

// Now implements Env.
func (Threads) Now() time.Time { return time.Now() }

// Go implements Env.
func (Threads) Go(f func()) { go f() }

// Context implements Env.
func (Threads) Context(parent context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit == Forever {
		return context.WithCancel(parent)
	}
	return context.WithTimeout(parent, limit)
}

type threadSignal chan struct{}

func (s threadSignal) Raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// NewSignal implements Env.
func (Threads) NewSignal() Signal { return make(threadSignal, 1) }

// Wait implements Env.
func (Threads) Wait(ctx context.Context, limit time.Duration, s ...Signal) error {
	if len(s) > 2 {
		panic("elastic: a wait for more than two signals")
	}
	var a, b threadSignal
	if len(s) > 0 {
		a = s[0].(threadSignal)
	}
	if len(s) > 1 {
		b = s[1].(threadSignal)
	}
	var timeout <-chan time.Time
	if limit != Forever {
		t := time.NewTimer(limit)
		defer t.Stop()
		timeout = t.C
	}
	select {
	case <-a:
		return nil
	case <-b:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timeout:
		return ErrTimeout
	}
}

// flag goes up once and stays up.
type flag struct {
	up  atomic.Bool
	sig Signal
}

func (f *flag) raise() {
	f.up.Store(true)
	f.sig.Raise()
}
