package wire

import (
	"bytes"
	"testing"
)

func FuzzPull(f *testing.F) {
	f.Add(Marshal(PullRequest{Next: 3, Known: [][]byte{{1, 2, 3, 4, 5, 6, 7, 8}}}))
	f.Add(Marshal(PullAnswer{Items: [][]byte{Marshal(ChainItem{Record: []byte{1}})}}))
	f.Add(Marshal(Slice{Round: 1, Data: []byte{1}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var q PullRequest
		if Unmarshal(b, &q, MaxPullRequest) == nil && !bytes.Equal(Marshal(q), b) {
			t.Fatal("a request has two encodings")
		}
		var a PullAnswer
		if Unmarshal(b, &a, MaxPullAnswer) == nil && !bytes.Equal(Marshal(a), b) {
			t.Fatal("an answer has two encodings")
		}
		var s Slice
		if Unmarshal(b, &s, MaxSlice) == nil && !bytes.Equal(Marshal(s), b) {
			t.Fatal("a slice has two encodings")
		}
		if p, err := OpenProven(b); err == nil && p.Record == nil {
			t.Fatal("a record file without a record")
		}
		_, _ = OpenAttestList(b) // must not panic
	})
}
