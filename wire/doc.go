// Package wire holds the nouns that peers share (run, version, contribution,
// record, envelope) and their one bounded, canonical encoding.
//
// Every noun is a CBOR array in the core deterministic form of RFC 8949
// section 4.2.1. Decoding is strict: a length is bounded before it is believed,
// indefinite lengths, tags and duplicate keys are refused, and what was decoded
// is encoded again and compared byte for byte, so that each value has exactly
// one encoding and a digest of bytes is a digest of meaning.
//
// What a peer says is an Envelope: kind, run, round, sender, body and an
// ed25519 signature over all of them under a domain tag. Seal makes one, Open
// checks one. Open never returns an envelope whose signature is bad.
//
// What peers draw (leaders, groups, holders) is drawn by Ticket and Draw, from a seed
// that nobody chose. What a genesis names of other packages (codecs, merge rules,
// optimizers) is checked for its form only.
//
// The package knows no network, no disk and no clock. All values are plain data;
// none of the functions keep references to the slices they are given unless
// their comment says so.
package wire
