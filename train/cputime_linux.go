package train

import (
	"syscall"
	"time"
)

const rusageThread = 1 // RUSAGE_THREAD of getrusage(2)

// threadTime returns the processor time of the calling thread.
func threadTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(rusageThread, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
