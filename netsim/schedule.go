package netsim

import "time"

// Schedule says when the faults of a scenario happen, on any clock. It belongs to
// one goroutine or loop.
type Schedule struct {
	Since func() time.Duration             // of the scenario
	After func(d time.Duration, do func()) // does something later
	Do    func(f *FaultSpec)               // lets it happen

	quiet   bool
	byRound []*timed
}

// timed is a fault that waits for its next record.
type timed struct {
	spec *FaultSpec
	next uint64 // 0: for none
}

// Arm schedules faults.
func (s *Schedule) Arm(faults []FaultSpec) {
	for i := range faults {
		f := &faults[i]
		if next := f.FirstRound(); next > 0 {
			s.byRound = append(s.byRound, &timed{f, next})
			continue
		}
		s.After(f.FirstTime(), func() { s.fire(f) })
	}
}

// Calm ends the faults.
func (s *Schedule) Calm() { s.quiet = true }

// Quiet reports whether there are no more faults: the end is near.
func (s *Schedule) Quiet() bool { return s.quiet }

// over reports whether a fault happens no more.
func (s *Schedule) over(f *FaultSpec) bool {
	return s.quiet || f.Until.D > 0 && s.Since() > f.Until.D
}

// fire lets a fault happen now, and again later if it is to.
func (s *Schedule) fire(f *FaultSpec) {
	if s.over(f) {
		return
	}
	s.Do(f)
	if f.Every.At > 0 {
		s.After(f.Every.At, func() { s.fire(f) })
	}
}

// Decided tells that record r was decided.
func (s *Schedule) Decided(r uint64) {
	for _, t := range s.byRound {
		if t.next == 0 || r+1 < t.next || s.over(t.spec) {
			continue
		}
		t.next = 0
		s.Do(t.spec)
		switch {
		case t.spec.Every.Round > 0:
			t.next = r + 1 + t.spec.Every.Round
		case t.spec.Every.At > 0:
			s.After(t.spec.Every.At, func() { s.fire(t.spec) })
		}
	}
}
