// Package merge holds the canonical merge rules: how the decided contributions of
// a round become one vector, and how that vector changes the version. Every peer
// computes the same bits from the same inputs.
//
// Contributions are merged part by part (a part is a run of values of one tensor,
// the unit of norms and clips), in the order given, which is peer-id order: the
// sum is a float64 accumulator from +0 whose terms a_i*x_i are exact, divided by
// the total weight and rounded once to float32. Outer steps are float32, one
// operation one rounding. No fused operation, no library function, CPU only.
//
// Each merge first runs a canary: a library that made this thread flush denormals
// or round otherwise is found, not believed. A merged value that is not finite is
// reported and voids the round.
//
// Rules and outer steps hold no state and may be shared. Inputs whose lengths
// differ are broken invariants and panic; numbers that peers declare only cause
// errors.
package merge
