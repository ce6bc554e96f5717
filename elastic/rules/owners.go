package rules

import (
	"slices"

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
// besides its sender: those among the others with the least digest of (header,
// peer).
func Holds(header wire.Digest, sender, self wire.PeerID, others []wire.PeerID) bool {
	return Chosen(2, header[:], sender, self, others)
}

// Chosen reports whether self is one of the n peers that rendezvous hashing chooses
// for a key among self and the others, but not except: those with the least digest of
// (key, peer). Thaler and Ravishankar 1998, Using Name-Based Mappings to
// Increase Hit Rates.
func Chosen(n int, key []byte, except, self wire.PeerID, others []wire.PeerID) bool {
	mine, better := score(key, self), 0
	for _, p := range others {
		if p != except && p != self && score(key, p).Compare(mine) < 0 {
			better++
		}
	}
	return better < n
}

// Choose returns those whom Chosen chooses among peers, ascending by digest.
func Choose(n int, key []byte, except wire.PeerID, peers []wire.PeerID) []wire.PeerID {
	type scored struct {
		peer wire.PeerID
		by   wire.Digest
	}
	var all []scored
	for _, p := range peers {
		if p != except {
			all = append(all, scored{p, score(key, p)})
		}
	}
	slices.SortFunc(all, func(a, b scored) int { return a.by.Compare(b.by) })
	out := make([]wire.PeerID, 0, n)
	for _, s := range all[:min(n, len(all))] {
		out = append(out, s.peer)
	}
	return out
}

func score(key []byte, p wire.PeerID) wire.Digest { return wire.Sum(slices.Concat(key, p[:])) }
