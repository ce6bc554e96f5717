package daemon

import (
	"testing"

	"github.com/libp2p/go-libp2p/core/crypto"
	lpeer "github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/apiary-net/hived/wire"
)

// TestPeerIDsAreLibp2ps compares wire's forms of a peer id with go-libp2p's.
func TestPeerIDsAreLibp2ps(t *testing.T) {
	for range 20 {
		k := wire.NewKey()
		priv, err := crypto.UnmarshalEd25519PrivateKey(k.Private())
		if err != nil {
			t.Fatal(err)
		}
		id, err := lpeer.IDFromPrivateKey(priv)
		if err != nil {
			t.Fatal(err)
		}
		if p := k.Peer(); id.String() != p.String() || string(id) != string(p.Libp2p()) {
			t.Errorf("%s here, %s there", p, id)
		}
		if p, err := wire.ParsePeer(id.String()); err != nil || p != k.Peer() {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// TestMerkleRootIsTlogs compares wire's root with that of the module the
// checksum database uses.
func TestMerkleRootIsTlogs(t *testing.T) {
	var stored []tlog.Hash
	hashes := tlog.HashReaderFunc(func(ix []int64) ([]tlog.Hash, error) {
		var out []tlog.Hash
		for _, i := range ix {
			out = append(out, stored[i])
		}
		return out, nil
	})
	var leaves []wire.Digest
	for n := range 66 {
		root, err := tlog.TreeHash(int64(n), hashes)
		if err != nil {
			t.Fatal(err)
		}
		if got := wire.MerkleRoot(leaves); got != wire.Digest(root) {
			t.Fatalf("%d leaves: %s, want %s", n, got, wire.Digest(root))
		}
		leaf := wire.Sum([]byte{byte(n)})
		hs, err := tlog.StoredHashes(int64(n), leaf[:], hashes)
		if err != nil {
			t.Fatal(err)
		}
		stored, leaves = append(stored, hs...), append(leaves, leaf)
	}
}
