package tensorops

// space says where an operand lies.
type space uint8

const (
	nowhere space = iota
	inArena
	inParams
	inGrads
	inBuffers
	inInput
)

// ref names n elements of a space from off; of inInput, off is the input's number.
type ref struct {
	space  space
	off, n int
}

// Step is one entry of a plan: the forward or backward of an op, or the addition
// of a further gradient into a value's gradient.
type Step struct {
	Op       string // name, for reports
	Backward bool

	op                 op // nil: dout[0] is added to din[0]
	in, out, din, dout []ref
	keep, work         ref
	rows               int
	first              uint // operands, by bits, whose parameter's gradient no earlier step adds to
	train, again       bool
	joined             bool // the next step may be computed with this one, see join.go
}

// Plan is a compiled graph: plain data, for any device.
type Plan struct {
	Steps  []Step
	Params []Param // name order, parameters and buffers, Off set
	Inputs []V

	// Sizes in elements: the flat vectors and the arena of activations.
	ParamLen, BufferLen, Arena int
	// Peak is the memory in bytes that a session takes, known before it starts.
	Peak int64

	outputs []ref // of Options.Keep
	unused  []ref // gradients of parameters that no step adds to
	train   bool
	bf16    bool
}

// span is a stretch of arena needed from step first to step last.
type span struct{ size, first, last, off int }

const arenaAlign = 16 // elements: one cache line

// place gives every span an offset such that spans alive together do not overlap,
// larger ones first, each at the lowest place that fits. It returns the total.
func place(spans []span) int {
	order := make([]int, len(spans))
	for i := range order {
		order[i] = i
	}
	sortBy(order, func(a, b int) bool {
		if spans[a].size != spans[b].size {
			return spans[a].size > spans[b].size
		}
		return a < b
	})
	total := 0
	var placed []int // by offset
	for _, i := range order {
		s := &spans[i]
		need := (s.size + arenaAlign - 1) / arenaAlign * arenaAlign
		at := 0
		for _, j := range placed {
			p := spans[j]
			if p.last < s.first || s.last < p.first {
				continue
			}
			if at+need <= p.off {
				break
			}
			at = max(at, p.off+(p.size+arenaAlign-1)/arenaAlign*arenaAlign)
		}
		s.off = at
		total = max(total, at+need)
		placed = append(placed, i)
		sortBy(placed, func(a, b int) bool { return spans[a].off < spans[b].off })
	}
	return total
}
