package gossip

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/apiary-net/hived/wire"
)

// MaxTold is the most members that announcements go to one by one.
const MaxTold = wire.MaxMembers

// Members are the peers of one run. While all of them are connected an announcement
// goes to each once, a third of the bytes of a mesh that forwards; else it goes to the
// topic. Methods may be called concurrently.
type Members struct {
	node  *Node
	proto string

	mu    sync.Mutex
	topic *Topic        // guarded by mu
	list  []wire.PeerID // guarded by mu; its elements do not change
}

// NewMembers returns members who are told by direct messages of a protocol.
func NewMembers(n *Node, proto string) *Members { return &Members{node: n, proto: proto} }

// Subscribe sets the topic for those who are not connected. It comes before the first
// Publish.
func (m *Members) Subscribe(t *Topic) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.topic = t
}

// Topic returns what Subscribe set, or nil.
func (m *Members) Topic() *Topic {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.topic
}

// List returns the members. The caller must not change it.
func (m *Members) List() []wire.PeerID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.list
}

// Set replaces the members by list, which becomes theirs, and reports whether they
// are others than before.
func (m *Members) Set(list []wire.PeerID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.Equal(m.list, list) {
		return false
	}
	m.list = list
	return true
}

// Publish announces b to all members.
func (m *Members) Publish(ctx context.Context, b []byte) error {
	list := m.List()
	if len(list) > MaxTold {
		return m.Topic().Publish(ctx, b)
	}
	return m.PublishTo(ctx, list, b)
}

// PublishTo gives an announcement to some peers while all of them are connected, else
// to the topic.
func (m *Members) PublishTo(ctx context.Context, to []wire.PeerID, b []byte) error {
	direct := len(to) > 0
	for _, p := range to {
		direct = direct && (p == m.node.ID() || m.node.Connected(p))
	}
	if !direct {
		return m.Topic().Publish(ctx, b)
	}
	return m.Tell(ctx, to, b)
}

// Tell gives an announcement to some peers, to as many as a group has at once: a
// send waits for the pace of its connection, and who hears of a proposal late
// begins the agreement without it.
func (m *Members) Tell(ctx context.Context, to []wire.PeerID, b []byte) error {
	if len(b) > wire.MaxSaid { // who sends more is at fault; it is pulled
		return fmt.Errorf("tell %d bytes, limit %d: %w", len(b), wire.MaxSaid, ErrTooBig)
	}
	errs := make([]error, len(to))
	var g errgroup.Group
	g.SetLimit(MaxTold)
	for i, p := range to {
		if p == m.node.ID() {
			continue
		}
		g.Go(func() error {
			errs[i] = m.node.Send(ctx, p, m.proto, b)
			return nil
		})
	}
	_ = g.Wait()
	return errors.Join(errs...)
}
