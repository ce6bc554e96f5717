package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode"
)

var update = flag.Bool("update", false, "write docs/format/vectors anew")

const vectorDir = "../docs/format/vectors"

// member is one field of a JSON object whose order counts.
type member struct {
	key   string
	value any
}

type object []member

func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, m := range o {
		v, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		sep := ","
		if i == 0 {
			sep = "{"
		}
		fmt.Fprintf(&b, "%s%q:%s", sep, m.key, v)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// meaning turns a noun into JSON that names its fields in the order of the
// encoding; bytes become hex digits, names of peers and blocks their hex too.
func meaning(v reflect.Value) any {
	switch x := v.Interface().(type) {
	case CID:
		return "hex:" + hex.EncodeToString(x.Bytes())
	case []byte:
		return "hex:" + hex.EncodeToString(x)
	}
	switch v.Kind() {
	case reflect.Pointer:
		return meaning(v.Elem())
	case reflect.Array:
		b := make([]byte, v.Len())
		reflect.Copy(reflect.ValueOf(b), v)
		return "hex:" + hex.EncodeToString(b)
	case reflect.Slice:
		out := []any{}
		for i := range v.Len() {
			out = append(out, meaning(v.Index(i)))
		}
		return out
	case reflect.Struct:
		var out object
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				out = append(out, member{f.Name, meaning(v.Field(i))})
			}
		}
		return out
	case reflect.Uint64, reflect.Uint32:
		return v.Uint()
	}
	return v.Interface()
}

// golden compares v with a file of vectors, or writes it.
func golden(t *testing.T, name string, v any) {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, '\n')
	path := filepath.Join(vectorDir, name)
	if *update {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, want) {
		t.Errorf("%s is not what the code gives; a change of the format is a decision, then: go test ./wire -run Vectors -update", path)
	}
}

func TestVectorsOfNouns(t *testing.T) {
	type vector struct {
		Noun    string `json:"noun"`
		Hex     string `json:"hex"`
		SHA256  string `json:"sha256"`
		Meaning any    `json:"meaning"`
	}
	var all []vector
	for _, n := range samples() {
		b := Marshal(n.value)
		all = append(all, vector{n.name, hex.EncodeToString(b), Sum(b).String(), meaning(reflect.ValueOf(n.value))})
	}
	golden(t, "nouns.json", object{{"about", "one value of each noun in its canonical encoding; meaning names the fields in the order of the CBOR array; hex:... is a byte string"}, {"vectors", all}})
}

func TestVectorsOfSignatures(t *testing.T) {
	e := Seal(keyN(0), KindLeave, digestN(0), 3, Leave{Reason: "bye"})
	leaf := SealEntry(keyN(0), EntryBody{Run: digestN(0), Kind: EntryStart, Ref: RawDigestCID(digestN(0)), Time: 1700000000000})
	var entry Entry
	if err := Unmarshal(leaf, &entry, MaxEntry); err != nil {
		t.Fatal(err)
	}
	sign := func(what string, msg, sig []byte) object {
		return object{{"what", what}, {"seed", hex.EncodeToString(keyN(0).Seed())}, {"public", hex.EncodeToString(keyN(0).Peer().Libp2p())}, {"message", hex.EncodeToString(msg)}, {"signature", hex.EncodeToString(sig)}}
	}
	golden(t, "signatures.json", object{{"about", "what exactly an ed25519 signature covers; public is the libp2p form, its last 32 bytes are the key"},
		{"vectors", []object{sign("envelope: leave", append([]byte(envelopeDomain), e.signed()...), e.Sig), sign("entry: start", append([]byte(entryDomain), entry.Body...), entry.Sig)}}})
}

func TestVectorsOfNames(t *testing.T) {
	var peers, cids, roots []object
	for i := range 4 {
		k, p := keyN(i), keyN(i).Peer()
		peers = append(peers, object{{"seed", hex.EncodeToString(k.Seed())}, {"public", hex.EncodeToString(p[:])}, {"text", p.String()}})
	}
	for _, s := range []string{"", "hived", strings.Repeat("x", 300)} {
		b := []byte(s)
		cids = append(cids, object{{"bytes", hex.EncodeToString(b)}, {"raw", RawCID(b).String()}, {"raw_binary", hex.EncodeToString(RawCID(b).Bytes())}, {"manifest", ManifestCID(b).String()}})
	}
	for _, n := range []int{0, 1, 2, 3, 5, 8, 13} {
		var leaves []Digest
		texts := []string{}
		for i := range n {
			leaves = append(leaves, digestN(i))
			texts = append(texts, digestN(i).String())
		}
		roots = append(roots, object{{"leaves", texts}, {"root", MerkleRoot(leaves).String()}})
	}
	golden(t, "names.json", object{{"about", "peer ids, CIDs and RFC 6962 roots"}, {"peers", peers}, {"cids", cids}, {"roots", roots}})
}

// TestVectorsInPython reads the vectors with a second decoder, in another
// language and with its standard library only.
func TestVectorsInPython(t *testing.T) {
	py, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 to read the vectors with")
	}
	out, err := exec.Command(py, filepath.Join(vectorDir, "check.py")).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("vectors are good")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestFieldsAreDocumented finds each field of each noun on a page of docs/format.
func TestFieldsAreDocumented(t *testing.T) {
	pages, err := filepath.Glob("../docs/format/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	words := map[string]bool{}
	for _, p := range pages {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range strings.FieldsFunc(string(b), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			words[w] = true
		}
	}
	seen := map[reflect.Type]bool{}
	var check func(reflect.Type)
	check = func(typ reflect.Type) {
		switch {
		case typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice:
			check(typ.Elem())
		case typ.Kind() == reflect.Struct && typ != reflect.TypeFor[CID]() && !seen[typ]:
			seen[typ] = true
			for i := range typ.NumField() {
				if f := typ.Field(i); f.Name != "_" {
					if !words[f.Name] {
						t.Errorf("%s.%s stands on no page", typ, f.Name)
					}
					check(f.Type)
				}
			}
		}
	}
	for _, n := range samples() {
		check(reflect.TypeOf(n.value))
	}
	if len(seen) < 25 {
		t.Errorf("%d types", len(seen))
	}
}
