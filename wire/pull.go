package wire

import "fmt"

// Kinds of pulls. Numbers are part of the format.
const (
	PullRun      = 1 // PullRequest; answered with a PullAnswer
	PullGenesis  = 2 // GenesisQuery; answered with the sealed genesis
	PullLog      = 3 // LogQuery; answered with a LogAnswer
	PullSnapshot = 4 // the run, 32 bytes; answered with its newest Snapshot
	PullProof    = 5 // ProofQuery; answered with the digests of the proof
)

// MaxPull bounds a Pull.
const MaxPull = 128 << 10

// Pull is a request to a peer: Kind says what Body is.
type Pull struct {
	_    struct{} `cbor:",toarray"`
	Kind uint64
	Body []byte
}

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

// maxQuery bounds the queries below.
const maxQuery = 1 << 10

// GenesisQuery names a run, by id or else by name.
type GenesisQuery struct {
	_    struct{} `cbor:",toarray"`
	Run  RunID
	Name string
}

// Names reports whether q asks for a run.
func (q *GenesisQuery) Names(run RunID, name string) bool {
	return run == q.Run || q.Run.IsZero() && name == q.Name
}

// LogQuery asks for entries of the asked peer's log in a run.
type LogQuery struct {
	_   struct{} `cbor:",toarray"`
	Run RunID
	Lo  uint64
}

// Bounds of a LogAnswer: of its encoding, and of the entries that are put in.
const (
	MaxLogAnswer = 4 << 20
	LogBudget    = 3 << 20
)

// LogAnswer is a head and entries from LogQuery.Lo on, as many as fit.
type LogAnswer struct {
	_       struct{} `cbor:",toarray"`
	Head    Head
	Entries [][]byte
}

// ProofQuery asks for the proof that a log of New entries begins with Old ones.
type ProofQuery struct {
	_        struct{} `cbor:",toarray"`
	Run      RunID
	Old, New uint64
}

// OpenQuery decodes a GenesisQuery, LogQuery or ProofQuery.
func OpenQuery[T GenesisQuery | LogQuery | ProofQuery](b []byte) (T, error) {
	var q T
	err := Unmarshal(b, &q, maxQuery)
	return q, err
}
