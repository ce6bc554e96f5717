// Package netsim runs many peers from one seed.
//
// It has no protocol code of its own: it imports the real deciders and runners
// and replaces what they take from the world. Mem is a swarm of real
// elastic.Runners in one process, on links, stores and trainers in memory; under
// testing/synctest its time is virtual. netsim/proc starts real processes.
package netsim
