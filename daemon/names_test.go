package daemon

import (
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/crypto"
	lpeer "github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/elastic/rules"
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

// TestUnknownNamesAreRefused: a genesis may name what this program does not have;
// it takes no part then, and says what is lacking.
func TestUnknownNamesAreRefused(t *testing.T) {
	d, _ := started(t)
	for what, f := range map[string]func(*wire.Preset){
		`codec "topk"`:           func(p *wire.Preset) { p.Codec = "topk" },
		`aggregator "krum"`:      func(p *wire.Preset) { p.Aggregator = "krum" },
		`outer step "elastic"`:   func(p *wire.Preset) { p.Outer.Rule = "elastic" },
		`inner optimizer "lion"`: func(p *wire.Preset) { p.Inner.Optimizer = "lion" },
	} {
		preset, err := rules.PresetNamed("diloco")
		if err != nil {
			t.Fatal(err)
		}
		g := wire.Genesis{V: 1, Numerics: 1, Name: "later", Creator: d.ID(), Model: wire.ModelSpec{Name: "convnet", Args: []wire.Arg{}}, Preset: preset.Preset,
			Data: []wire.DataContract{{Name: "mnist", Train: 1, Test: 1}}, PartValues: 4096, Rounds: 1, MinPeers: 1, MinCounted: 1, MinVoters: 1, Group: 2,
			Deadline: wire.Deadline{MinMs: 1, MaxMs: 2, Mads: 1}, Admission: wire.Admission{Mode: "open"}}
		g.Preset.Inner.Optimizer, g.Preset.Inner.Batch = "sgd", 1
		f(&g.Preset)
		sealed := wire.Seal(d.key, wire.KindGenesis, wire.RunID{}, 0, &g).Bytes()
		if _, _, err := wire.OpenGenesis(sealed); err != nil {
			t.Fatalf("%s: the form: %v", what, err)
		}
		_, err = d.StartRun(sealed)
		if err == nil || exit.CodeOf(err) != exit.Integrity || !strings.Contains(err.Error(), what+" is not one of") {
			t.Errorf("%s: exit code %d, %v", what, exit.CodeOf(err), err)
		}
	}
}
