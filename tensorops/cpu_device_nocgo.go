//go:build !cgo

package tensorops

// CPU returns the reference device: this program was built without cgo.
func CPU() Device { return Reference() }
