package netsim

import (
	"math/rand/v2"
	"time"
)

// Link is the access of a peer to the network. A message between two peers takes
// both latencies, and waits its turn on the sender's way up and the receiver's
// way down.
type Link struct {
	Latency time.Duration // one way to the middle of the network
	Jitter  time.Duration // added to each message, uniform from zero
	Up      float64       // bytes a second; 0 is no limit
	Down    float64       // bytes a second; 0 is no limit
	// Loss is the share of packets that the access loses. An announcement that is
	// lost does not come; a stream sends again and is late.
	Loss float64
}

// wires is the state of a peer's access.
type wires struct {
	link     Link
	upFree   time.Time
	downFree time.Time
}

const (
	packet      = 1200 // bytes
	retransmit  = 200 * time.Millisecond
	messageSize = 64 // bytes of framing that each message has besides its own
)

// carry returns when n bytes that leave from now arrive at to, and whether a
// packet of theirs was lost and sent again.
func carry(now time.Time, rng *rand.Rand, from, to *wires, n int) (at time.Time, lost bool) {
	n += messageSize
	start := now
	if from.link.Up > 0 {
		start = later(now, from.upFree)
		start = start.Add(time.Duration(float64(n) / from.link.Up * 1e9))
		from.upFree = start
	}
	at = start.Add(from.link.Latency + to.link.Latency)
	for _, w := range []*wires{from, to} {
		if w.link.Jitter > 0 {
			at = at.Add(time.Duration(rng.Int64N(int64(w.link.Jitter))))
		}
		if w.link.Loss > 0 {
			for range 1 + n/packet {
				if rng.Float64() < w.link.Loss {
					lost = true
				}
			}
		}
	}
	if to.link.Down > 0 {
		at = later(at, to.downFree).Add(time.Duration(float64(n) / to.link.Down * 1e9))
		to.downFree = at
	}
	if lost {
		at = at.Add(retransmit)
	}
	return at, lost
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
