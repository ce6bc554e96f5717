package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/apiary-net/hived/wire"
)

// Bounds of a witness. All are deliberately low: a later head proves all before it.
const (
	witnesses   = 16               // of a log in a large swarm
	maxQueue    = 256              // cosignatures and evidence that wait to be checked; more are dropped
	maxAsk      = 5 * time.Second  // for an answer of one peer
	minRest     = 10 * time.Second // of a peer that gave no answer, doubled each time up to
	maxRest     = 5 * time.Minute
	cosignEvery = 10 * time.Second // between two cosignatures of one log
	behindEvery = time.Second      // between two that show an owner a head that it lost
)

const witnessDomain = "hived/witness/v1\n"

// IsWitness reports whether self follows p's log: in a swarm of more than direct
// members the sixteen of them with the least tickets, where a proof from everybody to
// everybody would grow with the square of the members.
func IsWitness(self, p wire.PeerID, members []wire.PeerID, direct int) bool {
	if len(members) <= direct {
		return true
	}
	mine, better := wire.Ticket(witnessDomain, p[:], self), 0
	for _, q := range members {
		if q != p && q != self && wire.Ticket(witnessDomain, p[:], q).Compare(mine) < 0 {
			better++
		}
	}
	return better < witnesses
}

// WitnessesOf returns the witnesses of p's log among the members; nil is everybody.
func WitnessesOf(p wire.PeerID, members []wire.PeerID, direct int) []wire.PeerID {
	if len(members) <= direct {
		return nil
	}
	out := make([]wire.PeerID, 0, witnesses)
	for _, q := range wire.Draw(witnessDomain, p[:], members) {
		if q != p && len(out) < witnesses {
			out = append(out, q)
		}
	}
	return out
}

// Witness follows the logs of others and has the own one followed. It cosigns what
// grew out of what it saw, keeps what others cosigned, and tells of logs that were
// forked. Take, Compare and Append may be called concurrently; Run owns
// all else. Heads, whose owners have to be asked, wait for one another and for
// nothing else: who never answers delays no evidence.
type Witness struct {
	*Heads
	log   *Log
	peers Peers
	in    chan wire.Envelope // cosignatures and evidence, which need no answer
	came  chan struct{}      // a head waits
	found chan struct{}      // evidence is kept that nobody was told of

	last   map[wire.PeerID]time.Time // cosignature of each log; follows's
	silent map[wire.PeerID]rest      // who gave no answer of use; follows's

	mu    sync.Mutex
	seen  map[wire.PeerID]wire.Seen     // cosigned and not yet in the own log; guarded by mu
	heads map[wire.PeerID]wire.Envelope // the last of each peer, while it waits; guarded by mu
	order []wire.PeerID                 // of heads, as they came; guarded by mu
}

// rest is how long a peer that gave no answer is not asked again.
type rest struct {
	until time.Time
	last  time.Duration
}

// NewWitness returns a witness that keeps what it finds in heads, and writes of it
// into the own log.
func NewWitness(heads *Heads, log *Log, peers Peers) *Witness {
	return &Witness{Heads: heads, log: log, peers: peers, in: make(chan wire.Envelope, maxQueue), came: make(chan struct{}, 1), found: make(chan struct{}, 1),
		last: map[wire.PeerID]time.Time{}, silent: map[wire.PeerID]rest{}, seen: map[wire.PeerID]wire.Seen{}, heads: map[wire.PeerID]wire.Envelope{}}
}

// Concerns reports whether a kind of statement is for a Witness.
func Concerns(k wire.Kind) bool {
	return k == wire.KindHead || k == wire.KindCosign || k == wire.KindEvidence
}

// Take queues a statement of a kind that Concerns a witness. Heads are taken of members
// only: who may become one is anybody where admission is open. One of each waits, the
// last that came. Of other statements those are dropped that come while the queue is full.
func (w *Witness) Take(e wire.Envelope) {
	if e.Kind == wire.KindHead {
		w.takeHead(e)
		return
	}
	select {
	case w.in <- e:
	default:
	}
}

