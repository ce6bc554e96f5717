// Package decide is what one peer does in a run: events and the time in, one ordered
// batch of commands out.
//
// A round is plan, train, fetch, have, propose, decide, apply, attest; advance.go
// reads in this order. Machine knows digests and slots; it has no tensor, no clock,
// no goroutine, no network and no disk. What it needs lies in its events; what is to
// be done lies whole in its commands, so that whoever executes them need not ask back.
//
// Guarantees: the same events at the same times give the same commands; what is
// signed once per round is said in a slot, which the caller makes durable before it
// is sent; every wait has a moment at which Wake asks for a Tick.
package decide
