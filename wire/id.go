package wire

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"
	"github.com/ipfs/go-cid"
	"github.com/multiformats/go-multihash"
)

// Digest is a SHA-256 digest.
type Digest [32]byte

// Sum returns the SHA-256 digest of b.
func Sum(b []byte) Digest { return sha256.Sum256(b) }

// IsZero reports whether d was never set.
func (d Digest) IsZero() bool { return d == Digest{} }

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText gives hex digits, for JSON.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads hex digits.
func (d *Digest) UnmarshalText(b []byte) (err error) {
	*d, err = ParseDigest(string(b))
	return err
}

// Short returns the first eight hex digits, for lines that people read.
func (d Digest) Short() string { return hex.EncodeToString(d[:4]) }

// Compare orders digests by their bytes.
func (d Digest) Compare(e Digest) int { return bytes.Compare(d[:], e[:]) }

// ParseDigest reads 64 hex digits.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(d) {
		return d, fmt.Errorf("parse digest %q: want 64 hex digits", s)
	}
	copy(d[:], b)
	return d, nil
}

// RunID names a run: the digest of its signed genesis envelope.
type RunID = Digest

// Codecs that a CID of hived may name.
const (
	codecRaw  = cid.Raw
	codecCBOR = cid.DagCBOR
)

// CID names bytes by their content: a CIDv1 over SHA-256 whose codec is raw
// (blocks) or dag-cbor (manifests). The zero CID names nothing and encodes as an
// empty byte string. CIDs are comparable.
type CID struct {
	codec  uint64
	digest Digest
}

// RawCID names the block b.
func RawCID(b []byte) CID { return CID{codecRaw, Sum(b)} }

// ManifestCID names the canonical CBOR b.
func ManifestCID(b []byte) CID { return CID{codecCBOR, Sum(b)} }

// RawDigestCID names the block whose SHA-256 digest is d.
func RawDigestCID(d Digest) CID { return CID{codecRaw, d} }

// Digest returns the SHA-256 digest inside c.
func (c CID) Digest() Digest { return c.digest }

// IsZero reports whether c names nothing.
func (c CID) IsZero() bool { return c == CID{} }

// Names reports whether b is what c names.
func (c CID) Names(b []byte) bool { return !c.IsZero() && c.digest == Sum(b) }

func (c CID) cid() cid.Cid {
	mh, err := multihash.Encode(c.digest[:], multihash.SHA2_256)
	if err != nil {
		panic(fmt.Sprintf("wire: encode multihash: %v", err))
	}
	return cid.NewCidV1(c.codec, mh)
}

// Bytes returns the binary form: 36 bytes, or none for the zero CID.
func (c CID) Bytes() []byte {
	if c.IsZero() {
		return nil
	}
	return c.cid().Bytes()
}

func (c CID) String() string {
	if c.IsZero() {
		return ""
	}
	return c.cid().String()
}

// Short returns the last eight characters of the text form.
func (c CID) Short() string {
	s := c.String()
	return s[max(0, len(s)-8):]
}

func fromCid(x cid.Cid) (CID, error) {
	p := x.Prefix()
	if p.Version != 1 || p.MhType != multihash.SHA2_256 || p.MhLength != 32 || (p.Codec != codecRaw && p.Codec != codecCBOR) {
		return CID{}, fmt.Errorf("cid %s: want CIDv1, sha2-256, raw or dag-cbor", x)
	}
	mh, err := multihash.Decode(x.Hash())
	if err != nil {
		return CID{}, err
	}
	c := CID{codec: p.Codec}
	copy(c.digest[:], mh.Digest)
	return c, nil
}

// ParseCID reads the text form.
func ParseCID(s string) (CID, error) {
	x, err := cid.Decode(s)
	if err != nil {
		return CID{}, fmt.Errorf("parse cid %q: %w", s, err)
	}
	return fromCid(x)
}

// CIDFromBytes reads the binary form; no bytes give the zero CID.
func CIDFromBytes(b []byte) (CID, error) {
	if len(b) == 0 {
		return CID{}, nil
	}
	if len(b) != 36 {
		return CID{}, fmt.Errorf("cid of %d bytes, want 36", len(b))
	}
	x, err := cid.Cast(b)
	if err != nil {
		return CID{}, fmt.Errorf("decode cid: %w", err)
	}
	return fromCid(x)
}

// MarshalText gives the text form, for JSON; the zero CID is empty.
func (c CID) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads the text form.
func (c *CID) UnmarshalText(b []byte) (err error) {
	if len(b) == 0 {
		*c = CID{}
		return nil
	}
	*c, err = ParseCID(string(b))
	return err
}

