//go:build !cgo

package cpu

import "errors"

// ISAs returns nothing: there are no kernels without cgo.
func ISAs() []string { return nil }

// ISA returns "": there are no kernels without cgo.
func ISA() string { return "" }

// SetISA fails: there are no kernels without cgo.
func SetISA(string) error { return errors.New("set instruction set: built without cgo") }

// SetThreads returns 1: there are no kernels without cgo.
func SetThreads(int) int { return 1 }
