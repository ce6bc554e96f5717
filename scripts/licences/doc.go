// Command licences prints THIRD_PARTY.md: each module that go.mod requires
// directly, its version and its licence, as the LICENSE file in the module cache
// says it.
//
//	go run ./scripts/licences > THIRD_PARTY.md
package main
