// Package daemon is one peer: configuration, wiring, lifetime, local API and
// metrics. No algorithm lives here: rounds are elastic's, records consensus's, logs
// and their witnesses ledger's, exports and their checks ledger/proof's, and what
// commands without a daemon need too is in daemon/exit.
//
// Open takes the data directory (one daemon each, held by a lock that names its
// holder), reads or makes the identity and opens the store and the network. Run
// joins the swarm, resumes the runs that were in progress and serves the API on
// a unix socket, and on loopback if asked to, until its context ends; then it
// leaves cleanly within ten seconds.
//
// The adapters in adapt_*.go connect packages that do not know each other: the
// ports that elastic and ledger declare, and the packages that implement them.
package daemon
