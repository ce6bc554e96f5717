//go:build !linux

package train

import "time"

// threadTime returns 0: only Linux counts the processor time of a thread here.
func threadTime() time.Duration { return 0 }
