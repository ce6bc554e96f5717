package gpbft

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/filecoin-project/go-f3/gpbft"

	"github.com/apiary-net/hived/wire"
)

var update = flag.Bool("update", false, "write docs/format/vectors/certificate.json anew")

const vectorFile = "../../docs/format/vectors/certificate.json"

// TestVectorsOfCertificates puts the bytes that a certificate's signatures cover
// together by hand, has three voters sign them, and verifies the certificate.
func TestVectorsOfCertificates(t *testing.T) {
	run := wire.Sum([]byte("run"))
	table := wire.Table{}
	for i := range 4 {
		table = append(table, wire.Power{Rank: uint32(i), Peer: testKey(i).Peer(), Power: 1})
	}
	tableDigest := wire.Sum(wire.Marshal(table))
	c := wire.Cert{V: 1, Instance: 9, BaseRound: 6, Base: wire.Sum([]byte("record 6")), BaseTable: tableDigest, Round: 7, Value: wire.Sum([]byte("record 7")), ValTable: tableDigest}
	chain := chainOf([]wire.Tip{{Round: 6, Record: c.Base, Table: c.BaseTable}, {Round: 7, Record: c.Value, Table: c.ValTable}})
	key := chain.Key()
	u64 := func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
	type part struct {
		What string `json:"what"`
		Hex  string `json:"hex"`
	}
	var parts []part
	var msg []byte
	for _, p := range []struct {
		what string
		b    []byte
	}{
		{"domain", []byte(voteDomain)}, {"go-f3's tag", []byte("GPBFT:")}, {"network name: hived/ and the run id", []byte("hived/" + run.String())}, {"separator", []byte(":")},
		{"phase DECIDE", []byte{byte(gpbft.DECIDE_PHASE)}}, {"GPBFT round, 0 in DECIDE", u64(0)}, {"instance", u64(c.Instance)}, {"commitments, unused", make([]byte, 32)},
		{"key of the chain base, value: keccak256 tree, see docs/format/certificate.md", key[:]}, {"power table: CIDv1, dag-cbor, blake2b-256 of the base table's digest", gpbft.MakeCid(c.BaseTable[:]).Bytes()},
	} {
		parts = append(parts, part{p.what, hex.EncodeToString(p.b)})
		msg = append(msg, p.b...)
	}
	for i := range 3 {
		c.Signers = append(c.Signers, uint32(i))
		c.Sigs = append(c.Sigs, testKey(i).Sign("", msg)...) // the domain stands in msg
	}
	if err := Verify(run, &c, table); err != nil {
		t.Fatalf("the certificate over the bytes put together by hand: %v", err)
	}
	forge(t, run, c, table)
	b, err := json.MarshalIndent(map[string]any{"about": "a certificate by three of four voters, and the bytes that each signature covers",
		"certificate": hex.EncodeToString(wire.Marshal(&c)), "table": hex.EncodeToString(wire.Marshal(table)), "run": run.String(), "message": hex.EncodeToString(msg), "message_parts": parts}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, '\n')
	if *update {
		if err := os.WriteFile(vectorFile, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(vectorFile)
	if err != nil || !bytes.Equal(b, want) {
		t.Errorf("%s is not what the code gives (%v); after a decision to change the format: -update", vectorFile, err)
	}
}

// forge changes each field of a certificate; none may verify.
func forge(t *testing.T, run wire.RunID, good wire.Cert, table wire.Table) {
	t.Helper()
	other := wire.Sum([]byte("other"))
	for what, f := range map[string]func(*wire.Cert){
		"instance":   func(c *wire.Cert) { c.Instance++ },
		"base":       func(c *wire.Cert) { c.Base = other },
		"base table": func(c *wire.Cert) { c.BaseTable = other },
		"base round": func(c *wire.Cert) { c.BaseRound, c.Round = 7, 8 },
		"value":      func(c *wire.Cert) { c.Value = other },
		"table":      func(c *wire.Cert) { c.ValTable = other },
		"round":      func(c *wire.Cert) { c.Round = 8 },
		"base decision": func(c *wire.Cert) {
			c.Value, c.Round, c.ValTable = wire.Digest{}, c.BaseRound, c.BaseTable
		},
		"signers":   func(c *wire.Cert) { c.Signers = []uint32{0, 1, 3} },
		"too few":   func(c *wire.Cert) { c.Signers, c.Sigs = c.Signers[:2], c.Sigs[:128] },
		"stranger":  func(c *wire.Cert) { c.Signers = []uint32{0, 1, 9} },
		"signature": func(c *wire.Cert) { c.Sigs = append(bytes.Clone(c.Sigs[:191]), c.Sigs[191]^1) },
	} {
		c := good
		f(&c)
		if Verify(run, &c, table) == nil {
			t.Errorf("a certificate of another %s verifies", what)
		}
	}
	if Verify(other, &good, table) == nil {
		t.Error("a certificate verifies in another run")
	}
}
