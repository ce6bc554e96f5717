// Package netsim runs many peers in one process. Loop is virtual time, Swarm puts
// real runners, engines and ledgers on it with simulated links, disks and clocks,
// Sim plays a Scenario and its faults, and checkers watch from outside; the same
// seed gives the same trail on every processor. Its tests also run runners as real
// goroutines in a bubble of virtual time (Mem).
package netsim
