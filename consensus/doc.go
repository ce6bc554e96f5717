// Package consensus decides what counts in round r, once: certificates, and the
// table of voters that each instance uses.
//
// Each record is decided by one instance of an Engine. An instance starts from
// the newest decided record (its base) and either the proposal of the round's
// leader or nothing. It ends with a certificate: signatures of two thirds of the
// voting weight under the proposed record or under the base. A base decision
// changes nothing; the next instance has the next leader. What is decided is
// final; there is no other vote, no fork choice and no rollback.
//
// An Engine is a decider: events and the time go in, one ordered batch of
// commands comes out (Persist before Send before Decide). It holds no
// goroutine, no clock and no lock. The caller executes a batch in order and may
// not start a command before all Persist commands ahead of it are durable, so
// that a crash never makes a voter sign two values in one slot.
//
// The one implementation is consensus/gpbft, on go-f3.
package consensus
