// Package proc starts real hived processes on this machine: for the demo, for
// chaos runs and for benches.
//
// Play is the proc tier of netsim: a scenario's machines as processes on loopback,
// or each in a network namespace of its own where links are cut or shaped.
//
// Every process gets a directory of its own and free ports on loopback, and
// belongs to its Swarm: Close kills what is left and removes the directories.
package proc
