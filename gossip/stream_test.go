package gossip

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/apiary-net/hived/wire"
)

const testProto = "/hived/test/direct/1"

func blockOf(i, n int) []byte {
	var seed [32]byte
	binary.BigEndian.PutUint64(seed[:], uint64(i))
	b := make([]byte, n)
	rand.NewChaCha8(seed).Read(b)
	return b
}

// source serves from a map; hook may answer instead.
type source struct {
	blocks map[wire.CID][]byte
	hook   func(asker wire.PeerID, id wire.CID) ([]byte, error, bool)
	mu     sync.Mutex
	served int
}

func (s *source) Block(asker wire.PeerID, id wire.CID) ([]byte, error) {
	if s.hook != nil {
		if b, err, ok := s.hook(asker, id); ok {
			return b, err
		}
	}
	b, ok := s.blocks[id]
	if !ok {
		return nil, fs.ErrNotExist
	}
	s.mu.Lock()
	s.served++
	s.mu.Unlock()
	return b, nil
}

func someBlocks(n, size int) (map[wire.CID][]byte, []wire.CID) {
	m := map[wire.CID][]byte{}
	var ids []wire.CID
	for i := range n {
		b := blockOf(i, size)
		id := wire.RawCID(b)
		m[id], ids = b, append(ids, id)
	}
	return m, ids
}

func serving(s BlockSource) func(*Config) { return func(c *Config) { c.Serve = s } }

