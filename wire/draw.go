package wire

import (
	"cmp"
	"crypto/sha256"
	"slices"
)

// Ticket is the number that p draws: SHA-256(domain, seed, p). A domain ends in a
// newline and names what is drawn for, so that no draw decides two things.
func Ticket(domain string, seed []byte, p PeerID) Digest {
	h := sha256.New()
	h.Write([]byte(domain))
	h.Write(seed)
	h.Write(p[:])
	return Digest(h.Sum(nil))
}

// Draw returns peers in the order of their tickets, the least first. Everybody who
// knows the seed draws the same, and nobody who did not make it can choose a place.
func Draw(domain string, seed []byte, peers []PeerID) []PeerID {
	type drawn struct {
		peer   PeerID
		ticket Digest
	}
	all := make([]drawn, len(peers))
	for i, p := range peers {
		all[i] = drawn{p, Ticket(domain, seed, p)}
	}
	slices.SortFunc(all, func(a, b drawn) int {
		return cmp.Or(a.ticket.Compare(b.ticket), a.peer.Compare(b.peer))
	})
	out := make([]PeerID, len(all))
	for i, d := range all {
		out[i] = d.peer
	}
	return out
}
