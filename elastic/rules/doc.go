// Package rules is what a run's history means: pure functions of genesis, records
// and what peers signed.
//
// The plan of a round is a function of the last records (MakePlan), its record a
// function of HAVEs, headers, READYs, attestations, leaves and the records before
// (Compose), so that every peer computes the same and nothing is negotiated. In a
// round of several groups each group's cut is composed by the same ballot rules
// (ComposeGroup) and stands for a contribution among the voters.
//
// Guarantees: whoever has the same inputs gets the same bytes; Validate recomputes
// each field of a record from the record's own inputs; a contribution counts whole
// or not at all, and at most once; each position of the data counts once.
//
// Nothing here knows a tensor, a clock, a network or a disk. Errors say which input
// has no place; ErrTooEarly says that inputs are still lacking.
package rules
