package data

import (
	"encoding/json"
	"fmt"
	"os"
	"unicode"
	"unicode/utf8"

	"github.com/apiary-net/hived/train/weights"
)

// Bytes is the number of tokens of text without a tokenizer.
const Bytes = 256

// Encoder turns text into token numbers and back.
type Encoder interface {
	Vocab() int
	Encode(text []byte) ([]int32, error)
	Decode(ids []int32) ([]byte, error)
}

// NewEncoder returns the byte-level BPE of a tokenizer.json, or bytes as they are
// for an empty path.
func NewEncoder(path string) (Encoder, error) {
	if path == "" {
		return byteEncoder{}, nil
	}
	return openBPE(path)
}

type byteEncoder struct{}

func (byteEncoder) Vocab() int { return Bytes }
func (byteEncoder) Encode(b []byte) ([]int32, error) {
	ids := make([]int32, len(b))
	for i, c := range b {
		ids[i] = int32(c)
	}
	return ids, nil
}

func (byteEncoder) Decode(ids []int32) ([]byte, error) {
	b := make([]byte, len(ids))
	for i, id := range ids {
		if id < 0 || id >= Bytes {
			return nil, fmt.Errorf("decode token %d: bytes have 256: %w", id, weights.ErrFile)
		}
		b[i] = byte(id)
	}
	return b, nil
}

// bpe is the byte-level byte pair encoding of GPT-2 (Sennrich et al. 2016; Radford
// et al. 2019, section 2.2), as the files tokenizer.json of Hugging Face hold it.
type bpe struct {
	ids    map[string]int32    // piece, in raw bytes
	pieces map[int32]string    // the same, back
	ranks  map[[2]string]int32 // of merges
	size   int
}

const maxTokenizer = 64 << 20

// openBPE reads a tokenizer.json of model type BPE whose pre-tokenizer is ByteLevel.
func openBPE(path string) (*bpe, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open tokenizer: %w: %w", err, weights.ErrFile)
	}
	if st.Size() > maxTokenizer {
		return nil, fmt.Errorf("open tokenizer: %s has %d bytes, limit %d: %w", path, st.Size(), maxTokenizer, weights.ErrFile)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("open tokenizer: %w: %w", err, weights.ErrFile)
	}
	t, err := parseBPE(b)
	if err != nil {
		return nil, fmt.Errorf("open tokenizer: %s: %w: %w", path, err, weights.ErrFile)
	}
	return t, nil
}

func parseBPE(b []byte) (*bpe, error) {
	var f struct {
		Model struct {
			Type   string            `json:"type"`
			Vocab  map[string]int32  `json:"vocab"`
			Merges []json.RawMessage `json:"merges"`
		} `json:"model"`
		Added []struct {
			ID      int32  `json:"id"`
			Content string `json:"content"`
		} `json:"added_tokens"`
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, err
	}
	if f.Model.Type != "BPE" && f.Model.Type != "" || len(f.Model.Vocab) == 0 {
		return nil, fmt.Errorf("model of type %q with %d pieces, want BPE", f.Model.Type, len(f.Model.Vocab))
	}
	t := &bpe{ids: map[string]int32{}, pieces: map[int32]string{}, ranks: map[[2]string]int32{}}
	put := func(piece string, id int32) error {
		if id < 0 || id >= 1<<20 {
			return fmt.Errorf("piece %q has number %d, limit 0 to 2^20", piece, id)
		}
		if old, ok := t.pieces[id]; ok && old != piece {
			return fmt.Errorf("number %d names %q and %q", id, old, piece)
		}
		t.ids[piece], t.pieces[id], t.size = id, piece, max(t.size, int(id)+1)
		return nil
	}
	for k, id := range f.Model.Vocab {
		raw, ok := rawPiece(k)
		if !ok {
			raw = k // a special token
		}
		if err := put(raw, id); err != nil {
			return nil, err
		}
	}
	for _, a := range f.Added {
		if err := put(a.Content, a.ID); err != nil {
			return nil, err
		}
	}
	for i := range 256 {
		if _, ok := t.ids[string([]byte{byte(i)})]; !ok {
			return nil, fmt.Errorf("no piece for byte %d: the encoding is not byte-level", i)
		}
	}
	return t, t.readMerges(f.Model.Merges)
}

