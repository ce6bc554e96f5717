package wire

import (
	"errors"
	"fmt"
	"math"
)

// Bounds of what a round may hold.
const (
	// MaxRounds is the most rounds of a run.
	MaxRounds = 1 << 32
	// MaxVoters is the most voters of a table.
	MaxVoters = 21
	// MaxMembers is the most active peers of one averaging group.
	MaxMembers = 32
	maxSpans   = 1 << 10
	maxParts   = 1 << 15
	// MaxHeader bounds a header envelope.
	MaxHeader = 1 << 10
)

// Span is a half-open interval of sample positions.
type Span struct {
	_      struct{} `cbor:",toarray"`
	Lo, Hi uint64
}

// Len returns the number of positions.
func (s Span) Len() uint64 { return s.Hi - s.Lo }

// SpanLen returns the positions in all spans.
func SpanLen(spans []Span) uint64 {
	n := uint64(0)
	for _, s := range spans {
		n += s.Len()
	}
	return n
}

// SplitSpans returns the first n positions of spans and the rest.
func SplitSpans(spans []Span, n uint64) (first, rest []Span) {
	for _, s := range spans {
		take := min(n, s.Len())
		if take > 0 {
			first = append(first, Span{Lo: s.Lo, Hi: s.Lo + take})
		}
		if take < s.Len() {
			rest = append(rest, Span{Lo: s.Lo + take, Hi: s.Hi})
		}
		n -= take
	}
	return first, rest
}

func checkSpans(spans []Span) error {
	if len(spans) > maxSpans {
		return fmt.Errorf("%d spans, limit %d", len(spans), maxSpans)
	}
	for _, s := range spans {
		if s.Lo >= s.Hi {
			return fmt.Errorf("span %d to %d is empty", s.Lo, s.Hi)
		}
	}
	return nil
}

// Ready says that its sender holds a version and can train from it. From a
// sender without a seat it is also the request to be admitted.
type Ready struct {
	_       struct{} `cbor:",toarray"`
	Version CID      // the version of the envelope's round
	Schema  Digest   // of the model that the sender runs
	Data    Digest   // root of the data that the sender read
}

// Leave says that its sender stops taking part after the envelope's round.
type Leave struct {
	_      struct{} `cbor:",toarray"`
	Reason string
}

func (l *Leave) check() error { return inRange("reason bytes", uint64(len(l.Reason)), 0, 200) }

// Stop asks, signed by the creator, to end the run with the envelope's round.
type Stop struct {
	_      struct{} `cbor:",toarray"`
	Reason string
}

func (s *Stop) check() error { return inRange("reason bytes", uint64(len(s.Reason)), 0, 200) }

// Header commits its sender to one contribution of the envelope's round. It is
// signed once per round.
type Header struct {
	_           struct{} `cbor:",toarray"`
	Base        CID      // version that was trained from
	Root        Digest   // RFC 6962 root over the digests of the part blocks
	Body        CID      // index block: a Body, or in a window a WindowBody
	Bytes       uint64   // payload: index and part blocks
	Parts       uint32   // part blocks; 0 in a window
	Spans       []Span   // positions used: those of late work first, then a prefix of the dealt ones
	Steps       uint32   // local steps, or finished steps of the window
	Loss        float32  // mean training loss over the used samples
	Norm        float32  // root of the sum of the part norms' squares
	Nonce       Digest   // SHA-256 of the nonce in the body
	State       Digest   // trainer state before the round
	Late        uint64   // round whose late work rides along; 0 none
	TrainMs     uint32
	MilliJoules uint32 // energy of the round's training; 0 unknown
}

func (h *Header) check() error {
	if h.Base.IsZero() || h.Body.IsZero() {
		return errors.New("header names no base or no body")
	}
	for _, x := range []float32{h.Loss, h.Norm} {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return errors.New("loss or norm is not finite")
		}
	}
	return checkSpans(h.Spans)
}

// Body is the index block of a contribution.
type Body struct {
	_     struct{} `cbor:",toarray"`
	Nonce []byte   // 32 bytes
	Parts []PartRef
}

// PartRef names one encoded part.
type PartRef struct {
	_          struct{} `cbor:",toarray"`
	Block      Digest   // SHA-256 of the encoded bytes: a raw block
	Bytes      uint32
	SumSquares float64 // canonical, of the decoded values
}

func (b *Body) check() error {
	if len(b.Nonce) != 32 {
		return fmt.Errorf("nonce of %d bytes, want 32", len(b.Nonce))
	}
	for i, p := range b.Parts {
		if p.Bytes > MaxBlock || math.IsNaN(p.SumSquares) || math.IsInf(p.SumSquares, 0) || p.SumSquares < 0 {
			return fmt.Errorf("part %d: %d bytes, sum of squares %v", i, p.Bytes, p.SumSquares)
		}
	}
	return inRange("parts", uint64(len(b.Parts)), 1, maxParts)
}

// WindowBody is the index block of a peer's part in a window.
type WindowBody struct {
	_      struct{} `cbor:",toarray"`
	Nonce  []byte   // 32 bytes
	Merged []CID    // merged gradient of each finished step, a manifest
}

