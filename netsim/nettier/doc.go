// Package nettier runs scenarios on whole daemons: libp2p hosts with QUIC, pubsub
// and streams, ledgers, agreement, training and the local API, many in one
// process. Only the world below them is simulated: packets travel on
// github.com/marcopolo/simnet, stores are in memory, and time is that of a
// testing/synctest bubble, so that it stands still while anybody computes and
// jumps when nobody does.
//
//	go test ./netsim/nettier -scenario FILE
//
// A run is not a function of its seed: goroutines, maps and keys of TLS have
// chances of their own. What netsim/live proves from exports holds all the same.
package nettier
