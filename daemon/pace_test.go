package daemon

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A local step takes at least its pace, unless the work is called off; the part of
// a step that is under way counts.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &trainer{pace: time.Second}
		began := time.Now()
		tr.set(began)
		tr.stepped(t.Context())
		tr.stepped(t.Context())
		if took := time.Since(began); took != 2*time.Second || tr.done() != 2 {
			t.Errorf("two steps took %v, %v are done", took, tr.done())
		}
		<-time.After(250 * time.Millisecond)
		if tr.done() != 2.25 {
			t.Errorf("%v steps are done, want 2.25", tr.done())
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		tr.stepped(ctx)
		tr.set(time.Time{})
		if took := time.Since(began); took != 2250*time.Millisecond || tr.done() != 3 {
			t.Errorf("a step that was called off ends after %v, %v are done", took, tr.done())
		}
		free := &trainer{}
		free.set(time.Now())
		free.stepped(t.Context())
		if took := time.Since(began); took != 2250*time.Millisecond || free.done() != 1 {
			t.Errorf("a step without a pace ends after %v, %v are done", took, free.done())
		}
	})
}