func (w *Witness) takeHead(e wire.Envelope) {
	if !w.peers.Member(e.Sender) {
		return
	}
	w.mu.Lock()
	_, waits := w.heads[e.Sender]
	if !waits && len(w.order) < maxHeads {
		w.order = append(w.order, e.Sender)
		waits = true
	}
	if waits {
		w.heads[e.Sender] = e
	}
	w.mu.Unlock()
	signal(w.came)
}

// signal says that there is something to do, once.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// next takes the head that waits longest of those whose owners may be asked, or need
// not be.
func (w *Witness) next() (e wire.Envelope, ok bool) {
	now := w.cfg.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, p := range w.order {
		e = w.heads[p]
		if best, _ := w.Best(p); best.Size < e.Round && now.Before(w.silent[p].until) {
			continue
		}
		delete(w.heads, p)
		w.order = slices.Delete(w.order, i, i+1)
		return e, true
	}
	return wire.Envelope{}, false
}

// Compare is OfferLog for somebody who fetched a log for another purpose: what it finds
// is told as well.
func (w *Witness) Compare(p wire.PeerID, head wire.Head, entries [][]byte) error {
	err := w.OfferLog(p, head, entries)
	if errors.Is(err, ErrEquivocation) {
		signal(w.found)
	}
	return err
}

// Append writes entries into the own log, with what was cosigned since the last ones,
// and announces the new head.
func (w *Witness) Append(ctx context.Context, entries []wire.EntryBody) (wire.Head, error) {
	head, err := w.log.Append(ctx, append(w.sightings(), entries...))
	if err != nil {
		return head, err
	}
	b := wire.Seal(w.cfg.Key, wire.KindHead, w.cfg.Run, head.Size, &head).Bytes()
	w.attempt(ctx, time.Second, "head not announced", func(ctx context.Context) error { return w.peers.AnnounceHead(ctx, b) })
	return head, nil
}

// sightings returns the entry of what was cosigned, if anything was. Should it not
// be appended, a later cosignature of those logs is.
func (w *Witness) sightings() []wire.EntryBody {
	w.mu.Lock()
	defer w.mu.Unlock()
	var l wire.SeenList
	for p, s := range w.seen {
		if len(l.Seen) < wire.MaxSeen {
			l.Seen = append(l.Seen, s)
			delete(w.seen, p)
		}
	}
	if len(l.Seen) == 0 {
		return nil
	}
	return []wire.EntryBody{{Kind: wire.EntryWitness, Extra: wire.Marshal(l)}}
}

// Run checks statements until ctx ends.
func (w *Witness) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { w.follows(ctx) })
	defer wg.Wait()
	w.tellAll(ctx, true)
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-w.in:
			w.check(ctx, e)
		case <-w.found:
			w.tellAll(ctx, false)
		}
	}
}

// follows checks heads, and cosigns those that were too soon before.
func (w *Witness) follows(ctx context.Context) {
	tick := time.NewTicker(cosignEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.came:
		case <-tick.C:
			for p, h := range w.All() {
				if was, err := w.witnessed(p); err == nil && was.Size < h.Size {
					w.cosign(ctx, p, h, cosignEvery)
				}
			}
		}
		for e, ok := w.next(); ok && ctx.Err() == nil; e, ok = w.next() {
			w.check(ctx, e)
		}
	}
}

func (w *Witness) check(ctx context.Context, e wire.Envelope) {
	if err := w.handle(ctx, e); err != nil && ctx.Err() == nil {
		w.cfg.Logger.Warn("statement about a log refused", "of", e.Sender.Short(), "kind", e.Kind.String(), "err", err)
	}
}

func (w *Witness) handle(ctx context.Context, e wire.Envelope) error {
	if e.Sender == w.self || e.Run != w.cfg.Run {
		return nil
	}
	var err error
	switch e.Kind {
	case wire.KindHead:
		var h wire.Head
		if err = e.Decode(&h); err == nil && h.Size != e.Round {
			err = fmt.Errorf("head of size %d says that it is of %d", h.Size, e.Round)
		}
		if err == nil {
			err = w.follow(ctx, e.Sender, h)
		}
	case wire.KindCosign:
		var c wire.Cosigned
		if err = e.Decode(&c); err == nil {
			err = w.offerCosigned(e.Sender, c.Note)
		}
		if errors.Is(err, ErrBehind) || errors.Is(err, ErrEquivocation) {
			w.log.Stop(err) // else this key signs a second history
		}
	case wire.KindEvidence:
		err = w.hear(e)
	}
	if errors.Is(err, ErrEquivocation) {
		signal(w.found)
	}
	return err
}

