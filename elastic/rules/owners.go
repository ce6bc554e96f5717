package rules

import (
	"github.com/apiary-net/hived/wire"
)

// ActiveIn returns the peers that were planned for in the round after prev.
func ActiveIn(prev *wire.Record) []wire.PeerID {
	var out []wire.PeerID
	for _, s := range prev.Roster {
		if s.Active {
			out = append(out, s.Peer)
		}
	}
	return out
}

// owners gives each part to a member, so that everybody owns about the same
// number of values and each owns contiguous parts.
func PartOwners(parts []wire.Part, members int) []int {
	out := make([]int, len(parts))
	total := 0
	for _, p := range parts {
		total += p.Hi - p.Lo
	}
	at := 0
	for i, p := range parts {
		mid := at + (p.Hi-p.Lo)/2
		out[i] = min(members-1, mid*members/total)
		at += p.Hi - p.Lo
	}
	return out
}

// Holds reports whether self is one of the two holders that keep a header's body
// besides its sender: the first two of the others in the draw of the header. Rendezvous
// hashing: Thaler and Ravishankar 1998, Using Name-Based Mappings to Increase Hit Rates.
func Holds(header wire.Digest, sender, self wire.PeerID, others []wire.PeerID) bool {
	const domain = "hived/holder/v1\n"
	mine, before := wire.Ticket(domain, header[:], self), 0
	for _, p := range others {
		if p != sender && p != self && wire.Ticket(domain, header[:], p).Compare(mine) < 0 {
			before++
		}
	}
	return before < 2
}
