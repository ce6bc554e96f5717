// Package proc starts real hived processes on this machine: for the demo, for
// chaos runs and for benches.
//
// Every process gets a directory of its own and free ports on loopback, and
// belongs to its Swarm: Close kills what is left and removes the directories.
package proc
