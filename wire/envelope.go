package wire

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
)

// Kind says what the body of an envelope is.
type Kind uint64

// Kinds of envelopes. Numbers are part of the format and never reused.
const (
	KindGenesis  Kind = 1 // Genesis; run is zero
	KindReady    Kind = 2 // Ready
	KindHeader   Kind = 3 // Header
	KindHave     Kind = 4 // Have
	KindProposal Kind = 5 // Record
	KindVote     Kind = 6 // Vote
	KindAttest   Kind = 7 // Attest
	KindHead     Kind = 8 // Head of the sender's log
	KindLeave    Kind = 9 // Leave
	// 10 and 11 are reserved: slices and snapshots need no envelope.
	KindStop Kind = 12 // Stop, by the creator
	KindSums Kind = 13 // digest of an export's SHA256SUMS

	KindGroupHave Kind = 14 // Have of a member, of its group's headers
	KindGroupCut  Kind = 15 // GroupCut
	KindGroupVote Kind = 16 // GroupVote
	KindGroup     Kind = 17 // GroupResult

	KindCosign   Kind = 18 // Cosigned: the sender saw the receiver's log
	KindEvidence Kind = 19 // Evidence of double signing by anybody
)

func (k Kind) String() string {
	names := []string{"", "genesis", "ready", "header", "have", "proposal", "vote", "attest", "head", "leave", "slice", "snapshot", "stop", "sums", "group-have", "group-cut", "group-vote", "group-result", "cosign", "evidence"}
	if k == 0 || uint64(k) >= uint64(len(names)) {
		return fmt.Sprintf("kind-%d", uint64(k))
	}
	return names[k]
}

const envelopeDomain = "hived/envelope/v1\n"

// Envelope is one signed statement. The signature covers every other field, so
// it cannot be moved to another run, round, kind or sender. Fields must not be
// changed after Seal or Open, which keep the bytes.
type Envelope struct {
	_      struct{} `cbor:",toarray"`
	V      uint64   // 1
	Kind   Kind
	Run    RunID
	Round  uint64 // round for all kinds but votes, whose round is the GPBFT instance
	Sender PeerID
	Body   []byte // canonical CBOR of the noun that Kind names
	Sig    []byte

	raw  []byte // the canonical encoding, once known
	name Digest // of raw
}

type envelopeSigned struct {
	_      struct{} `cbor:",toarray"`
	V      uint64
	Kind   Kind
	Run    RunID
	Round  uint64
	Sender PeerID
	Body   []byte
}

func (e *Envelope) signed() []byte {
	return Marshal(envelopeSigned{V: e.V, Kind: e.Kind, Run: e.Run, Round: e.Round, Sender: e.Sender, Body: e.Body})
}

// ErrSignature is returned for an envelope that its sender did not sign.
var ErrSignature = errors.New("signature does not verify")

// Seal signs body, one of this package's nouns or a []byte that is already
// encoded, as a statement of k's owner. Its signature need not be checked again in
// this process.
func Seal(k Key, kind Kind, run RunID, round uint64, body any) Envelope {
	raw, ok := body.([]byte)
	if !ok {
		raw = Marshal(body)
	}
	e := Envelope{V: 1, Kind: kind, Run: run, Round: round, Sender: k.Peer(), Body: raw}
	msg := e.signed()
	e.Sig = k.Sign(envelopeDomain, msg)
	verified.add(signatureDigest(e.Sender, append([]byte(envelopeDomain), msg...), e.Sig), struct{}{}, 1)
	e.raw = Marshal(e)
	e.name = Sum(e.raw)
	return e
}

// Bytes returns the canonical encoding of e. The caller must not change it.
func (e Envelope) Bytes() []byte {
	if e.raw != nil {
		return e.raw
	}
	return Marshal(e)
}

// Digest names e: the SHA-256 of its bytes.
func (e Envelope) Digest() Digest {
	if e.raw != nil {
		return e.name
	}
	return Sum(e.Bytes())
}

// Open decodes and checks an envelope of at most MaxMessage bytes: canonical,
// of version 1, signed by its sender. It does not look into the body, which the
// caller must not change.
func Open(b []byte) (Envelope, error) { return open(b, MaxMessage) }

// OpenBlock is Open for an envelope that travels as a block.
func OpenBlock(b []byte) (Envelope, error) { return open(b, MaxRecord+MaxMessage) }

func open(b []byte, limit int) (Envelope, error) {
	name := Sum(b)
	if e, ok := opened.get(name); ok && len(b) <= limit {
		return e, nil
	}
	var e Envelope
	if err := Unmarshal(b, &e, limit); err != nil {
		return Envelope{}, err
	}
	if e.V != 1 {
		return Envelope{}, fmt.Errorf("envelope of version %d, want 1", e.V)
	}
	if len(e.Sig) != ed25519.SignatureSize || !Verify(e.Sender, envelopeDomain, e.signed(), e.Sig) {
		return Envelope{}, fmt.Errorf("%s of %s: %w", e.Kind, e.Sender.Short(), ErrSignature)
	}
	e.raw, e.name = bytes.Clone(b), name
	if len(b) <= maxOpenedOne {
		opened.add(name, e, 2*len(b)+256)
	}
	return e, nil
}

// RunOf returns the run that an encoded envelope or Slice says it is of, without
// checking anything else; false where there is none.
func RunOf(b []byte) (RunID, bool) {
	switch {
	case len(b) > 3 && b[0] == 0x87 && b[1] == 1 && b[2] < 0x18: // version 1, a small kind
		b = b[3:]
	case len(b) > 4 && b[0] == 0x87 && b[1] == 1 && b[2] == 0x18:
		b = b[4:]
	case len(b) > 1 && b[0] == 0x86: // of a Slice the run is the first
		b = b[1:]
	default:
		return RunID{}, false
	}
	if len(b) < 34 || b[0] != 0x58 || b[1] != 32 {
		return RunID{}, false
	}
	return RunID(b[2:34]), true
}

// Decode reads the body into v, the noun that e.Kind names.
func (e Envelope) Decode(v any) error { return Unmarshal(e.Body, v, MaxBlock) }
