package nettier

import (
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/marcopolo/simnet"

	"github.com/apiary-net/hived/netsim"
)

// network carries packets between machines. It implements live.Network.
type network struct {
	sim simnet.Simnet

	mu    sync.Mutex
	rng   *rand.Rand      // guarded by mu
	links []netsim.Link   // by index
	cuts  map[[2]int]bool // guarded by mu
	off   []bool          // machines whose plug is out; guarded by mu
	index map[string]int  // by IP address; not changed
}

const port = 4711

func address(i int) net.IP { return simnet.IntToPublicIPv4(i) }

func newNetwork(seed uint64, links []netsim.Link) *network {
	n := &network{rng: rand.New(rand.NewPCG(seed, 0x6e6574)), links: links, cuts: map[[2]int]bool{}, off: make([]bool, len(links)), index: map[string]int{}}
	for i := range links {
		n.index[string(address(i).To4())] = i
	}
	n.sim.LatencyFunc = n.latency
	n.sim.Logger = slog.New(slog.DiscardHandler)
	n.sim.Start()
	return n
}

func (n *network) of(a net.Addr) (int, bool) {
	u, ok := a.(*net.UDPAddr)
	if !ok {
		return 0, false
	}
	i, ok := n.index[string(u.IP.To4())]
	return i, ok
}

// latency is how long a packet is under way between the two accesses.
func (n *network) latency(p *simnet.Packet) (d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range []net.Addr{p.From, p.To} {
		i, ok := n.of(a)
		if !ok {
			continue
		}
		d += n.links[i].Latency
		if j := n.links[i].Jitter; j > 0 {
			d += time.Duration(n.rng.Int64N(int64(j)))
		}
	}
	return d
}

// carries reports whether a packet gets through.
func (n *network) carries(from, to int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.off[from] || n.off[to] || n.cuts[[2]int{min(from, to), max(from, to)}] {
		return false
	}
	for _, i := range []int{from, to} {
		if l := n.links[i].Loss; l > 0 && n.rng.Float64() < l {
			return false
		}
	}
	return true
}

// Cut implements live.Network.
func (n *network) Cut(a, b int, cut bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts[[2]int{min(a, b), max(a, b)}] = cut
	return nil
}

// plug connects a machine, or takes its plug out.
func (n *network) plug(i int, in bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.off[i] = !in
}

// One way of an access: without a limit a burst of many packets passes at once.
const (
	unlimited = 10_000_000_000 // bits a second
	burst     = 1 << 20
)

func way(bytesPerSecond float64) simnet.LinkSettings {
	if bytesPerSecond == 0 {
		return simnet.LinkSettings{BitsPerSecond: unlimited, MTU: burst, FlowBucketCount: 8}
	}
	return simnet.LinkSettings{BitsPerSecond: int(8 * bytesPerSecond)}
}

// listen opens the socket of a machine; simnet's endpoints are made one at a time.
func (n *network) listen(i int, local *net.UDPAddr) (net.PacketConn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.sim.NewEndpoint(local, simnet.NodeBiDiLinkSettings{Uplink: way(n.links[i].Up), Downlink: way(n.links[i].Down)})
	return &socket{c, n, i}, nil
}

// socket drops what the network does not carry.
type socket struct {
	*simnet.SimConn
	net  *network
	from int
}

// WriteTo implements net.PacketConn.
func (s *socket) WriteTo(b []byte, to net.Addr) (int, error) {
	if i, ok := s.net.of(to); !ok || !s.net.carries(s.from, i) {
		return len(b), nil
	}
	return s.SimConn.WriteTo(b, to)
}
