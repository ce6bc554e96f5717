package daemon

import (
	"context"
	"runtime"
	"syscall"
	"time"
)

// stepped counts a step once it has taken its time, or ctx has ended.
func (t *trainer) stepped(ctx context.Context) {
	t.mu.Lock()
	began := t.began
	t.mu.Unlock()
	if rest := t.pace - time.Since(began); rest > 0 {
		timer := time.NewTimer(rest)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.steps++
	t.began = time.Now()
}

// set notes when a step began; the zero time says that none is in progress.
func (t *trainer) set(began time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.began = began
}

// done returns the local steps so far. Of the one in progress the part counts that
// its pace tells.
func (t *trainer) done() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := float64(t.steps)
	if t.pace > 0 && !t.began.IsZero() {
		n += min(1, float64(time.Since(t.began))/float64(t.pace))
	}
	return n
}

// count adds the CPU time of this thread, which does all the local work of a
// trainer of one thread.
func (t *trainer) count() func() {
	runtime.LockOSThread()
	t.set(time.Now())
	began := threadCPU()
	return func() {
		t.set(time.Time{})
		t.cpu.Add(int64(threadCPU() - began))
		runtime.UnlockOSThread()
	}
}

func threadCPU() time.Duration {
	const rusageThread = 1
	var u syscall.Rusage
	if syscall.Getrusage(rusageThread, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
