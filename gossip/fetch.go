package gossip

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/apiary-net/hived/wire"
)

const (
	maxHolders = 16              // asked by one Fetch at a time
	slowAfter  = 3 * time.Second // a block asked so long ago is asked of an idle holder too
)

// FetchError says what a Fetch did not get, and why by holder. errors.Is finds
// the holders' errors: fs.ErrPermission (not yet), fs.ErrNotExist,
// ErrUnreachable, ErrBusy, ErrWrongBlock.
type FetchError struct {
	Missing []wire.CID
	Holders map[wire.PeerID]error // the last error of each holder that had one
}

func (e *FetchError) Error() string {
	s := fmt.Sprintf("%d blocks are missing", len(e.Missing))
	for p, err := range e.Holders {
		s += fmt.Sprintf("; %s: %v", p.Short(), err)
	}
	return s
}

// Unwrap returns the errors of the holders.
func (e *FetchError) Unwrap() []error {
	var out []error
	for _, err := range e.Holders {
		out = append(out, err)
	}
	return out
}

// Fetch gets the blocks ids from the holders in from, the likely ones first, and
// calls got once for every block, in any order and one at a time; the bytes are
// got's own and have their hash. It begins with as many holders as the blocks need
// and takes each block from whichever of them is free; what a holder refuses,
// breaks off or takes long for is asked of the others, ever more of them. The
// error is got's as it is, ctx's, or a *FetchError with what no holder gave:
// the caller may try those again later.
func (n *Node) Fetch(ctx context.Context, ids []wire.CID, from []wire.PeerID, got func(wire.CID, []byte) error) error {
	if len(ids) > maxFetch {
		return fmt.Errorf("fetch %d blocks, limit %d: %w", len(ids), maxFetch, ErrTooBig)
	}
	f := newFetch(ids, from, n.self)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	events := make(chan fetchEvent)
	for _, h := range f.holders {
		wg.Go(func() {
			err := guard(func() error { return n.fetchFrom(ctx, h, events) })
			select {
			case events <- fetchEvent{from: h, err: err, gone: true}:
			case <-ctx.Done():
			}
		})
	}
	tick := time.NewTicker(slowAfter / 3)
	defer tick.Stop()
	f.assign(time.Now())
	for !f.done() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("fetch blocks: %w", ctx.Err())
		case <-tick.C:
			f.hurry(time.Now())
		case ev := <-events:
			id, b := f.take(ev)
			if b != nil {
				if err := got(id, b); err != nil {
					return err
				}
			}
		}
		f.assign(time.Now())
	}
	return f.err()
}

// fetchEvent is one answer of a holder, or its end.
type fetchEvent struct {
	from *holder
	id   wire.CID
	b    []byte
	err  error
	gone bool
}

// holder is one source of a fetch; its fields belong to the Fetch call.
type holder struct {
	peer  wire.PeerID
	work  chan wire.CID          // never blocks: asked holds at most fetchWindow
	asked map[wire.CID]time.Time // asked of it and not answered
	no    map[wire.CID]bool      // it said that it does not give it
	gone  bool
	err   error
}

// fetch is the state of one Fetch, without the network.
type fetch struct {
	holders []*holder  // the likely ones first
	wide    int        // how many of those that are not gone are asked
	queue   []wire.CID // to be asked, in order
	open    map[wire.CID]bool
	order   []wire.CID
}

func newFetch(ids []wire.CID, from []wire.PeerID, self wire.PeerID) *fetch {
	f := &fetch{open: map[wire.CID]bool{}}
	for _, id := range ids {
		if !f.open[id] {
			f.open[id] = true
			f.order = append(f.order, id)
		}
	}
	f.queue = slices.Clone(f.order)
	f.wide = max(1, (len(f.order)+fetchWindow-1)/fetchWindow)
	seen := map[wire.PeerID]bool{self: true}
	for _, p := range from {
		if !seen[p] && len(f.holders) < maxHolders {
			seen[p] = true
			f.holders = append(f.holders, &holder{peer: p, work: make(chan wire.CID, fetchWindow), asked: map[wire.CID]time.Time{}, no: map[wire.CID]bool{}})
		}
	}
	return f
}

// asked returns the holders that are asked now, the least busy first.
func (f *fetch) asked() []*holder {
	var out []*holder
	for _, h := range f.holders {
		if !h.gone && len(out) < f.wide {
			out = append(out, h)
		}
	}
	slices.SortStableFunc(out, func(a, b *holder) int { return len(a.asked) - len(b.asked) })
	return out
}

// assign hands queued blocks to holders with room, the least busy first.
func (f *fetch) assign(now time.Time) {
	for {
		any := false
		for _, h := range f.asked() {
			if len(h.asked) >= fetchWindow {
				continue
			}
			i := slices.IndexFunc(f.queue, func(id wire.CID) bool { _, busy := h.asked[id]; return !h.no[id] && !busy })
			if i < 0 {
				continue
			}
			id := f.queue[i]
			f.queue = slices.Delete(f.queue, i, i+1)
			h.asked[id] = now
			h.work <- id
			any = true
			break
		}
		if !any {
			return
		}
	}
}

