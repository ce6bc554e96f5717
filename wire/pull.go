package wire

import "fmt"

// Bounds of a pull of a run.
const (
	MaxPullRequest = 64 << 10
	// MaxKnown is the most digests of a request.
	MaxKnown      = 6 << 10
	MaxPullAnswer = 3 * MaxRecord
	// PullBudget is how many bytes of items and envelopes an answer may hold, so that
	// its frame stays below MaxPullAnswer.
	PullBudget = MaxPullAnswer - 2*MaxMessage
)

// PullRequest asks for what the sender lacks of a run. It has at most
// MaxPullRequest bytes.
type PullRequest struct {
	_        struct{} `cbor:",toarray"`
	Run      RunID
	Next     uint64   // first record that is lacking
	Instance uint64   // next instance
	Known    [][]byte // first 8 bytes of the digests of envelopes that it has
	Composes bool     // it may compose a record: proposals and READYs are of use
}

// PullAnswer is what a peer gives to a PullRequest. Whoever has it must not change
// it.
type PullAnswer struct {
	_         struct{} `cbor:",toarray"`
	Items     [][]byte // each the encoding of a ChainItem
	Base      []byte   // newest certificate of a base decision, if it helps
	Envelopes [][]byte // of the open round
}

// Bytes returns the encoding of a.
func (a *PullAnswer) Bytes() []byte { return Marshal(a) }

// Size is about the length of Bytes.
func (a *PullAnswer) Size() int {
	n := len(a.Base)
	for _, list := range [][][]byte{a.Items, a.Envelopes} {
		for _, b := range list {
			n += 4 + len(b)
		}
	}
	return n
}

// OpenPullAnswer decodes what another peer answered, in whatever encoding. Nothing
// in it is checked yet.
func OpenPullAnswer(b []byte) (*PullAnswer, error) {
	a := new(PullAnswer)
	if err := UnmarshalAny(b, a, MaxPullAnswer); err != nil {
		return nil, fmt.Errorf("answer to a pull: %w", err)
	}
	return a, nil
}
