package ledger

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/apiary-net/hived/wire"
)

// party is one peer of a small net of witnesses: what is said to it waits in its
// queue until it is pumped.
type party struct {
	*Witness
	key   wire.Key
	kv    *memKV
	net   map[wire.PeerID]*party
	now   time.Time
	shown *Log          // what it answers from, where it is not the own log: a liar
	deaf  bool          // for questions
	asked int           // for proofs
	hang  chan struct{} // where it is not nil a question waits for its asker's patience, which is told here
	said  []wire.Envelope
}

// newParty opens a peer of net on kv.
func newParty(t *testing.T, net map[wire.PeerID]*party, i byte, kv *memKV) *party {
	t.Helper()
	p := &party{key: testKey(i), kv: kv, net: net, now: time.Unix(1700000000, 0)}
	cfg := Config{KV: kv, Key: p.key, Run: testRun, Now: func() time.Time { return p.now }}
	l, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h, err := OpenHeads(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p.Witness = NewWitness(h, l, p)
	net[p.key.Peer()] = p
	return p
}

func (p *party) Member(id wire.PeerID) bool { return p.net[id] != nil }

func (p *party) source(of wire.PeerID) (*Log, error) {
	q := p.net[of]
	switch {
	case q == nil || q.deaf:
		return nil, errors.New("no answer")
	case q.shown != nil:
		return q.shown, nil
	}
	return q.log, nil
}

func (p *party) Proof(ctx context.Context, of wire.PeerID, older, newer uint64) ([]wire.Digest, error) {
	if q := p.net[of]; q != nil {
		q.asked++
		if q.hang != nil {
			q.hang <- struct{}{}
			<-ctx.Done()
			q.hang <- struct{}{}
		}
	}
	l, err := p.source(of)
	if err != nil {
		return nil, err
	}
	return l.ProveTree(older, newer)
}

func (p *party) Entries(_ context.Context, of wire.PeerID) (wire.Head, [][]byte, error) {
	l, err := p.source(of)
	if err != nil {
		return wire.Head{}, nil, err
	}
	var all [][]byte
	err = l.Read(0, 1<<62, func(raw []byte, _ wire.EntryBody) error {
		all = append(all, bytes.Clone(raw))
		return nil
	})
	return l.Head(), all, err
}

func (p *party) Send(_ context.Context, to wire.PeerID, b []byte) error {
	e, err := wire.Open(b)
	if err != nil {
		return err
	}
	p.said = append(p.said, e)
	if q := p.net[to]; q != nil {
		q.Take(e)
	}
	return nil
}

func (p *party) Announce(ctx context.Context, b []byte) error {
	var errs []error
	for id := range p.net {
		errs = append(errs, p.Send(ctx, id, b))
	}
	return errors.Join(errs...)
}

func (p *party) AnnounceHead(ctx context.Context, b []byte) error { return p.Announce(ctx, b) }

// pump handles what waits and returns the last error.
func (p *party) pump(t *testing.T) (err error) {
	t.Helper()
	for {
		select {
		case e := <-p.in:
			err = errors.Join(err, p.handle(t.Context(), e))
		case <-p.found:
			p.tellAll(t.Context(), false)
		default:
			e, ok := p.next()
			if !ok {
				return err
			}
			err = errors.Join(err, p.handle(t.Context(), e))
		}
	}
}

// kinds counts the entries of the own log by kind.
func (p *party) kinds(t *testing.T) map[wire.EntryKind]int {
	t.Helper()
	out := map[wire.EntryKind]int{}
	err := p.log.Read(0, 1<<62, func(_ []byte, e wire.EntryBody) error {
		out[e.Kind]++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (p *party) append(t *testing.T, i int) {
	t.Helper()
	if _, err := p.Append(t.Context(), []wire.EntryBody{body(i)}); err != nil {
		t.Fatal(err)
	}
}

// show gives a head of somebody's log to p.
func (p *party) show(t *testing.T, owner wire.Key, h wire.Head) error {
	t.Helper()
	p.Take(wire.Seal(owner, wire.KindHead, testRun, h.Size, &h))
	return p.pump(t)
}

// TestCosignaturesComeBack follows a log: its owner keeps the newest cosignature of
// each witness, and the witness says in its own log what it saw, without an end.
func TestCosignaturesComeBack(t *testing.T) {
	net := map[wire.PeerID]*party{}
	a, b := newParty(t, net, 1, newMemKV()), newParty(t, net, 2, newMemKV())
	settle := func() {
		t.Helper()
		for range 4 {
			if err := errors.Join(b.pump(t), a.pump(t)); err != nil {
				t.Fatal(err)
			}
		}
	}
	sizeAt := func(h *Heads) uint64 {
		t.Helper()
		c, err := h.Cosigned()
		if err != nil || len(c) != 1 || c[0].Witness != b.key.Peer() {
			t.Fatalf("cosigned by %+v, %v", c, err)
		}
		return c[0].Head.Size
	}
	a.append(t, 1)
	settle()
	if n := sizeAt(a.Heads); n != 1 {
		t.Errorf("size %d is cosigned", n)
	}
	a.append(t, 2)
	settle()
	if n := sizeAt(a.Heads); n != 1 {
		t.Errorf("size %d is cosigned at once after the first", n)
	}
	b.now = b.now.Add(cosignEvery)
	a.append(t, 3)
	settle()
	if n := sizeAt(openHeads(t, a.kv, a.key)); n != 3 {
		t.Errorf("size %d is cosigned later and after a start", n)
	}
	b.append(t, 4)
	settle()
	var seen []wire.Seen
	err := b.log.Read(0, 9, func(_ []byte, e wire.EntryBody) error {
		var l wire.SeenList
		if e.Kind != wire.EntryWitness {
			return nil
		}
		err := wire.Unmarshal(e.Extra, &l, wire.MaxEntry)
		seen = append(seen, l.Seen...)
		return err
	})
	if err != nil || len(seen) != 1 || seen[0].Peer != a.key.Peer() || seen[0].Size != 3 || seen[0].Root != a.log.Head().Root {
		t.Errorf("the witness wrote %+v, %v", seen, err)
	}
	if n := a.log.Head().Size; n != 3 {
		t.Errorf("cosignatures made the owner's log %d entries long", n)
	}
	old, err := b.Cosign(a.key.Peer(), a.log.Head())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.OfferCosigned(a.log, a.key.Peer(), old); err == nil {
		t.Error("a cosignature of another witness is taken")
	}
}

// forked returns a peer whose log went on in two ways from size entries, the other
// of them longer by more.
func forked(t *testing.T, net map[wire.PeerID]*party, size, more int) (*party, *Log) {
	t.Helper()
	kv := newMemKV()
	a := newParty(t, net, 1, kv)
	for i := range size {
		a.append(t, i)
	}
	other := open(t, kv.clone(), a.key)
	a.append(t, 1000)
	grow(t, other, 1+more, rand.New(rand.NewPCG(1, uint64(size))))
	return a, other
}

// TestForksAreTold shows both ways of a log to one witness: evidence is kept, stands
// in its log, and reaches others, who write it down and pass nothing on.
func TestForksAreTold(t *testing.T) {
	for what, c := range map[string]struct {
		size, more int
		kind       wire.EvidenceKind
	}{"one size": {3, 0, wire.EvidenceHeads}, "longer": {4, 3, wire.EvidenceFork}, "longer by a power of two": {7, 8, wire.EvidenceFork}} {
		t.Run(what, func(t *testing.T) {
			net := map[wire.PeerID]*party{}
			a, other := forked(t, net, c.size, c.more)
			b, d := newParty(t, net, 2, newMemKV()), newParty(t, net, 3, newMemKV())
			if err := b.show(t, a.key, a.log.Head()); err != nil {
				t.Fatal(err)
			}
			a.shown = other
			if err := b.show(t, a.key, other.Head()); !errors.Is(err, ErrEquivocation) {
				t.Fatalf("the other way: %v", err)
			}
			for range 2 { // once more changes nothing
				_ = b.show(t, a.key, other.Head())
				_ = d.pump(t)
			}
			for name, p := range map[string]*party{"finder": b, "other": d} {
				kept, err := openHeads(t, p.kv, p.key).Evidence()
				if err != nil || len(kept) != 1 || kept[0].Kind != c.kind {
					t.Fatalf("the %s keeps %d, %v", name, len(kept), err)
				}
				if who, run, err := CheckEvidence(kept[0]); who != a.key.Peer() || run != testRun || err != nil {
					t.Errorf("the %s convicts %s: %v", name, who, err)
				}
				if k := p.kinds(t); k[wire.EntryEvidence] != 1 {
					t.Errorf("the %s has entries %v", name, k)
				}
			}
			told := 0
			for _, e := range d.said {
				if e.Kind == wire.KindEvidence {
					told++
				}
			}
			if told != 0 {
				t.Errorf("what was heard is passed on %d times", told)
			}
			before := len(b.said)
			b.now = b.now.Add(time.Hour)
			b.cosign(t.Context(), a.key.Peer(), a.log.Head(), cosignEvery)
			if len(b.said) != before {
				t.Error("a convicted peer's log is cosigned")
			}
		})
	}
}

// TestSuspicionIsNoEvidence: a proof that fails convicts nobody while the log is
// withheld.
func TestSuspicionIsNoEvidence(t *testing.T) {
	net := map[wire.PeerID]*party{}
	a, other := forked(t, net, 4, 3)
	b := newParty(t, net, 2, newMemKV())
	if err := b.show(t, a.key, a.log.Head()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Offer(a.key.Peer(), other.Head(), nil); !errors.Is(err, ErrInconsistent) {
		t.Fatalf("without a proof: %v", err)
	}
	a.deaf = true
	if err := b.show(t, a.key, other.Head()); err != nil {
		t.Errorf("who does not answer is asked again later: %v", err)
	}
	if kept, err := b.Evidence(); err != nil || len(kept) != 0 || b.Convicted(a.key.Peer()) {
		t.Errorf("%d pieces of evidence, %v", len(kept), err)
	}
	if h, _ := b.Best(a.key.Peer()); h.Size != a.log.Head().Size {
		t.Errorf("size %d is believed", h.Size)
	}
}

// TestEvidenceSurvivesACrash finds evidence and dies before it stands in the log.
func TestEvidenceSurvivesACrash(t *testing.T) {
	net := map[wire.PeerID]*party{}
	a, other := forked(t, net, 3, 0)
	kv := newMemKV()
	b, d := newParty(t, net, 2, kv), newParty(t, net, 3, newMemKV())
	_, err := b.Offer(a.key.Peer(), a.log.Head(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = b.Offer(a.key.Peer(), other.Head(), nil); !errors.Is(err, ErrEquivocation) {
		t.Fatal(err)
	}
	if k := b.kinds(t); k[wire.EntryEvidence] != 0 {
		t.Fatalf("entries %v", k)
	}
	b = newParty(t, net, 2, kv)
	b.tellAll(t.Context(), true) // as Run begins
	b = newParty(t, net, 2, kv)
	b.tellAll(t.Context(), true)
	if k := b.kinds(t); k[wire.EntryEvidence] != 1 {
		t.Errorf("entries %v after two starts, want one of evidence", k)
	}
	_ = d.pump(t)
	if !d.Convicted(a.key.Peer()) {
		t.Error("nobody was told after the start")
	}
}

// TestFetchedLogsAreCompared fetches the other history of a log, as an export does.
func TestFetchedLogsAreCompared(t *testing.T) {
	net := map[wire.PeerID]*party{}
	a, other := forked(t, net, 4, 3)
	b := newParty(t, net, 2, newMemKV())
	if err := b.show(t, a.key, a.log.Head()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); b.Run(ctx) }()
	if err := b.Compare(a.key.Peer(), a.log.Head(), leaves(t, a.log)); err != nil {
		t.Errorf("the history that was seen: %v", err)
	}
	if err := b.Compare(a.key.Peer(), other.Head(), leaves(t, other)); !errors.Is(err, ErrEquivocation) {
		t.Errorf("the other: %v", err)
	}
	for b.log.Head().Size == 0 {
		runtime.Gosched()
	}
	cancel()
	<-done
	if k := b.kinds(t); k[wire.EntryEvidence] != 1 {
		t.Errorf("entries %v", k)
	}
}

// TestOldCopyStops restores a peer from a copy: the first witness that saw more tells
// it, and it signs nothing more.
func TestOldCopyStops(t *testing.T) {
	net := map[wire.PeerID]*party{}
	kv := newMemKV()
	a := newParty(t, net, 1, kv)
	a.append(t, 0)
	copied := kv.clone()
	for i := range 4 {
		a.append(t, 1+i)
	}
	b := newParty(t, net, 2, newMemKV())
	if err := b.show(t, a.key, a.log.Head()); err != nil {
		t.Fatal(err)
	}
	a.deaf = true
	a.append(t, 5) // and was silent before it died
	_ = b.pump(t)
	a = newParty(t, net, 1, copied)
	b.now = b.now.Add(behindEvery) // the last cosignature was a moment ago
	a.append(t, 77)                // the second history begins
	_ = b.pump(t)
	if err := a.pump(t); !errors.Is(err, ErrBehind) {
		t.Fatalf("the restored peer hears %v", err)
	}
	if _, err := a.Append(t.Context(), []wire.EntryBody{body(78)}); !errors.Is(err, ErrStopped) || !errors.Is(err, ErrBehind) {
		t.Errorf("it goes on: %v", err)
	}
}

// TestHeardEvidenceIsChecked gives evidence that nobody should keep.
func TestHeardEvidenceIsChecked(t *testing.T) {
	net := map[wire.PeerID]*party{}
	a, other := forked(t, net, 4, 3)
	finder := openHeads(t, newMemKV(), testKey(8))
	_, err := finder.Offer(a.key.Peer(), a.log.Head(), nil)
	entries := leaves(t, other)
	var found *EvidenceError
	if err = errors.Join(err, finder.OfferLog(a.key.Peer(), other.Head(), entries)); !errors.As(err, &found) {
		t.Fatal(err)
	}
	good := found.Evidence
	var fork wire.Fork
	if err := wire.Unmarshal(good.B, &fork, wire.MaxEvidence); err != nil {
		t.Fatal(err)
	}
	with := func(change func(f *wire.Fork)) wire.Evidence {
		f := wire.Fork{Note: fork.Note, Old: fork.Old, Proof: append([]wire.Digest{}, fork.Proof...)}
		change(&f)
		return wire.Evidence{V: 1, Kind: good.Kind, A: good.A, B: wire.Marshal(f)}
	}
	for what, e := range map[string]wire.Evidence{
		"the first root":  with(func(f *wire.Fork) { f.Old = a.log.Head().Root }),
		"another root":    with(func(f *wire.Fork) { f.Old[0]++ }),
		"another proof":   with(func(f *wire.Fork) { f.Proof[0][0]++ }),
		"a shorter proof": with(func(f *wire.Fork) { f.Proof = f.Proof[1:] }),
		"no later head":   with(func(f *wire.Fork) { f.Note = good.A }),
		"rubbish":         {V: 1, Kind: good.Kind, A: good.A, B: append(bytes.Clone(good.B), 0)},
		"another kind":    {V: 1, Kind: wire.EvidenceHeads, A: good.A, B: good.B},
	} {
		if err := finder.OfferEvidence(e); err == nil || errors.Is(err, ErrEquivocation) {
			t.Errorf("%s: %v", what, err)
		}
	}
	b := newParty(t, net, 2, newMemKV())
	say := func() {
		t.Helper()
		b.Take(wire.Seal(testKey(8), wire.KindEvidence, testRun, 0, &good))
		_ = b.pump(t)
	}
	delete(net, a.key.Peer())
	if say(); b.Convicted(a.key.Peer()) {
		t.Error("evidence against a stranger is kept")
	}
	net[a.key.Peer()] = a
	if say(); !b.Convicted(a.key.Peer()) {
		t.Error("evidence against a member is not kept")
	}
	if err := finder.OfferLog(a.key.Peer(), other.Head(), entries[:3]); err == nil || errors.Is(err, ErrEquivocation) || strings.Contains(err.Error(), "%!") {
		t.Errorf("a log that is not the head's: %v", err)
	}
}
