package wire

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"
)

func TestTextForms(t *testing.T) {
	for i := range 50 {
		p, d := keyN(i).Peer(), digestN(i)
		if got, err := ParsePeer(p.String()); err != nil || got != p {
			t.Fatalf("peer %s: %v", p, err)
		}
		if got, err := PeerFromLibp2p(p.Libp2p()); err != nil || got != p {
			t.Fatalf("peer bytes: %v", err)
		}
		if got, err := ParseDigest(d.String()); err != nil || got != d {
			t.Fatalf("digest %s: %v", d, err)
		}
		for _, c := range []CID{RawDigestCID(d), ManifestCID(d[:]), {}} {
			got, err := CIDFromBytes(c.Bytes())
			if err != nil || got != c {
				t.Fatalf("cid bytes %x: %v", c.Bytes(), err)
			}
			if c.IsZero() {
				continue
			}
			if got, err := ParseCID(c.String()); err != nil || got != c {
				t.Fatalf("cid %s: %v", c, err)
			}
		}
	}
	b := []byte("block")
	if !RawCID(b).Names(b) || RawCID(b).Names([]byte("blocl")) || (CID{}).Names(nil) || RawCID(b) == ManifestCID(b) {
		t.Error("what a CID names")
	}
}

func TestJSONForms(t *testing.T) {
	type all struct {
		D Digest
		C CID
		Z CID
		P PeerID
	}
	in := all{digestN(1), ManifestCID([]byte("x")), CID{}, keyN(1).Peer()}
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out all
	if err := json.Unmarshal(b, &out); err != nil || out != in {
		t.Errorf("%s gives %+v, %v", b, out, err)
	}
}

func TestTextRefusals(t *testing.T) {
	cidV0 := "QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWKgdk7"[:46]
	for _, s := range []string{"", "x", keyN(0).Peer().String()[1:], keyN(0).Peer().String() + "1", cidV0, "0OIl"} {
		if _, err := ParsePeer(s); err == nil {
			t.Errorf("peer %q is accepted", s)
		}
	}
	for _, s := range []string{"", "b", cidV0, RawCID(nil).String() + "a", "bafkqaaa"} { // the last has an identity hash
		if _, err := ParseCID(s); err == nil {
			t.Errorf("cid %q is accepted", s)
		}
	}
	for _, s := range []string{"", "00", digestN(0).String() + "00", "zz" + digestN(0).String()[2:]} {
		if _, err := ParseDigest(s); err == nil {
			t.Errorf("digest %q is accepted", s)
		}
	}
	good := RawCID(nil).Bytes()
	for i := range 4 { // version, codec, hash, length
		bad := bytes.Clone(good)
		bad[i] ^= 0x03
		if _, err := CIDFromBytes(bad); err == nil {
			t.Errorf("cid %x is accepted", bad)
		}
	}
	if _, err := CIDFromBytes(good[:35]); err == nil {
		t.Error("a short cid is accepted")
	}
	if _, err := PeerFromLibp2p(make([]byte, 38)); err == nil {
		t.Error("a peer id of another key type is accepted")
	}
	if _, err := KeyFromSeed(make([]byte, 31)); err == nil {
		t.Error("a seed of 31 bytes is accepted")
	}
}

// TestPeerOrder: the order of keys is the order of peer ids' bytes.
func TestPeerOrder(t *testing.T) {
	ps := peersN(20)
	for i := 1; i < len(ps); i++ {
		if ps[i-1].Compare(ps[i]) >= 0 || bytes.Compare(ps[i-1].Libp2p(), ps[i].Libp2p()) >= 0 {
			t.Errorf("peers %d and %d are out of order", i-1, i)
		}
	}
}

// TestMerkleRoot compares with RFC 6962 told the other way: leaves are paired
// level by level, an odd one goes up as it is.
func TestMerkleRoot(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for n := range 70 {
		leaves := make([]Digest, n)
		level := make([]Digest, n)
		for i := range leaves {
			for j := range leaves[i] {
				leaves[i][j] = byte(rng.Uint32())
			}
			level[i] = Sum(append([]byte{0}, leaves[i][:]...))
		}
		for len(level) > 1 {
			var up []Digest
			for i := 0; i < len(level); i += 2 {
				if i+1 == len(level) {
					up = append(up, level[i])
					continue
				}
				up = append(up, Sum(append(append([]byte{1}, level[i][:]...), level[i+1][:]...)))
			}
			level = up
		}
		want := Sum(nil)
		if n > 0 {
			want = level[0]
		}
		if got := MerkleRoot(leaves); got != want {
			t.Fatalf("%d leaves: %s, want %s", n, got, want)
		}
	}
}
