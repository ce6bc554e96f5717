package elastic

import (
	"bytes"
	"testing"

	"github.com/apiary-net/hived/wire"
)

func FuzzPull(f *testing.F) {
	f.Add(wire.Marshal(pullRequest{Next: 3, Known: [][]byte{{1, 2, 3, 4, 5, 6, 7, 8}}}))
	f.Add(wire.Marshal(Answer{Items: [][]byte{wire.Marshal(chainItem{Record: []byte{1}})}}))
	f.Add(wire.Marshal(slice{Round: 1, Data: []byte{1}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var q pullRequest
		if wire.Unmarshal(b, &q, maxPullRequest) == nil && !bytes.Equal(wire.Marshal(q), b) {
			t.Fatal("a request has two encodings")
		}
		var a Answer
		if wire.Unmarshal(b, &a, maxPullAnswer) == nil && !bytes.Equal(wire.Marshal(a), b) {
			t.Fatal("an answer has two encodings")
		}
		var s slice
		if wire.Unmarshal(b, &s, MaxSlice) == nil && !bytes.Equal(wire.Marshal(s), b) {
			t.Fatal("a slice has two encodings")
		}
		if p, err := ParseProven(b); err == nil && p.Record == nil {
			t.Fatal("a record file without a record")
		}
		_, _ = ParseAttests(b) // must not panic
	})
}
