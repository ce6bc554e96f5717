package wire

import (
	"bytes"
	"testing"
)

// FuzzPullAnswer opens answers in any encoding, as production does. What was
// opened has one canonical form, and is no larger than what came in allows.
func FuzzPullAnswer(f *testing.F) {
	f.Add(Marshal(PullAnswer{Items: [][]byte{Marshal(ChainItem{Record: []byte{1}})}, Base: []byte{2}, Envelopes: [][]byte{{3}, {}}}))
	f.Add([]byte{0x83, 0x99, 0, 1, 0x41, 1, 0x40, 0x80}) // with a length in more bytes than it needs
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := OpenPullAnswer(b)
		if err != nil {
			return
		}
		if a.Size() > 5*len(b) {
			t.Errorf("%d bytes opened to %d", len(b), a.Size())
		}
		again, err := OpenPullAnswer(a.Bytes())
		if err != nil || !bytes.Equal(again.Bytes(), a.Bytes()) {
			t.Errorf("%x comes back as %x: %v", a.Bytes(), again.Bytes(), err)
		}
	})
}

// FuzzChainItem opens items as production does, in any encoding of their frame.
func FuzzChainItem(f *testing.F) {
	it := sampleItem()
	f.Add(Marshal(it))
	f.Add(append([]byte{0x98, 3}, Marshal(it)[1:]...))
	it.Cert, it.Start = nil, Seal(keyN(0), KindProposal, digestN(0), 0, sampleRecord()).Bytes()
	f.Add(Marshal(it))
	f.Fuzz(func(t *testing.T, in []byte) {
		b := bytes.Clone(in) // Once wants bytes that do not change, the fuzzer's do
		it, err := OpenChainItem(b)
		if err != nil {
			return
		}
		if it.Rec.Digest() != Sum(it.Record) {
			t.Error("the record is not the one of its bytes")
		}
		if it.Lean && (len(it.Start) > 0 || !bytes.Equal(Marshal(it.ChainItem), b)) {
			t.Error("an item with more than it needs may be kept as it is")
		}
		if c, err := it.OpenCert(); err == nil && c != nil && !bytes.Equal(Marshal(c), it.Cert) {
			t.Error("the certificate is not the one of its bytes")
		}
		again, err := OpenChainItem(Marshal(it.ChainItem))
		if err != nil || again.Rec.Digest() != it.Rec.Digest() || again.Lean != (len(it.Start) == 0) {
			t.Errorf("the canonical form is another item: %v", err)
		}
		if p, err := OpenProven(b); err == nil && (p.Record.Digest() != it.Rec.Digest() || !bytes.Equal(b, Marshal(it.ChainItem))) {
			t.Error("an export holds another record, or one in another encoding")
		}
	})
}

// FuzzQueries opens what peers ask for. One body is one query: none is taken for
// another.
func FuzzQueries(f *testing.F) {
	f.Add(Marshal(GenesisQuery{Name: "demo"}))
	f.Add(Marshal(LogQuery{Run: digestN(0), Lo: 5}))
	f.Add(Marshal(ProofQuery{Run: digestN(0), Old: 5, New: 7}))
	f.Add(Marshal(Pull{Kind: PullLog, Body: []byte{1}}))
	f.Add(Marshal(PullRequest{Next: 3, Known: [][]byte{{1, 2, 3, 4, 5, 6, 7, 8}}}))
	f.Add(Marshal(Slice{Round: 1, Data: []byte{1}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		as := 0
		taken := func(err error) {
			if err == nil {
				as++
			}
		}
		_, err := OpenQuery[GenesisQuery](b)
		taken(err)
		_, err = OpenQuery[LogQuery](b)
		taken(err)
		_, err = OpenQuery[ProofQuery](b)
		taken(err)
		taken(Unmarshal(b, &Pull{}, MaxPull))
		taken(Unmarshal(b, &Slice{}, MaxSlice))
		var q PullRequest
		err = Unmarshal(b, &q, MaxPullRequest)
		if taken(err); err == nil && len(q.Known) > len(b) {
			t.Errorf("%d digests of %d bytes", len(q.Known), len(b))
		}
		if as > 1 {
			t.Errorf("%x is %d queries at once", b, as)
		}
	})
}

// FuzzSnapshot opens placements: each block of a stripe has one holder, and the
// holders together hold all that there is.
func FuzzSnapshot(f *testing.F) {
	s := sampleSnapshot()
	f.Add(Marshal(s))
	s.Stripes = nil
	f.Add(Marshal(s))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := OpenSnapshot(b)
		if err != nil || len(s.Stripes) == 0 {
			return
		}
		holders := map[PeerID]bool{}
		want, held := len(s.Blocks), 0
		for _, st := range s.Stripes {
			want += len(st.Parity)
			for _, h := range st.Holders {
				holders[h] = true
			}
		}
		for h := range holders {
			held += len(s.Held(h))
		}
		if held != want {
			t.Errorf("%d holders hold %d blocks of %d", len(holders), held, want)
		}
	})
}

// FuzzManifest opens manifests: the values fill the blocks, all but the last one.
func FuzzManifest(f *testing.F) {
	m := sampleManifest()
	f.Add(Marshal(&m))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := OpenManifest(ManifestCID(b), b)
		if err != nil {
			return
		}
		for _, v := range m.Vectors {
			bytes, blocks := v.Len*uint64(v.Width()), uint64(len(v.Blocks))
			if bytes > blocks*MaxBlock || blocks > 0 && bytes <= (blocks-1)*MaxBlock {
				t.Errorf("%d bytes in %d blocks", bytes, blocks)
			}
		}
		if _, err := OpenManifest(ManifestCID(append(b, 0)), b); err == nil {
			t.Error("a manifest under another name")
		}
	})
}

// FuzzAttestList opens the attestations of an export: each is signed by its sender.
func FuzzAttestList(f *testing.F) {
	e := Seal(keyN(0), KindAttest, digestN(0), 7, Attest{Version: cidN(1)})
	f.Add(Marshal(AttestList{Envelopes: [][]byte{e.Bytes(), e.Bytes()}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := OpenAttestList(b)
		if err != nil {
			return
		}
		var l AttestList
		for _, e := range all {
			if !Verify(e.Sender, envelopeDomain, e.signed(), e.Sig) {
				t.Errorf("%s did not sign it", e.Sender.Short())
			}
			l.Envelopes = append(l.Envelopes, e.Bytes())
		}
		if !bytes.Equal(Marshal(l), b) {
			t.Error("the list is not the one of its envelopes")
		}
	})
}