// take notes an event and returns the block if it is wanted.
func (f *fetch) take(ev fetchEvent) (wire.CID, []byte) {
	h := ev.from
	if ev.err != nil {
		h.err = ev.err
	}
	if ev.gone {
		h.gone = true
		for id := range h.asked {
			f.again(id, h)
		}
		clear(h.asked)
		return wire.CID{}, nil
	}
	delete(h.asked, ev.id)
	if ev.err != nil {
		h.no[ev.id] = true
		f.wide++ // so that somebody is asked who has not said no
		f.again(ev.id, h)
		return wire.CID{}, nil
	}
	if !f.open[ev.id] {
		return wire.CID{}, nil // it came from another holder first
	}
	delete(f.open, ev.id)
	f.queue = slices.DeleteFunc(f.queue, func(id wire.CID) bool { return id == ev.id })
	return ev.id, ev.b
}

// again queues a block that is open and that nobody is asked for.
func (f *fetch) again(id wire.CID, not *holder) {
	if !f.open[id] || slices.Contains(f.queue, id) {
		return
	}
	for _, h := range f.holders {
		if _, busy := h.asked[id]; busy && h != not {
			return
		}
	}
	f.queue = append(f.queue, id)
}

// hurry asks twice as many holders, and queues what is asked for long while some
// holder has nothing to do.
func (f *fetch) hurry(now time.Time) {
	f.wide = min(2*f.wide, maxHolders)
	if len(f.queue) > 0 {
		return
	}
	for _, h := range f.holders {
		if h.gone || len(h.asked) > 0 {
			continue
		}
		for _, o := range f.holders {
			for id, at := range o.asked {
				if now.Sub(at) > slowAfter && !h.no[id] && !slices.Contains(f.queue, id) && len(f.queue) < fetchWindow {
					f.queue = append(f.queue, id)
				}
			}
		}
	}
}

// done reports whether nothing is open, or nothing more can come.
func (f *fetch) done() bool {
	if len(f.open) == 0 {
		return true
	}
	for _, h := range f.holders {
		if h.gone {
			continue
		}
		if len(h.asked) > 0 || slices.ContainsFunc(f.queue, func(id wire.CID) bool { return !h.no[id] }) {
			return false
		}
	}
	return true
}

func (f *fetch) err() error {
	if len(f.open) == 0 {
		return nil
	}
	e := &FetchError{Holders: map[wire.PeerID]error{}}
	for _, id := range f.order {
		if f.open[id] {
			e.Missing = append(e.Missing, id)
		}
	}
	for _, h := range f.holders {
		if h.err != nil {
			e.Holders[h.peer] = h.err
		}
	}
	return e
}

// fetchFrom asks one holder for what comes in work until ctx ends; every answer
// becomes an event. It returns when the holder can no longer be used. Nothing is
// dialled before there is work.
func (n *Node) fetchFrom(ctx context.Context, h *holder, events chan<- fetchEvent) error {
	p, work := h.peer, h.work // the only fields that are not the Fetch call's own
	var first wire.CID
	select {
	case first = <-work:
	case <-ctx.Done():
		return ctx.Err()
	}
	s, err := n.openStream(ctx, p, ProtoBlocks)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(ctx, func() { s.Reset() })()
	defer cancel()
	defer s.Reset()
	expected := make(chan wire.CID, 2*fetchWindow)
	wg.Go(func() { n.writeWants(ctx, s, first, work, expected) })
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case id := <-expected:
			ev, err := n.readBlock(s, id)
			if errors.Is(err, errAbuse) || errors.Is(err, ErrWrongBlock) {
				n.gate.blame(toLibp2p(p), time.Now())
			}
			if err != nil {
				return fmt.Errorf("read block %s: %w", id, noEOF(err))
			}
			ev.from = h
			select {
			case events <- ev:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// writeWants asks for first and then for what comes in work, several at a time
// if they wait. On an error it resets the stream, which ends the reader.
func (n *Node) writeWants(ctx context.Context, s network.Stream, first wire.CID, work <-chan wire.CID, expected chan<- wire.CID) {
	batch := []wire.CID{first}
	for {
		for more := true; more && len(batch) < fetchWindow; {
			select {
			case id := <-work:
				batch = append(batch, id)
			default:
				more = false
			}
		}
		for _, id := range batch {
			expected <- id // has room for two windows; at most one is open
		}
		if err := writeFrame(s, encodeWant(batch), n.cfg.StreamTimeout); err != nil {
			s.Reset()
			return
		}
		select {
		case id := <-work:
			batch = append(batch[:0], id)
		case <-ctx.Done():
			return
		}
	}
}

// readBlock reads one answer. A refusal is in the event, an error ends the
// stream.
func (n *Node) readBlock(s network.Stream, id wire.CID) (fetchEvent, error) {
	b, release, err := readFrame(s, 1+wire.MaxBlock, n.cfg.StreamTimeout, n.cfg.StreamTimeout)
	if err != nil {
		return fetchEvent{}, err
	}
	defer release()
	if len(b) == 0 {
		return fetchEvent{}, fmt.Errorf("answer without a status: %w", errAbuse)
	}
	if b[0] != statusOK {
		err := statusError(b[0])
		if errors.Is(err, errAbuse) {
			return fetchEvent{}, err
		}
		return fetchEvent{id: id, err: err}, nil
	}
	if !id.Names(b[1:]) {
		return fetchEvent{}, ErrWrongBlock
	}
	return fetchEvent{id: id, b: b[1:]}, nil
}
