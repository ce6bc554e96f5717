// Package elastic is the training round, top to bottom; peers come and go.
//
// elastic/rules says what a round is, elastic/decide what this peer does in it,
// elastic/version what its numbers are. Runner is the rest: it owns all that waits,
// executes the machine's commands, keeps bodies and versions, and turns messages of
// other peers into events. It waits only through Env, so that a simulation can own
// time and order.
//
// Guarantees: whatever is signed once per round is durable before it is sent; a
// version is durable before it is visible.
//
// The caller provides the ports of ports.go: a trainer, a network, a store and
// an agreement on records.
package elastic
