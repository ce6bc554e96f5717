package ledger

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"

	"github.com/apiary-net/hived/wire"
)

// Signature types of the signed-note format.
const (
	algEd25519     = 0x01
	algCosignature = 0x04
)

// keyHash is the four bytes that name a key in a note.
func keyHash(name string, alg byte, p wire.PeerID) uint32 {
	h := sha256.Sum256(append([]byte(name+"\n"+string(rune(alg))), p[:]...))
	return binary.BigEndian.Uint32(h[:])
}

// logKey is the peer's key under the name of its log. It implements note.Signer
// and note.Verifier.
type logKey struct {
	origin string
	peer   wire.PeerID
	key    wire.Key // zero for a verifier
}

func (k logKey) Name() string    { return k.origin }
func (k logKey) KeyHash() uint32 { return keyHash(k.origin, algEd25519, k.peer) }
func (k logKey) Sign(msg []byte) ([]byte, error) {
	return ed25519.Sign(k.key.Private(), msg), nil
}

func (k logKey) Verify(msg, sig []byte) bool {
	return len(sig) == ed25519.SignatureSize && ed25519.Verify(k.peer[:], msg, sig)
}

// WitnessName is the name of a peer as a witness.
func WitnessName(p wire.PeerID) string { return "hived/witness/" + p.String() }

// witnessKey makes and checks cosignatures of C2SP tlog-cosignature, type v1
// over ed25519: eight bytes of time and the signature.
type witnessKey struct {
	peer wire.PeerID
	key  wire.Key
	now  func() time.Time
}

func (k witnessKey) Name() string    { return WitnessName(k.peer) }
func (k witnessKey) KeyHash() uint32 { return keyHash(k.Name(), algCosignature, k.peer) }

func cosigned(at uint64, msg []byte) []byte {
	return append(fmt.Appendf(nil, "cosignature/v1\ntime %d\n", at), msg...)
}

func (k witnessKey) Sign(msg []byte) ([]byte, error) {
	at := uint64(max(0, k.now().Unix()))
	sig := ed25519.Sign(k.key.Private(), cosigned(at, msg))
	return append(binary.BigEndian.AppendUint64(nil, at), sig...), nil
}

func (k witnessKey) Verify(msg, sig []byte) bool {
	if len(sig) != 8+ed25519.SignatureSize {
		return false
	}
	return ed25519.Verify(k.peer[:], cosigned(binary.BigEndian.Uint64(sig), msg), sig[8:])
}

// signHead makes the head of a log.
func signHead(k logKey, size uint64, root wire.Digest) (wire.Head, error) {
	text := log.Checkpoint{Origin: k.origin, Size: size, Hash: root[:]}.Marshal()
	b, err := note.Sign(&note.Note{Text: string(text)}, k)
	if err != nil {
		return wire.Head{}, fmt.Errorf("sign head of size %d: %w", size, err)
	}
	return wire.Head{Origin: k.origin, Size: size, Root: root, Note: b}, nil
}

// ParseHead reads a signed note as the head of peer's log in run and checks its
// signature. Only the one canonical form is taken: the text is made again and
// compared, and so is the base64 of every signature, since decoders are lenient
// (cosignatures by others may follow; they are not checked here).
func ParseHead(b []byte, run wire.RunID, peer wire.PeerID) (wire.Head, error) {
	if len(b) > wire.MaxNote {
		return wire.Head{}, fmt.Errorf("parse head: note of %d bytes, limit %d", len(b), wire.MaxNote)
	}
	k := logKey{origin: wire.LogOrigin(run, peer), peer: peer}
	n, err := note.Open(b, note.VerifierList(k))
	if err != nil {
		return wire.Head{}, fmt.Errorf("parse head of %s: %w", peer, err)
	}
	var c log.Checkpoint
	rest, err := c.Unmarshal([]byte(n.Text))
	if err != nil {
		return wire.Head{}, fmt.Errorf("parse head of %s: %w", peer, err)
	}
	switch {
	case len(rest) != 0 || !bytes.Equal(c.Marshal(), []byte(n.Text)) || !strictSignatures(b, n.Text):
		return wire.Head{}, fmt.Errorf("parse head of %s: %w", peer, wire.ErrNotCanonical)
	case c.Origin != k.origin:
		return wire.Head{}, fmt.Errorf("parse head: origin %q, want %q", c.Origin, k.origin)
	case len(c.Hash) != len(wire.Digest{}) || c.Size > maxSize:
		return wire.Head{}, fmt.Errorf("parse head of %s: size %d, hash of %d bytes", peer, c.Size, len(c.Hash))
	}
	return wire.Head{Origin: c.Origin, Size: c.Size, Root: wire.Digest(c.Hash), Note: bytes.Clone(b)}, nil
}

// strictSignatures reports whether the lines behind the text are signature
// lines in their one form.
func strictSignatures(b []byte, text string) bool {
	rest, ok := bytes.CutPrefix(b, []byte(text+"\n"))
	if !ok {
		return false
	}
	var again []byte
	for line := range strings.Lines(string(rest)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		if len(f) != 3 || f[0] != "—" {
			return false
		}
		raw, err := base64.StdEncoding.DecodeString(f[2])
		if err != nil {
			return false
		}
		again = append(again, "— "+f[1]+" "+base64.StdEncoding.EncodeToString(raw)+"\n"...)
	}
	return bytes.Equal(again, rest)
}

// CheckHead reports whether h says what its note says, as the head of peer's log
// in run.
func CheckHead(h wire.Head, run wire.RunID, peer wire.PeerID) error {
	got, err := ParseHead(h.Note, run, peer)
	if err != nil {
		return err
	}
	if h.Origin != got.Origin || h.Size != got.Size || h.Root != got.Root {
		return fmt.Errorf("head of %s says another thing than its note", peer)
	}
	return nil
}

// parseOrigin reads hived/RUN/log/PEER.
func parseOrigin(s string) (run wire.RunID, p wire.PeerID, err error) {
	f := strings.Split(s, "/")
	if len(f) != 4 || f[0] != "hived" || f[2] != "log" {
		return run, p, fmt.Errorf("origin %q, want hived/RUN/log/PEER", s)
	}
	if run, err = wire.ParseDigest(f[1]); err != nil {
		return run, p, err
	}
	if p, err = wire.ParsePeer(f[3]); err != nil {
		return run, p, err
	}
	if wire.LogOrigin(run, p) != s {
		return run, p, fmt.Errorf("origin %q: %w", s, wire.ErrNotCanonical)
	}
	return run, p, nil
}

// Cosignature returns when witness cosigned the note of a head. The head itself
// must have been checked.
func Cosignature(cosignedNote []byte, witness wire.PeerID) (time.Time, error) {
	if len(cosignedNote) > wire.MaxNote {
		return time.Time{}, fmt.Errorf("note of %d bytes, limit %d", len(cosignedNote), wire.MaxNote)
	}
	n, err := note.Open(cosignedNote, note.VerifierList(witnessKey{peer: witness}))
	if err != nil {
		return time.Time{}, fmt.Errorf("read cosignature of %s: %w", witness, err)
	}
	raw, err := base64.StdEncoding.DecodeString(n.Sigs[0].Base64)
	if err != nil || len(raw) < 12 {
		return time.Time{}, errors.New("cosignature is too short")
	}
	at := binary.BigEndian.Uint64(raw[4:12])
	if at > 1<<40 {
		return time.Time{}, fmt.Errorf("cosignature of second %d", at)
	}
	return time.Unix(int64(at), 0), nil
}