func TestSend(t *testing.T) {
	cfg, addr := reserve(t)
	type msg struct {
		from wire.PeerID
		b    []byte
	}
	got := make(chan msg, 1000)
	handle := func(r *running) {
		r.Handle(testProto, 1<<20, func(from wire.PeerID, b []byte) { got <- msg{from, b} })
	}
	b := start(t, cfg)
	handle(b)
	a := startNode(t, func(c *Config) { c.Bootstrap = []string{addr} })
	for i := range 300 {
		if err := a.Send(t.Context(), b.ID(), testProto, blockOf(i, i*100)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 300 {
		if m := <-got; m.from != a.ID() || !bytes.Equal(m.b, blockOf(i, i*100)) {
			t.Fatalf("message %d is %d bytes of %s", i, len(m.b), m.from)
		}
	}
	if err := a.Send(t.Context(), b.ID(), testProto, make([]byte, MaxDirect+1)); !errors.Is(err, ErrTooBig) {
		t.Errorf("too big: %v", err)
	}
	if err := a.Send(t.Context(), wire.NewKey().Peer(), testProto, nil); !errors.Is(err, ErrUnreachable) {
		t.Errorf("to nobody: %v", err)
	}
	b.stop()
	b = start(t, cfg)
	handle(b)
	eventually(t, "sent to the restarted peer", func() bool {
		if err := a.Send(t.Context(), b.ID(), testProto, []byte("again")); err != nil {
			return false
		}
		select {
		case m := <-got:
			return string(m.b) == "again"
		case <-time.After(time.Second):
			return false
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Send(ctx, b.ID(), testProto, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestPull(t *testing.T) {
	big := blockOf(1, MaxPullAnswer)
	b := startNode(t, func(c *Config) {
		c.Pull = func(_ wire.PeerID, req []byte) ([]byte, error) {
			switch string(req) {
			case "big":
				return big, nil
			case "too big":
				return append(big, 0), nil
			case "none":
				return nil, fs.ErrNotExist
			case "not yet":
				return nil, fmt.Errorf("wrapped: %w", fs.ErrPermission)
			case "busy":
				return nil, ErrBusy
			case "panic":
				panic("in the handler")
			}
			return append([]byte("answer to "), req...), nil
		}
	})
	a := startNode(t, bootstrap(b))
	waitPeers(t, 1, a, b)
	for req, want := range map[string]error{"too big": ErrRefused, "none": fs.ErrNotExist, "not yet": fs.ErrPermission, "busy": ErrBusy} {
		if _, err := a.Pull(t.Context(), b.ID(), []byte(req)); !errors.Is(err, want) {
			t.Errorf("%s: %v", req, err)
		}
	}
	if _, err := a.Pull(t.Context(), b.ID(), []byte("panic")); err == nil {
		t.Error("a panic was an answer")
	}
	if got, err := a.Pull(t.Context(), b.ID(), []byte("hello")); err != nil || string(got) != "answer to hello" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := a.Pull(t.Context(), b.ID(), []byte("big")); err != nil || !bytes.Equal(got, big) {
		t.Errorf("big: %d bytes, %v", len(got), err)
	}
	if _, err := a.Pull(t.Context(), b.ID(), make([]byte, MaxPullRequest+1)); !errors.Is(err, ErrTooBig) {
		t.Errorf("too long a request: %v", err)
	}
	if _, err := b.Pull(t.Context(), a.ID(), []byte("x")); !errors.Is(err, ErrRefused) {
		t.Errorf("from a node that answers none: %v", err)
	}
}

// fetchAll fetches and returns what came, checking that each came once.
func fetchAll(t *testing.T, n *running, ids []wire.CID, from ...*running) (map[wire.CID][]byte, error) {
	t.Helper()
	var ps []wire.PeerID
	for _, f := range from {
		ps = append(ps, f.ID())
	}
	got := map[wire.CID][]byte{}
	err := n.Fetch(t.Context(), ids, ps, func(id wire.CID, b []byte) error {
		if got[id] != nil || !id.Names(b) {
			t.Errorf("block %s came twice or is another", id)
		}
		got[id] = b
		return nil
	})
	return got, err
}

// TestFetch gets blocks from holders of which one lies, one breaks off, one has
// only some, and one is not there.
func TestFetch(t *testing.T) {
	blocks, ids := someBlocks(60, 50000)
	a := startNode(t)
	liar := startNode(t, bootstrap(a), serving(&source{hook: func(wire.PeerID, wire.CID) ([]byte, error, bool) { return []byte("lie"), nil, true }}))
	broken := &source{blocks: blocks}
	broken.hook = func(wire.PeerID, wire.CID) ([]byte, error, bool) {
		broken.mu.Lock()
		defer broken.mu.Unlock()
		if broken.served >= 5 {
			panic("the disk is gone")
		}
		return nil, nil, false
	}
	some := map[wire.CID][]byte{}
	for _, id := range ids[:20] {
		some[id] = blocks[id]
	}
	breaking, partial := startNode(t, bootstrap(a), serving(broken)), startNode(t, bootstrap(a), serving(&source{blocks: some}))
	whole := &source{blocks: blocks}
	good := startNode(t, bootstrap(a), serving(whole))
	gone := startNode(t, bootstrap(a))
	waitPeers(t, 5, a)
	gone.stop()
	got, err := fetchAll(t, a, append(slices.Clone(ids), ids[3]), liar, breaking, partial, gone, good)
	if err != nil || len(got) != len(ids) {
		t.Fatalf("%d of %d blocks, %v", len(got), len(ids), err)
	}
	if whole.served < 60-20-5 {
		t.Errorf("the good holder gave %d", whole.served)
	}
	got, err = fetchAll(t, a, ids, liar, partial, gone)
	var fe *FetchError
	if !errors.As(err, &fe) || len(fe.Missing) != 40 || len(got) != 20 {
		t.Fatalf("%d blocks and %v", len(got), err)
	}
	if !errors.Is(fe.Holders[liar.ID()], ErrWrongBlock) || !errors.Is(fe.Holders[partial.ID()], fs.ErrNotExist) || !errors.Is(fe.Holders[gone.ID()], ErrUnreachable) {
		t.Errorf("holders: %v", fe.Holders)
	}
}

// TestReveal: a source that says "not yet" is a typed error, and gives later.
func TestReveal(t *testing.T) {
	blocks, ids := someBlocks(3, 1000)
	var mu sync.Mutex
	shown := map[wire.PeerID]bool{}
	b := startNode(t, serving(&source{blocks: blocks, hook: func(p wire.PeerID, _ wire.CID) ([]byte, error, bool) {
		mu.Lock()
		defer mu.Unlock()
		return nil, fs.ErrPermission, !shown[p]
	}}))
	a := startNode(t, bootstrap(b))
	waitPeers(t, 1, a)
	if _, err := fetchAll(t, a, ids, b); !errors.Is(err, fs.ErrPermission) {
		t.Fatalf("before the header: %v", err)
	}
	mu.Lock()
	shown[a.ID()] = true
	mu.Unlock()
	if got, err := fetchAll(t, a, ids, b); err != nil || len(got) != 3 {
		t.Fatalf("after the header: %v", err)
	}
	stop := errors.New("enough")
	if err := a.Fetch(t.Context(), ids, []wire.PeerID{b.ID()}, func(wire.CID, []byte) error { return stop }); err != stop {
		t.Errorf("error of got: %v", err)
	}
	if err := a.Fetch(t.Context(), ids, nil, nil); err == nil {
		t.Error("blocks from nobody")
	}
	if err := a.Fetch(t.Context(), nil, nil, nil); err != nil {
		t.Errorf("no blocks: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := a.Fetch(ctx, ids, []wire.PeerID{b.ID()}, func(wire.CID, []byte) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestSlowHolder: a holder that never answers does not keep the others' blocks.
func TestSlowHolder(t *testing.T) {
	blocks, ids := someBlocks(12, 1000)
	stuck := make(chan struct{})
	slow := startNode(t, serving(&source{hook: func(wire.PeerID, wire.CID) ([]byte, error, bool) { <-stuck; return nil, fs.ErrNotExist, true }}))
	t.Cleanup(func() { close(stuck) }) // before slow's own cleanup
	fast := startNode(t, serving(&source{blocks: blocks}))
	a := startNode(t, bootstrap(slow, fast))
	waitPeers(t, 2, a)
	begin := time.Now()
	got, err := fetchAll(t, a, ids, slow, fast)
	if err != nil || len(got) != len(ids) {
		t.Fatalf("%d blocks, %v", len(got), err)
	}
	if d := time.Since(begin); d > 8*time.Second {
		t.Errorf("it took %v", d)
	}
}

// TestFetchState plays random holders against the pure state of a Fetch.
func TestFetchState(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	for game := range 500 {
		_, ids := someBlocks(1+rng.IntN(30), 4)
		var ps []wire.PeerID
		for i := range rng.IntN(5) {
			ps = append(ps, wire.PeerID(wire.Sum([]byte{byte(i)})))
		}
		f := newFetch(ids, ps, wire.PeerID{})
		has := map[*holder]map[wire.CID]bool{}
		can := map[wire.CID]bool{} // some holder that never breaks off has it
		for _, h := range f.holders {
			has[h] = map[wire.CID]bool{}
			for _, id := range ids {
				if rng.IntN(2) == 0 {
					has[h][id] = true
				}
			}
		}
		steady := func(h *holder) bool { return h.peer[0]&1 == 0 }
		for h, m := range has {
			for id := range m {
				can[id] = can[id] || steady(h)
			}
		}
		got := map[wire.CID]int{}
		now := time.Unix(0, 0)
		steps := 0
		for f.assign(now); !f.done(); f.assign(now) {
			if steps++; steps > 5000 {
				t.Fatalf("game %d does not end", game)
			}
			h := f.holders[rng.IntN(len(f.holders))]
			if now = now.Add(time.Second); rng.IntN(4) == 0 {
				f.hurry(now)
			}
			if h.gone {
				continue
			}
			if !steady(h) && rng.IntN(10) == 0 {
				f.take(fetchEvent{from: h, gone: true, err: io.ErrUnexpectedEOF})
				continue
			}
			if len(h.work) == 0 {
				continue
			}
			ev := fetchEvent{from: h, id: <-h.work}
			if ev.b = []byte{1}; !has[h][ev.id] {
				ev.b, ev.err = nil, fs.ErrNotExist
			}
			if id, b := f.take(ev); b != nil {
				got[id]++
			}
		}
		for _, id := range ids {
			if got[id] > 1 || can[id] && got[id] != 1 {
				t.Fatalf("game %d: block came %d times, could come: %v", game, got[id], can[id])
			}
		}
		if (f.err() == nil) != (len(got) == len(ids)) {
			t.Fatalf("game %d: %d of %d blocks and %v", game, len(got), len(ids), f.err())
		}
	}
}

// TestAbuse sends what no honest peer sends on every protocol: the stream is
// reset within the stream timeout, memory stays bounded, and others are served.
func TestAbuse(t *testing.T) {
	blocks, ids := someBlocks(2, 1000)
	quick := func(c *Config) { c.StreamTimeout = 400 * time.Millisecond }
	a := startNode(t, quick, serving(&source{blocks: blocks}), func(c *Config) {
		c.Pull = func(_ wire.PeerID, b []byte) ([]byte, error) { return b, nil }
	})
	a.Handle(testProto, 1<<20, func(wire.PeerID, []byte) {})
	claim := func(n uint32, body ...byte) []byte { return append(binary.BigEndian.AppendUint32(nil, n), body...) }
	// Those that close the stream may not have to wait for the time-out.
	for name, frame := range map[string][]byte{
		"oversize":      claim(1<<31, 1, 2, 3),
		"just oversize": claim(4<<20+2, 1),
		"truncated":     claim(10, 1, 2, 3),
		"half a length": {0, 0},
		"garbage":       blockOf(99, 5000),
		"slow":          claim(200, 1),
		"silence":       {},
		"empty":         claim(0),
		"not cids":      claim(36, make([]byte, 36)...),
	} {
		for _, proto := range []string{ProtoBlocks, ProtoPull, testProto} {
			if proto == testProto && (name == "silence" || name == "empty") || proto == ProtoBlocks && name == "silence" || proto != ProtoBlocks && name == "not cids" || proto == ProtoPull && name == "empty" {
				continue // that is a kept stream, or a good message
			}
			h := strangerHost(t) // a new one each time: the old one is soon kept out
			if err := dialFrom(t, h, a); err != nil {
				t.Fatal(err)
			}
			s, err := h.NewStream(t.Context(), a.host.ID(), protocol.ID(proto))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Write(frame); err != nil && name != "garbage" {
				t.Logf("%s on %s: write: %v", name, proto, err)
			}
			if name == "truncated" {
				s.CloseWrite()
			}
			s.SetReadDeadline(time.Now().Add(15 * time.Second))
			_, err = io.ReadAll(s)
			var ne interface{ Timeout() bool }
			if err == nil || errors.As(err, &ne) && ne.Timeout() {
				t.Errorf("%s on %s: stream was not reset: %v", name, proto, err)
			}
			h.Close()
		}
	}
	b := startNode(t, bootstrap(a))
	if got, err := fetchAll(t, b, ids, a); err != nil || len(got) != 2 {
		t.Errorf("after the abuse: %v", err)
	}
}

// TestAbuseKeptOut: who breaks the protocol again and again is disconnected.
func TestAbuseKeptOut(t *testing.T) {
	a := startNode(t)
	h := strangerHost(t)
	if err := dialFrom(t, h, a); err != nil {
		t.Fatal(err)
	}
	eventually(t, "disconnected", func() bool {
		s, err := h.NewStream(network.WithNoDial(t.Context(), "test"), a.host.ID(), protocol.ID(ProtoBlocks))
		if err == nil {
			s.Write([]byte{0xff, 0xff, 0xff, 0xff})
			io.ReadAll(s)
		}
		return !a.Connected(idOf(t, h))
	})
	dialFrom(t, h, a)
	eventually(t, "kept out", func() bool { return !a.Connected(idOf(t, h)) })
	if !a.gate.banned(h.ID(), time.Now()) || a.gate.banned(h.ID(), time.Now().Add(time.Hour)) {
		t.Error("the ban has no end or no begin")
	}
}

// TestClaimsCostNothing opens many streams that claim megabytes and send none.
func TestClaimsCostNothing(t *testing.T) {
	a := startNode(t)
	a.Handle(testProto, MaxDirect, func(wire.PeerID, []byte) {})
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var streams []network.Stream
	for range 10 {
		h := strangerHost(t)
		if err := dialFrom(t, h, a); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			s, err := h.NewStream(t.Context(), a.host.ID(), protocol.ID(testProto))
			if err != nil {
				t.Fatal(err)
			}
			streams = append(streams, s)
		}
	}
	before := heap()
	for _, s := range streams {
		if _, err := s.Write(binary.BigEndian.AppendUint32(nil, MaxDirect)); err != nil {
			t.Fatal(err)
		}
	}
	var reserved int64
	eventually(t, "the claims are read", func() bool {
		err := a.host.Network().ResourceManager().ViewSystem(func(s network.ResourceScope) error {
			reserved = s.Stat().Memory
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return reserved >= int64(len(streams))*MaxDirect
	})
	if grown := int64(heap()) - int64(before); grown > 16<<20 {
		t.Errorf("%d claims of 4 MiB cost %d bytes", len(streams), grown)
	}
	for _, s := range streams {
		s.Reset()
	}
}

// TestThroughput moves 64 MiB and reports the rate; it fails only on errors.
func TestThroughput(t *testing.T) {
	blocks, ids := someBlocks(64, 1<<20)
	b := startNode(t, serving(&source{blocks: blocks}))
	a := startNode(t, bootstrap(b))
	waitPeers(t, 1, a)
	begin := time.Now()
	if got, err := fetchAll(t, a, ids, b); err != nil || len(got) != 64 {
		t.Fatal(err)
	}
	t.Logf("64 MiB in %v: %.0f MB/s", time.Since(begin).Round(time.Millisecond), 67.1/time.Since(begin).Seconds())
}
