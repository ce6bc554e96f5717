package data

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTokens(t *testing.T) {
	dir := write(t, map[string]string{"a.txt": strings.Repeat("0123456789", 30), "t.jsonl": "{\"text\":\"one\"}\n\n{\"text\":[\"two\",\"three\"]}\n{\"text\":\"one\"}\n", "e/x.txt": "q"})
	d, err := Open(Spec{Format: "text", Path: filepath.Join(dir, "a.txt"), Context: 8, Tail: 0.2})
	if err != nil {
		t.Fatal(err)
	}
	if d.Len(Train) != 29 || d.Len(Valid) != 7 || d.Form().Classes != 256 {
		t.Fatalf("%d and %d windows, %+v", d.Len(Train), d.Len(Valid), d.Form())
	}
	x := Batch{Int: make([]int32, 16), Labels: make([]int32, 16), Keys: []uint64{0, 3}}
	if err := d.Batch(Train, []int{1, 28}, &x); err != nil {
		t.Fatal(err)
	}
	if x.Int[0] != '8' || x.Labels[0] != '9' || x.Labels[7] != '6' || x.Int[8] != '7' || x.Labels[15] != '5'+0 {
		t.Errorf("%v %v", x.Int, x.Labels)
	}
	j, err := Open(Spec{Format: "jsonl", Path: filepath.Join(dir, "t.jsonl"), Context: 4})
	if err != nil || !slices.Equal(j.(*tokens).splits[Train], []int32{'o', 'n', 'e', 't', 'w', 'o', '\n', 't', 'h', 'r', 'e', 'e'}) {
		t.Errorf("%v, %v", j, err)
	}
	refuse(t, "too short", Spec{Format: "text", Path: filepath.Join(dir, "e")}, "no window")
	refuse(t, "field", Spec{Format: "jsonl", Path: filepath.Join(dir, "t.jsonl"), Field: "body"}, `t.jsonl:1: no field "body"`)
	refuse(t, "no JSON", Spec{Format: "jsonl", Path: filepath.Join(dir, "a.txt")}, "a.txt:1")
	refuse(t, "a number", Spec{Format: "jsonl", Path: filepath.Join(write(t, map[string]string{"n": `{"text":3}`}), "n")}, "neither a string")
	refuse(t, "cut gzip", Spec{Format: "text", Path: filepath.Join(write(t, map[string]string{"z": string(zipped(make([]byte, 900))[:20])}), "z")}, "EOF")
	refuse(t, "no file", Spec{Format: "text", Path: dir, Ext: ".md"}, `ends in ".md"`)
	refuse(t, "tokenizer", Spec{Format: "text", Path: dir, Tokenizer: filepath.Join(dir, "a.txt")}, "a.txt")
}