func (b *WindowBody) check() error {
	if len(b.Nonce) != 32 {
		return fmt.Errorf("nonce of %d bytes, want 32", len(b.Nonce))
	}
	return inRange("steps", uint64(len(b.Merged)), 0, MaxWindow)
}

// State of a header as a voter knows it; it only rises.
type HaveState uint64

// States of a header.
const (
	HaveSeen    HaveState = 1
	HaveWhole   HaveState = 2
	HaveRefused HaveState = 3
)

// Reason says why a contribution did not count.
type Reason uint64

// Reasons. Numbers are part of the format.
const (
	ReasonNone      Reason = 0
	ReasonNonFinite Reason = 1
	ReasonNorm      Reason = 2
	ReasonSchema    Reason = 3
	ReasonStale     Reason = 4
	ReasonSpans     Reason = 5
	ReasonCopy      Reason = 6
	ReasonBody      Reason = 7 // bytes that the header does not commit to
	ReasonOversize  Reason = 8
)

func (r Reason) String() string {
	names := []string{"", "nonfinite", "norm", "schema", "stale", "spans", "copy", "body", "oversize"}
	if uint64(r) >= uint64(len(names)) {
		return fmt.Sprintf("reason-%d", uint64(r))
	}
	return names[r]
}

// HaveItem is what a voter says of one header.
type HaveItem struct {
	_      struct{} `cbor:",toarray"`
	Header Digest   // of the header envelope, or of a group's outcome
	State  HaveState
	Reason Reason // when refused
	Ms     uint32 // from learning record r-1 to this state
	Nonce  []byte // of the body, when whole; else none
	// Parts is, under a reduced topology, the bitmap of the parts that the sender
	// holds and has checked, least significant bit first; else none.
	Parts []byte
}

// Have is what a voter holds of a round. Seq grows and states only rise.
type Have struct {
	_     struct{} `cbor:",toarray"`
	Seq   uint32
	Items []HaveItem // ascending by Header
}

func (h *Have) check() error {
	for i, it := range h.Items {
		if i > 0 && h.Items[i-1].Header.Compare(it.Header) >= 0 {
			return errors.New("items are out of order")
		}
		if it.State < HaveSeen || it.State > HaveRefused || (it.State == HaveRefused) != (it.Reason != ReasonNone) {
			return fmt.Errorf("item %d: state %d with reason %d", i, it.State, it.Reason)
		}
		if n := len(it.Nonce); n != 0 && (n != 32 || it.State != HaveWhole) {
			return fmt.Errorf("item %d: nonce of %d bytes", i, n)
		}
		if n := len(it.Parts); n > maxParts/8 || n > 0 && it.State != HaveWhole {
			return fmt.Errorf("item %d: parts of %d bytes", i, n)
		}
	}
	return inRange("items", uint64(len(h.Items)), 0, 2*MaxGroups)
}

// Attest says that its sender computed a version: the envelope's round.
type Attest struct {
	_       struct{} `cbor:",toarray"`
	Version CID
	Merged  CID // manifest of the merged update; zero when nothing counted
}

// Manifest names a version or a merged update by its blocks: vectors of
// little-endian float32 (or bfloat16), each cut into blocks of 1 MiB.
type Manifest struct {
	_       struct{} `cbor:",toarray"`
	V       uint64   // 1
	Schema  Digest
	Vectors []Vector
}

// Vector is one flat vector of a Manifest.
type Vector struct {
	_      struct{} `cbor:",toarray"`
	Name   string   // params, buffers, outer, merged
	Type   string   // f32 or bf16
	Len    uint64   // values
	Blocks []CID
}

// Width returns the bytes of one value of v.
func (v Vector) Width() int {
	if v.Type == "bf16" {
		return 2
	}
	return 4
}

func (m *Manifest) check() error {
	if m.V != 1 || len(m.Vectors) == 0 || len(m.Vectors) > 8 {
		return fmt.Errorf("manifest of version %d with %d vectors", m.V, len(m.Vectors))
	}
	for _, v := range m.Vectors {
		if err := oneOf("type", v.Type, "f32", "bf16"); err != nil {
			return err
		}
		if v.Len > maxValues {
			return fmt.Errorf("vector %q: %d values, limit %d", v.Name, v.Len, uint64(maxValues))
		}
		want := (v.Len*uint64(v.Width()) + MaxBlock - 1) / MaxBlock
		if uint64(len(v.Blocks)) != want {
			return fmt.Errorf("vector %q: %d blocks for %d values, want %d", v.Name, len(v.Blocks), v.Len, want)
		}
	}
	return nil
}

// OpenManifest decodes b and checks that id names it.
func OpenManifest(id CID, b []byte) (Manifest, error) {
	var m Manifest
	if !id.Names(b) {
		return m, fmt.Errorf("manifest %s: bytes do not match", id.Short())
	}
	err := Unmarshal(b, &m, MaxBlock)
	return m, err
}