// offerCosigned takes a cosignature of the own log. A member's is kept; what anybody
// else shows is a head that this key signed all the same.
func (w *Witness) offerCosigned(p wire.PeerID, note []byte) error {
	if w.peers.Member(p) {
		return w.OfferCosigned(w.log, p, note)
	}
	head, err := ParseHead(note, w.cfg.Run, w.self)
	if err != nil {
		return err
	}
	return w.OfferOwn(w.log, head)
}

// follow takes a head that p announced: a bigger one is believed only with a proof
// that the log extends what was seen of it before.
func (w *Witness) follow(ctx context.Context, p wire.PeerID, h wire.Head) error {
	best, known := w.Best(p)
	size, _, err := w.base(p)
	if err == nil && !known {
		err = w.makeRoom(w.peers.Member)
	}
	if err != nil {
		return err
	}
	var proof []wire.Digest
	if size > 0 && size < h.Size {
		actx, cancel := context.WithTimeout(ctx, maxAsk)
		defer cancel()
		if proof, err = w.peers.Proof(actx, p, size, h.Size); err != nil {
			w.cfg.Logger.Debug("no proof", "of", p.Short(), "err", err)
			w.noAnswer(p)
			return nil // it is asked for again with the next head
		}
	}
	fresh, err := w.Offer(p, h, proof)
	if fresh {
		delete(w.silent, p)
	}
	switch {
	case errors.Is(err, ErrInconsistent):
		return w.examine(ctx, p, err)
	case fresh:
		w.cosign(ctx, p, h, cosignEvery)
	case err == nil && known && h.Size < best.Size: // its owner may have lost the rest, and signs other entries
		w.cosign(ctx, p, best, behindEvery)
	}
	return err
}

// noAnswer lets a peer that answered nothing, or nothing of use, rest before it is asked
// again.
func (w *Witness) noAnswer(p wire.PeerID) {
	r := w.silent[p]
	r.last = min(max(minRest, 2*r.last), maxRest)
	r.until = w.cfg.Now().Add(r.last)
	w.silent[p] = r
}

// examine looks for evidence where a proof failed, which is only suspicion: the whole
// log tells.
func (w *Witness) examine(ctx context.Context, p wire.PeerID, why error) error {
	actx, cancel := context.WithTimeout(ctx, 2*maxAsk)
	defer cancel()
	head, entries, err := w.peers.Entries(actx, p)
	if err == nil {
		err = w.OfferLog(p, head, entries)
	}
	switch {
	case errors.Is(err, ErrEquivocation):
		return err
	case err != nil:
		why = errors.Join(why, err)
	}
	w.noAnswer(p)
	return why
}

// cosign sends a cosignature of p's newest head to its owner, unless one was sent less
// than limit ago.
func (w *Witness) cosign(ctx context.Context, p wire.PeerID, head wire.Head, limit time.Duration) {
	if w.Convicted(p) {
		return
	}
	now := w.cfg.Now()
	if at, ok := w.last[p]; ok && now.Sub(at) < limit {
		return
	}
	b, err := w.Cosign(p, head)
	if err != nil {
		w.cfg.Logger.Warn("head not cosigned", "of", p.Short(), "err", err)
		return
	}
	w.last[p] = now
	w.mu.Lock()
	if len(w.seen) < maxHeads {
		w.seen[p] = wire.Seen{Peer: p, Size: head.Size, Root: head.Root}
	}
	w.mu.Unlock()
	sealed := wire.Seal(w.cfg.Key, wire.KindCosign, w.cfg.Run, head.Size, &wire.Cosigned{Note: b}).Bytes()
	w.attempt(ctx, time.Second, "cosignature not sent", func(ctx context.Context) error { return w.peers.Send(ctx, p, sealed) })
}
