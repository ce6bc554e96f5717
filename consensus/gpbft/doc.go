// Package gpbft is the consensus engine on GPBFT (go-f3): four message delays,
// tolerant of less than a third of liars by weight, with transferable
// certificates. See FIP-0086 for the protocol.
//
// What this package adds to go-f3: an own bounded encoding of votes (that of
// go-f3 caps signatures at 96 bytes), ed25519 signatures and their plain
// concatenation as aggregate, an own queue that delivers votes for instances not
// yet begun in the order (round, phase, sender), no jitter, a delta that doubles
// after a base decision although a proposal was held and shrinks after a
// success, and a sign-once slot for each (instance, round, phase).
package gpbft
