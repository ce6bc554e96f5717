package wire

import (
	"crypto/ed25519"
	"fmt"
)

// EntryKind says what a log entry records.
type EntryKind uint64

// Kinds of entries. Numbers are part of the format.
const (
	EntryStart        EntryKind = 1 // the peer's first entry in a run; Ref is the genesis
	EntryContribution EntryKind = 2 // a header was signed; Ref is the header envelope, Parent the base version
	EntryRecord       EntryKind = 3 // a record was decided; Ref is the record
	EntryVersion      EntryKind = 4 // a version was computed; Ref is the version, Parent the merged update
	EntrySnapshot     EntryKind = 5 // a snapshot was striped; Ref is the placement
	EntryEvidence     EntryKind = 6 // a proof of double signing is kept; Ref is its block
	EntryWitness      EntryKind = 7 // other peers' heads were cosigned; Extra is a SeenList
	EntryEnd          EntryKind = 8 // the run ended here; Ref is the final version
)

func (k EntryKind) String() string {
	names := []string{"", "start", "contribution", "record", "version", "snapshot", "evidence", "witness", "end"}
	if k == 0 || uint64(k) >= uint64(len(names)) {
		return fmt.Sprintf("kind-%d", uint64(k))
	}
	return names[k]
}

// EntryBody is what one entry of a peer's log says.
type EntryBody struct {
	_      struct{} `cbor:",toarray"`
	V      uint64   // 1
	Run    RunID
	Seq    uint64
	Prev   Digest // SHA-256 of the entry before; zero for entry 0
	Kind   EntryKind
	Time   uint64 // milliseconds since 1970; a note, no rule reads it
	Peer   PeerID
	Ref    CID
	Parent CID
	Round  uint64
	Extra  []byte
}

// Entry is a signed EntryBody. Its canonical bytes are the leaf of the log.
type Entry struct {
	_    struct{} `cbor:",toarray"`
	Body []byte
	Sig  []byte
}

const (
	entryDomain = "hived/ledger/entry/v1\n"
	// MaxEntry bounds the bytes of one entry.
	MaxEntry = 4 << 10
)

// SealEntry signs b with k, whose peer becomes b.Peer, and returns the leaf.
func SealEntry(k Key, b EntryBody) []byte {
	b.V, b.Peer = 1, k.Peer()
	raw := Marshal(b)
	return Marshal(Entry{Body: raw, Sig: k.Sign(entryDomain, raw)})
}

// OpenEntry decodes and checks a leaf.
func OpenEntry(leaf []byte) (EntryBody, error) {
	var e Entry
	var b EntryBody
	if err := Unmarshal(leaf, &e, MaxEntry); err != nil {
		return b, err
	}
	if err := Unmarshal(e.Body, &b, MaxEntry); err != nil {
		return b, err
	}
	if b.V != 1 {
		return b, fmt.Errorf("entry of version %d, want 1", b.V)
	}
	if len(e.Sig) != ed25519.SignatureSize || !Verify(b.Peer, entryDomain, e.Body, e.Sig) {
		return b, fmt.Errorf("entry %d of %s: %w", b.Seq, b.Peer.Short(), ErrSignature)
	}
	return b, nil
}

// Head is a signed statement of a log's size and root: a C2SP tlog-checkpoint.
type Head struct {
	_      struct{} `cbor:",toarray"`
	Origin string   // hived/RUN/log/PEER
	Size   uint64
	Root   Digest
	Note   []byte // the signed note, at most 4 KiB
}

// LogOrigin is the origin line of a peer's log in a run.
func LogOrigin(run RunID, p PeerID) string {
	return fmt.Sprintf("hived/%s/log/%s", run, p)
}
