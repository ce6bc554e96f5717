//go:build !cgo

package tensorops

import "time"

// CPU returns the reference device: this program was built without cgo.
func CPU() Device { return Reference() }

// SetThreads returns 1: the reference has one thread.
func SetThreads(int) int { return 1 }

// HasBF16 returns false: the reference has no instructions for it.
func HasBF16() bool { return false }

// WorkerTime returns 0: the reference has no threads of its own.
func WorkerTime() time.Duration { return 0 }
