package elastic

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/apiary-net/hived/wire/invariants"
)

// mailbox is a bounded queue between tasks, with one reader.
type mailbox[T any] struct {
	env  Env
	more Signal // raised when there is something; the reader waits for it
	room Signal // raised when there is room again
	size int

	mu     sync.Mutex
	items  []T
	closed bool
}

// newMailbox returns a mailbox for size items. The reader waits for more, which
// several mailboxes may share.
func newMailbox[T any](env Env, more Signal, size int) *mailbox[T] {
	return &mailbox[T]{env: env, more: more, room: env.NewSignal(), size: size}
}

var (
	errFull   = errors.New("queue is full")
	errClosed = errors.New("the run is not in progress here")
)

// try puts x in unless the mailbox is full or closed.
func (m *mailbox[T]) try(x T) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		m.room.Raise() // the next that waits must know too
		return errClosed
	case len(m.items) >= m.size:
		return errFull
	}
	m.items = append(m.items, x)
	if invariants.On {
		invariants.Check(len(m.items) <= m.size, "elastic: a mailbox for %d items holds %d", m.size, len(m.items))
	}
	m.more.Raise()
	if len(m.items) < m.size {
		m.room.Raise() // for others that wait
	}
	return nil
}

// put waits for room, at most for limit.
func (m *mailbox[T]) put(ctx context.Context, limit time.Duration, x T) error {
	began := m.env.Now()
	for {
		if err := m.try(x); !errors.Is(err, errFull) {
			return err
		}
		rest := limit
		if limit != Forever {
			rest -= m.env.Now().Sub(began)
		}
		if err := m.env.Wait(ctx, rest, m.room); err != nil {
			return err
		}
	}
}

// take returns the oldest item, if there is one.
func (m *mailbox[T]) take() (x T, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.items) == 0 {
		return x, false
	}
	x = m.items[0]
	var none T
	m.items[0] = none
	m.items = m.items[1:]
	m.room.Raise()
	return x, true
}

// get waits for an item.
func (m *mailbox[T]) get(ctx context.Context) (T, error) {
	for {
		if x, ok := m.take(); ok {
			return x, nil
		}
		if err := m.env.Wait(ctx, Forever, m.more); err != nil {
			var none T
			return none, err
		}
	}
}

// close refuses what is put in from now on and returns what is left.
func (m *mailbox[T]) close() []T {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.room.Raise()
	left := m.items
	m.items = nil
	return left
}

// gate lets a bounded number of tasks through at a time.
type gate struct {
	env  Env
	free Signal
	mu   sync.Mutex
	left int
}

func newGate(env Env, n int) *gate { return &gate{env: env, free: env.NewSignal(), left: n} }

// enter waits until the task may pass; leave is called when it has.
func (g *gate) enter(ctx context.Context) error {
	for !g.pass() {
		if err := g.env.Wait(ctx, Forever, g.free); err != nil {
			return err
		}
	}
	return nil
}

func (g *gate) pass() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.left == 0 {
		return false
	}
	if g.left--; g.left > 0 {
		g.free.Raise() // for others that wait
	}
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left++
	g.free.Raise()
}