// MarshalCBOR implements the canonical encoding: a byte string.
func (c CID) MarshalCBOR() ([]byte, error) { return encMode.Marshal(c.Bytes()) }

// UnmarshalCBOR reads a byte string of 0 or 36 bytes.
func (c *CID) UnmarshalCBOR(b []byte) error {
	var raw []byte
	if err := decMode.Unmarshal(b, &raw); err != nil {
		return err
	}
	got, err := CIDFromBytes(raw)
	if err != nil {
		return err
	}
	*c = got
	return nil
}

// peerPrefix is what stands before an ed25519 key in the bytes of a libp2p peer
// id: identity multihash, 36 bytes, protobuf key type 1, 32 bytes of key.
var peerPrefix = []byte{0x00, 0x24, 0x08, 0x01, 0x12, 0x20}

// PeerID is a peer's ed25519 public key. All libp2p ids of such keys share one
// prefix, so the order of keys is the order of peer ids.
type PeerID [ed25519.PublicKeySize]byte

// IsZero reports whether p names nobody.
func (p PeerID) IsZero() bool { return p == PeerID{} }

// Compare orders peers by their ids' bytes: the canonical fold order.
func (p PeerID) Compare(q PeerID) int { return bytes.Compare(p[:], q[:]) }

// Libp2p returns the bytes of the libp2p peer id.
func (p PeerID) Libp2p() []byte { return append(append([]byte{}, peerPrefix...), p[:]...) }

// String returns the libp2p text form, 12D3KooW...
func (p PeerID) String() string { return multihash.Multihash(p.Libp2p()).B58String() }

// Short returns the last six characters of the text form.
func (p PeerID) Short() string {
	s := p.String()
	return s[len(s)-6:]
}

// MarshalText gives the libp2p text form, for JSON.
func (p PeerID) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads the libp2p text form.
func (p *PeerID) UnmarshalText(b []byte) (err error) {
	*p, err = ParsePeer(string(b))
	return err
}

// PeerFromLibp2p reads the bytes of a libp2p peer id of an ed25519 key.
func PeerFromLibp2p(b []byte) (PeerID, error) {
	var p PeerID
	if len(b) != len(peerPrefix)+len(p) || !bytes.HasPrefix(b, peerPrefix) {
		return p, errors.New("peer id is not that of an ed25519 key")
	}
	copy(p[:], b[len(peerPrefix):])
	return p, nil
}

// ParsePeer reads the text form.
func ParsePeer(s string) (PeerID, error) {
	mh, err := multihash.FromB58String(s)
	if err != nil {
		return PeerID{}, fmt.Errorf("parse peer id %q: %w", s, err)
	}
	p, err := PeerFromLibp2p(mh)
	if err != nil {
		return PeerID{}, fmt.Errorf("parse peer id %q: %w", s, err)
	}
	return p, nil
}

// Key is a peer's private ed25519 key. Its zero value signs nothing.
type Key struct{ priv ed25519.PrivateKey }

// NewKey makes a key from the system's random source.
func NewKey() Key {
	_, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(fmt.Sprintf("wire: generate key: %v", err))
	}
	return Key{priv}
}

// KeyFromSeed makes the key of a 32-byte seed.
func KeyFromSeed(seed []byte) (Key, error) {
	if len(seed) != ed25519.SeedSize {
		return Key{}, fmt.Errorf("key seed of %d bytes, want %d", len(seed), ed25519.SeedSize)
	}
	return Key{ed25519.NewKeyFromSeed(seed)}, nil
}

// Seed returns the 32 secret bytes.
func (k Key) Seed() []byte { return k.priv.Seed() }

// Private returns the key in the standard library's form; the caller must not
// change it.
func (k Key) Private() ed25519.PrivateKey { return k.priv }

// Peer returns the public half.
func (k Key) Peer() PeerID {
	var p PeerID
	copy(p[:], k.priv.Public().(ed25519.PublicKey))
	return p
}

// Sign signs domain followed by msg. Domains end in a newline and are never a
// prefix of each other.
func (k Key) Sign(domain string, msg []byte) []byte {
	return ed25519.Sign(k.priv, append([]byte(domain), msg...))
}

// Verify checks a signature made by Key.Sign.
func Verify(p PeerID, domain string, msg, sig []byte) bool {
	if len(sig) != ed25519.SignatureSize {
		return false
	}
	full := append([]byte(domain), msg...)
	d := signatureDigest(p, full, sig)
	if _, ok := verified.get(d); ok {
		return true
	}
	if !ed25519.Verify(p[:], full, sig) {
		return false
	}
	verified.add(d, struct{}{}, 1)
	return true
}

var _ cbor.Marshaler = CID{}
