package data

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apiary-net/hived/train/weights"
)

// tokenizerJSON is a byte-level BPE with some merges, pairs as Hugging Face's older
// or newer files write them.
func tokenizerJSON(newer bool, merges ...[2]string) string {
	back := map[byte]rune{}
	for r, b := range byteRunes {
		back[b] = r
	}
	letters := func(s string) string {
		var out []rune
		for _, b := range []byte(s) {
			out = append(out, back[b])
		}
		return string(out)
	}
	vocab, list := map[string]int{}, []any{}
	for b := range 256 {
		vocab[letters(string([]byte{byte(b)}))] = b
	}
	for i, m := range merges {
		vocab[letters(m[0]+m[1])] = 256 + i
		if newer {
			list = append(list, []string{letters(m[0]), letters(m[1])})
		} else {
			list = append(list, letters(m[0])+" "+letters(m[1]))
		}
	}
	b, err := json.Marshal(map[string]any{"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": list}, "added_tokens": []any{map[string]any{"id": 300, "content": "<|end|>"}}})
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestBPE(t *testing.T) {
	for _, newer := range []bool{false, true} {
		enc, err := openBPE(filepath.Join(write(t, map[string]string{"tokenizer.json": tokenizerJSON(newer, [2]string{"b", "e"}, [2]string{"be", "e"}, [2]string{" ", "bee"}, [2]string{"e", "s"})}), "tokenizer.json"))
		if err != nil {
			t.Fatal(err)
		}
		if enc.Vocab() != 301 {
			t.Errorf("vocabulary of %d", enc.Vocab())
		}
		for text, want := range map[string][]int32{
			"bee":    {257},
			" bees":  {258, 's'},
			"be es":  {256, ' ', 259},
			"  bee":  {' ', 258},
			"":       nil,
			"ä":      {0xC3, 0xA4},
			"bee\n":  {257, '\n'},
			"\xff\n": {0xFF, '\n'},
		} {
			got, err := enc.Encode([]byte(text))
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%q is %v, want %v, %v", text, got, want, err)
			}
			back, err := enc.Decode(got)
			if err != nil || string(back) != text {
				t.Errorf("%q comes back as %q, %v", text, back, err)
			}
		}
		if _, err := enc.Decode([]int32{999}); !errors.Is(err, weights.ErrFile) {
			t.Errorf("an unknown token: %v", err)
		}
	}
}

// TestWords cuts as GPT-2's pattern does.
func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"Hello world, it's 1999!": "Hello| world|,| it|'s| 1999|!",
		"a  b":                    "a| | b",
		"a\n\n b":                 "a|\n\n| b",
		"tabs\t\tx":               "tabs|\t|\t|x",
		"we'll we've I'd":         "we|'ll| we|'ve| I|'d",
		"end   ":                  "end|   ",
		"x=y+1;":                  "x|=|y|+|1|;",
		"über straße":             "über| straße",
	} {
		var got []string
		for b := []byte(text); len(b) > 0; {
			n := wordLength(b)
			got, b = append(got, string(b[:n])), b[n:]
		}
		if strings.Join(got, "|") != want {
			t.Errorf("%q is cut as %q, want %q", text, strings.Join(got, "|"), want)
		}
	}
}

func TestTokenizerRefusals(t *testing.T) {
	for what, c := range map[string][2]string{
		"no JSON":       {"{", "unexpected end"},
		"other model":   {`{"model":{"type":"Unigram","vocab":{"a":1}}}`, "Unigram"},
		"not byte":      {`{"model":{"type":"BPE","vocab":{"a":1}}}`, "not byte-level"},
		"number twice":  {strings.Replace(tokenizerJSON(true), `"a":97`, `"a":98`, 1), "names"},
		"huge number":   {strings.Replace(tokenizerJSON(true), `"a":97`, `"a":99999999`, 1), "limit"},
		"odd merge":     {strings.Replace(tokenizerJSON(false, [2]string{"a", "b"}), `"a b"`, `"ab"`, 1), "merge 0"},
		"merge of none": {strings.Replace(tokenizerJSON(true, [2]string{"a", "b"}), `"ab":256`, `"ac":256`, 1), "no piece"},
	} {
		if _, err := parseBPE([]byte(c[0])); err == nil || !strings.Contains(fmt.Sprint(err), c[1]) {
			t.Errorf("%s: %v, want %q", what, err, c[1])
		}
	}
}

func FuzzBPE(f *testing.F) {
	enc, err := parseBPE([]byte(tokenizerJSON(true, [2]string{"b", "e"}, [2]string{"be", "e"}, [2]string{" ", "bee"})))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("bees  'll \xff\n\n x"))
	f.Fuzz(func(t *testing.T, text []byte) {
		ids, err := enc.Encode(text)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := enc.Decode(ids); err != nil || string(back) != string(text) {
			t.Fatalf("%q comes back as %q, %v", text, back, err)
		}
	})
}

func FuzzTokenizer(f *testing.F) {
	f.Add([]byte(tokenizerJSON(false, [2]string{"b", "e"})))
	f.Fuzz(func(t *testing.T, b []byte) {
		enc, err := parseBPE(b)
		if err == nil {
			if _, err := enc.Encode([]byte("a bee")); err != nil {
				t.Fatal(err)
			}
		}
	})
}
