//go:build invariants || race

package invariants

// On says that costly assertions run.
const On = true
