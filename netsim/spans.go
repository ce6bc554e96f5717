package netsim

import (
	"slices"

	"github.com/apiary-net/hived/wire"
)

// spanSet is a set of positions: disjoint spans, ascending, merged where they
// touch.
type spanSet struct {
	spans []wire.Span
	size  uint64
}

// add adds s and reports whether none of it was there before.
func (t *spanSet) add(s wire.Span) bool {
	if s.Len() == 0 {
		return true
	}
	i, _ := slices.BinarySearchFunc(t.spans, s.Lo, func(x wire.Span, lo uint64) int {
		if x.Hi < lo {
			return -1
		}
		return 1
	})
	j := i
	merged := s
	for j < len(t.spans) && t.spans[j].Lo <= s.Hi {
		x := t.spans[j]
		if x.Lo < s.Hi && s.Lo < x.Hi {
			return false
		}
		merged.Lo, merged.Hi = min(merged.Lo, x.Lo), max(merged.Hi, x.Hi)
		j++
	}
	t.spans = slices.Replace(t.spans, i, j, merged)
	t.size += s.Len()
	return true
}
