// Package live plays scenarios on whole daemons, which keep their own time: in
// the net tier on a simulated network in virtual time, in the proc tier as real
// processes. It is the driver and the checkers of both.
//
// A daemon is believed nothing. While a run is in progress the driver only notes
// what daemons say: rounds, heads of logs, local steps. At the end it takes
// exports from several of them, verifies and replays these, and holds against
// each other what is proven there: one record at each height, equal versions,
// samples that count once, no charge against an honest peer, and every log an
// extension of all its heads that were seen.
//
// The caller makes the machines and the network, and ends them.
package live
