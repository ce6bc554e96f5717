package gossip

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	ma "github.com/multiformats/go-multiaddr"

	"github.com/apiary-net/hived/wire"
)

// Bounds of the address book.
const (
	maxBook      = 512
	maxAddrs     = 8
	maxAddrBytes = 256
	redialMin    = 500 * time.Millisecond
	redialIdle   = time.Minute // longest wait while nobody is missed
)

// BootStatus is how one bootstrap address is doing.
type BootStatus struct {
	Addr      string
	Connected bool
	Tries     int    // since it was connected last
	LastErr   string // of the last try; empty when connected or not tried
	NextTry   time.Time
}

// contact is what is known of one peer. All fields are guarded by book.mu.
type contact struct {
	id      wire.PeerID
	addrs   []ma.Multiaddr
	boot    []string          // as configured; none for a peer that was only seen
	errs    map[string]string // last error by address, of boot contacts
	seen    time.Time         // last connected or told of
	up      bool
	since   time.Time // it is up
	dialing bool
	tries   int
	next    time.Time
}

// book knows where peers are and when to dial whom. It knows no network.
type book struct {
	self      wire.PeerID
	degree    int
	redialMax time.Duration
	order     []wire.PeerID // boot contacts in configured order

	mu    sync.Mutex
	peers map[wire.PeerID]*contact
}

func newBook(cfg Config) *book {
	b := &book{self: cfg.Key.Peer(), degree: cfg.Degree, redialMax: cfg.RedialMax, peers: map[wire.PeerID]*contact{}}
	for _, s := range cfg.Bootstrap {
		id, a, err := parseAddr(s)
		if err != nil || id == b.self {
			continue // Validate has refused the first; nobody dials itself
		}
		c := b.peers[id]
		if c == nil {
			c = &contact{id: id, errs: map[string]string{}}
			b.peers[id] = c
			b.order = append(b.order, id)
		}
		c.addrs, c.boot = append(c.addrs, a), append(c.boot, s)
	}
	return b
}

// learn notes addresses of a peer; new ones come first and the oldest fall out.
// The configured addresses of a bootstrap peer always stay.
func (b *book) learn(id wire.PeerID, addrs []ma.Multiaddr, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if id == b.self || id.IsZero() {
		return
	}
	c := b.peers[id]
	if c == nil {
		if len(addrs) == 0 {
			return
		}
		if len(b.peers) >= maxBook && !b.forgetOne() {
			return
		}
		c = &contact{id: id}
		b.peers[id] = c
	}
	if now.After(c.seen) {
		c.seen = now
	}
	fixed := c.addrs[:len(c.boot):len(c.boot)]
	var rest []ma.Multiaddr
	for _, a := range append(slices.Clone(addrs), c.addrs[len(c.boot):]...) {
		same := func(x ma.Multiaddr) bool { return x.Equal(a) }
		if len(fixed)+len(rest) < maxAddrs+len(c.boot) && len(a.Bytes()) <= maxAddrBytes && !slices.ContainsFunc(fixed, same) && !slices.ContainsFunc(rest, same) {
			rest = append(rest, a)
		}
	}
	c.addrs = append(fixed, rest...)
}

// forgetOne drops the contact that was seen longest ago and is neither
// bootstrap nor in use.
func (b *book) forgetOne() bool {
	var oldest *contact
	for _, c := range b.peers {
		if len(c.boot) == 0 && !c.up && !c.dialing && (oldest == nil || c.seen.Before(oldest.seen)) {
			oldest = c
		}
	}
	if oldest == nil {
		return false
	}
	delete(b.peers, oldest.id)
	return true
}

// steady is how long a connection must last before its end counts as the first
// failure: a peer that accepts and hangs up is backed off from.
const steady = 10 * time.Second

// connected notes that a connection came or went.
func (b *book) connected(id wire.PeerID, up bool, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.peers[id]
	if c == nil {
		return
	}
	if up {
		c.up, c.since, c.seen = true, now, now
		clear(c.errs)
		return
	}
	if now.Sub(c.since) > steady {
		c.tries = 0
	}
	c.up, c.seen = false, now
	b.failed(c, map[string]string{"": "the connection was closed"}, now)
}

// reconcile sets who is connected from the network's own word.
func (b *book) reconcile(up func(wire.PeerID) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, c := range b.peers {
		c.up = up(id)
	}
}

// due returns the contacts to dial now, marked as being dialled, and when to
// look again. Bootstrap peers are always wanted; others while fewer than degree
// are connected.
func (b *book) due(now time.Time) (dial []wire.PeerID, again time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	again = now.Add(redialIdle)
	have := 0
	for _, c := range b.peers {
		if c.up || c.dialing {
			have++
		}
	}
	for _, c := range slices.SortedFunc(maps.Values(b.peers), byNeed) {
		if c.up || c.dialing || len(c.addrs) == 0 || (len(c.boot) == 0 && have >= b.degree) {
			continue
		}
		if c.next.After(now) {
			if c.next.Before(again) {
				again = c.next
			}
			continue
		}
		c.dialing = true
		have++
		dial = append(dial, c.id)
	}
	return dial, again
}

// byNeed puts bootstrap peers first, then those seen last.
func byNeed(x, y *contact) int {
	if d := cmp.Compare(len(y.boot), len(x.boot)); d != 0 {
		return d
	}
	if d := y.seen.Compare(x.seen); d != 0 {
		return d
	}
	return x.id.Compare(y.id)
}

// dialed notes the end of a try: errs holds its error by address, with the
// whole under "". No errors means that the peer was connected.
func (b *book) dialed(id wire.PeerID, errs map[string]string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.peers[id]
	if c == nil {
		return
	}
	c.dialing = false
	if len(errs) > 0 {
		b.failed(c, errs, now)
	}
}

// failed sets the time of the next try. A peer that others can stand in for is
// tried less often while anybody is connected.
func (b *book) failed(c *contact, errs map[string]string, now time.Time) {
	c.tries++
	longest := b.redialMax
	if len(c.boot) == 0 && b.anyUp() {
		longest = max(longest, redialIdle)
	}
	c.next = now.Add(backoff(c.tries, longest))
	for i, s := range c.boot {
		e, ok := errs[c.addrs[i].String()]
		if !ok {
			e = errs[""]
		}
		c.errs[s] = e
	}
}

func (b *book) anyUp() bool {
	for _, c := range b.peers {
		if c.up {
			return true
		}
	}
	return false
}

// backoff doubles from half a second and is spread by a fifth, so that a swarm
// does not dial in step.
func backoff(tries int, longest time.Duration) time.Duration {
	d := redialMin << min(tries-1, 10)
	d = min(d, longest)
	return d - time.Duration(rand.Float64()*float64(d)/5)
}

// addrs returns where a peer may be.
func (b *book) addrs(id wire.PeerID) []ma.Multiaddr {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.peers[id]; c != nil {
		return slices.Clone(c.addrs)
	}
	return nil
}

// status lists the configured addresses in their order.
func (b *book) status() []BootStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []BootStatus
	for _, id := range b.order {
		c := b.peers[id]
		for _, s := range c.boot {
			st := BootStatus{Addr: s, Connected: c.up, Tries: c.tries, LastErr: c.errs[s], NextTry: c.next}
			if c.up {
				st.Tries, st.NextTry = 0, time.Time{}
			}
			out = append(out, st)
		}
	}
	return out
}

// nextTry returns when the next contact is dialled; ok is false if none waits.
func (b *book) nextTry() (at time.Time, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.peers {
		if !c.up && (!ok || c.next.Before(at)) {
			at, ok = c.next, true
		}
	}
	return at, ok
}
