// Package elastic is the training round, top to bottom; peers come and go.
//
// A round is plan, train, encode, commit, exchange, have, cut, merge, apply and
// attest (advance.go reads in this order). Plan and Compose are pure: the plan of
// round r is a function of the last records, the record of round r a function of
// what peers signed and the records before, so that every peer computes the same
// without negotiation. Machine is the decider: events and the time in, one
// ordered batch of commands out; it knows digests and slots, no tensors, no
// clock and no goroutine. Runner executes commands; it waits only through Env,
// so that a simulation can own time and order.
//
// Guarantees: a contribution counts whole or not at all, and at most once; the
// merge is over the decided cut alone, in canonical arithmetic and in the order
// of peer ids, so early or late, twice or by a stand-in, the bytes are the same;
// whatever is signed once per round is durable before it is sent.
//
// The caller provides the ports of ports.go: a trainer, a network, a store and
// an agreement on records.
package elastic