// readMerges takes merges as "a b" or ["a", "b"].
func (t *bpe) readMerges(list []json.RawMessage) error {
	for n, raw := range list {
		var pair [2]string
		var line string
		if json.Unmarshal(raw, &line) == nil {
			if k, err := fmt.Sscan(line, &pair[0], &pair[1]); k != 2 {
				return fmt.Errorf("merge %d is %q: %w", n, line, err)
			}
		} else if err := json.Unmarshal(raw, &pair); err != nil {
			return fmt.Errorf("merge %d: %w", n, err)
		}
		for i, p := range pair {
			raw, ok := rawPiece(p)
			if !ok {
				return fmt.Errorf("merge %d: %q is not written in bytes", n, p)
			}
			pair[i] = raw
		}
		if _, ok := t.ids[pair[0]+pair[1]]; !ok {
			return fmt.Errorf("merge %d makes %q, which is no piece", n, pair[0]+pair[1])
		}
		if _, ok := t.ranks[pair]; !ok {
			t.ranks[pair] = int32(n)
		}
	}
	return nil
}

// byteRunes are the letters by which GPT-2 writes bytes: printable ones stand for
// themselves, the others follow from 256 on.
var byteRunes = func() (m map[rune]byte) {
	m = map[rune]byte{}
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if !(b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE) {
			r, next = next, next+1
		}
		m[r] = byte(b)
	}
	return m
}()

func rawPiece(s string) (string, bool) {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		c, ok := byteRunes[r]
		if !ok {
			return "", false
		}
		b = append(b, c)
	}
	return string(b), true
}

func (t *bpe) Vocab() int { return t.size }

// Encode cuts text into words and merges each.
func (t *bpe) Encode(text []byte) ([]int32, error) {
	var out []int32
	cache := map[string][]int32{}
	for len(text) > 0 {
		n := wordLength(text)
		w := string(text[:n])
		text = text[n:]
		ids, ok := cache[w]
		if !ok {
			ids = t.merge(w)
			cache[w] = ids
		}
		out = append(out, ids...)
	}
	return out, nil
}

// merge joins the pair of least rank until none is left.
func (t *bpe) merge(w string) []int32 {
	parts := make([]string, len(w))
	for i := range parts {
		parts[i] = w[i : i+1]
	}
	for len(parts) > 1 {
		best, at := int32(1<<30), -1
		for i := range len(parts) - 1 {
			if r, ok := t.ranks[[2]string{parts[i], parts[i+1]}]; ok && r < best {
				best, at = r, i
			}
		}
		if at < 0 {
			break
		}
		parts[at] += parts[at+1]
		parts = append(parts[:at+1], parts[at+2:]...)
	}
	ids := make([]int32, len(parts))
	for i, p := range parts {
		ids[i] = t.ids[p]
	}
	return ids
}

func (t *bpe) Decode(ids []int32) ([]byte, error) {
	var b []byte
	for _, id := range ids {
		p, ok := t.pieces[id]
		if !ok {
			return nil, fmt.Errorf("decode token %d: the vocabulary has %d: %w", id, t.size, weights.ErrFile)
		}
		b = append(b, p...)
	}
	return b, nil
}

// wordLength is the length of the first match of GPT-2's pattern
// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+, which
// looks ahead: the last of several spaces belongs to the word behind them. A word is
// at most maxWord bytes, so that no text makes merging slow.
func wordLength(b []byte) int {
	for _, s := range []string{"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"} {
		if len(b) >= len(s) && string(b[:len(s)]) == s {
			return len(s)
		}
	}
	at := 0
	if b[0] == ' ' && len(b) > 1 {
		at = 1
	}
	r, n := utf8.DecodeRune(b[at:])
	if k := kindOf(r); k != spaceRune {
		for at += n; at < len(b) && at < maxWord; at += n {
			if r, n = utf8.DecodeRune(b[at:]); kindOf(r) != k {
				break
			}
		}
		return at
	}
	at = 0
	for last := 0; at < len(b) && at < maxWord; at += n {
		if r, n = utf8.DecodeRune(b[at:]); kindOf(r) != spaceRune {
			if last > 0 {
				return last
			}
			return at
		}
		last = at
	}
	return at
}

const maxWord = 1 << 10

type runeKind int

const (
	spaceRune runeKind = iota
	letterRune
	numberRune
	otherRune
)

func kindOf(r rune) runeKind {
	switch {
	case unicode.IsSpace(r):
		return spaceRune
	case unicode.IsLetter(r):
		return letterRune
	case unicode.IsNumber(r):
		return numberRune
	}
	return otherRune
}
