package ledger

import (
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/apiary-net/hived/wire"
)

// TestNoteForms: a head is taken in one form only.
func TestNoteForms(t *testing.T) {
	l := open(t, newMemKV(), testKey(1))
	h := grow(t, l, 5, rand.New(rand.NewPCG(1, 1)))[0]
	p := testKey(1).Peer()
	s := string(h.Note)
	lines := strings.Split(s, "\n")
	sig := lines[4][strings.LastIndex(lines[4], " ")+1:]
	// The last base64 digit before the padding holds spare bits.
	spare := []byte(sig)
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	at := strings.IndexByte(sig, '=') - 1
	if at < 0 {
		t.Fatalf("signature %q has no padding", sig)
	}
	spare[at] = digits[strings.IndexByte(digits, sig[at])|1]
	rootSpare := []byte(lines[2])
	rootSpare[42] = digits[strings.IndexByte(digits, rootSpare[42])|1]
	for name, bad := range map[string]string{
		"spare bits of signature": strings.Replace(s, sig, string(spare), 1),
		"line break in base64":    strings.Replace(s, sig, sig[:10]+"\r"+sig[10:], 1),
		"spare bits of root":      strings.Replace(s, lines[2], string(rootSpare), 1),
		"plus size":               strings.Replace(s, "\n"+lines[1]+"\n", "\n+"+lines[1]+"\n", 1),
		"zero size":               strings.Replace(s, "\n"+lines[1]+"\n", "\n0"+lines[1]+"\n", 1),
		"extra line":              strings.Replace(s, "\n\n", "\nmore\n\n", 1),
		"no signature":            strings.Join(lines[:4], "\n"),
		"trailing":                s + "x",
		"long":                    s + strings.Repeat("x", wire.MaxNote),
	} {
		if bad == s {
			t.Errorf("%s: nothing was changed", name)
		}
		if _, err := ParseHead([]byte(bad), testRun, p); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if _, err := ParseHead(h.Note, testRun, testKey(2).Peer()); err == nil {
		t.Error("a head of another peer was taken")
	}
	if _, err := ParseHead(h.Note, wire.Sum(nil), p); err == nil {
		t.Error("a head of another run was taken")
	}
	h.Size++
	if CheckHead(h, testRun, p) == nil {
		t.Error("a head that is not its note was taken")
	}
	// The public form: an independent verifier key of the note library.
	vkey, err := note.NewEd25519VerifierKey(h.Origin, p[:])
	if err != nil {
		t.Fatal(err)
	}
	v, err := note.NewVerifier(vkey)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := note.Open(h.Note, note.VerifierList(v)); err != nil {
		t.Errorf("the note library refuses a head: %v", err)
	}
}
