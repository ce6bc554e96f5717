// Package invariants says whether assertions run that cost too much for everybody:
// what is written is read back, what was computed is computed again. They do in
// builds with the tag invariants, and under the race detector.
//
// A caller asks On, a constant, before it computes anything, so that a build
// without them has no trace of an assertion:
//
//	if invariants.On {
//		invariants.Check(size == want, "elastic: the cache counts %d bytes, it has %d", size, want)
//	}
//
// A broken invariant is a mistake in this program and panics. Bytes of a peer can
// never break one: they are errors.
package invariants

import "fmt"

// Check panics unless ok. The text names the package, what is compared, and the values.
func Check(ok bool, format string, args ...any) {
	if !ok {
		panic(fmt.Sprintf("broken invariant: "+format, args...))
	}
}
