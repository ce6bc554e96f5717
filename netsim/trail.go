package netsim

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"slices"
)

// Event is one line of a trail: what an observer of the whole swarm would note.
type Event struct {
	Ms      int64    `json:"ms"`   // virtual, since the beginning
	Kind    string   `json:"kind"` // start kill wipe leave cut partition decided version finished alarm ...
	Peer    int      `json:"peer"` // index; of a decided record the first to know it
	Round   uint64   `json:"round,omitempty"`
	Record  string   `json:"record,omitempty"`  // digest
	Version string   `json:"version,omitempty"` // CID
	Counted []int    `json:"counted,omitempty"` // indexes of peers
	Lost    []string `json:"lost,omitempty"`    // "index:status" of the others that were planned
	Loss    float64  `json:"loss,omitempty"`    // mean over the counted
	TookMs  int64    `json:"took_ms,omitempty"` // since the record before
	Control uint64   `json:"control,omitempty"` // bytes of all peers so far: announcements, votes, pulls
	Payload uint64   `json:"payload,omitempty"` // bytes of all peers so far: blocks and slices
	Text    string   `json:"text,omitempty"`
}

// Trail is the history of a simulation. Its digest is a function of seed and
// scenario alone.
type Trail struct {
	loop *Loop
	w    *bufio.Writer // nil: not written
	sum  hash.Hash
	last []Event // newest, bounded: shown when a checker fails
	err  error
}

const trailShown = 64

// NewTrail returns a trail that is written to w as JSON lines, unless w is nil.
func NewTrail(w io.Writer) *Trail {
	t := &Trail{sum: sha256.New()}
	if w != nil {
		t.w = bufio.NewWriter(w)
	}
	return t
}

func (t *Trail) add(e Event) {
	e.Ms = t.loop.Since().Milliseconds()
	t.Add(e)
}

// Add appends an event that knows its time.
func (t *Trail) Add(e Event) {
	b, err := json.Marshal(e)
	if err != nil {
		panic(fmt.Sprintf("netsim: encode a trail event: %v", err)) // no value of Event can fail
	}
	b = append(b, '\n')
	t.sum.Write(b)
	if len(t.last) == trailShown {
		t.last = append(t.last[:0], t.last[1:]...)
	}
	t.last = append(t.last, e)
	if t.w != nil && t.err == nil {
		_, t.err = t.w.Write(b)
	}
}

// Newest returns the newest events, oldest first.
func (t *Trail) Newest() []Event { return slices.Clone(t.last) }

// Digest returns the SHA-256 of all lines so far.
func (t *Trail) Digest() string { return hex.EncodeToString(t.sum.Sum(nil)) }

// Flush writes what is buffered.
func (t *Trail) Flush() error {
	if t.w == nil {
		return nil
	}
	if t.err == nil {
		t.err = t.w.Flush()
	}
	return t.err
}
