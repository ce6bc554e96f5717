package data

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/apiary-net/hived/train/weights"
	"github.com/apiary-net/hived/wire"
)

// maxText bounds the text of a data set, unpacked.
const maxText = 1 << 30

// tokens is text as numbers, cut into windows.
type tokens struct {
	name    string
	context int
	vocab   int
	splits  map[string][]int32
	digest  func() wire.Digest
}

// documents calls f with each text under path: the files of a folder in order of
// their paths, or the lines of a JSON Lines file (field of each object); gzip is
// unpacked. Texts are bounded together by limit.
func documents(path, ext, field string, limit int64, f func(name string, b []byte) error) error {
	files, err := dataFiles(path, ext)
	if err != nil {
		return err
	}
	left := limit
	for _, p := range files {
		b, err := weights.ReadBounded(p, left)
		if err != nil {
			return err
		}
		left -= int64(len(b))
		if field == "" {
			if err := f(p, b); err != nil {
				return err
			}
			continue
		}
		if err := jsonLines(p, b, field, f); err != nil {
			return err
		}
	}
	return nil
}

// dataFiles lists the regular files of a folder that end in ext, or path itself.
func dataFiles(path, ext string) ([]string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open data: %w: %w", err, weights.ErrFile)
	}
	if !st.IsDir() {
		return []string{path}, nil
	}
	var out []string
	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.HasSuffix(p, ext) {
			out = append(out, p)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list data: %w: %w", err, weights.ErrFile)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("list data: no file under %s ends in %q: %w", path, ext, weights.ErrFile)
	}
	slices.Sort(out)
	return out, nil
}

// maxLine bounds a line of JSON.
const maxLine = 16 << 20

func jsonLines(path string, b []byte, field string, f func(name string, b []byte) error) error {
	for n := 1; len(b) > 0; n++ {
		line, rest, _ := bytes.Cut(b, []byte("\n"))
		b = rest
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if len(line) > maxLine {
			return fmt.Errorf("read data: %s:%d: line of %d bytes, limit %d: %w", path, n, len(line), maxLine, weights.ErrFile)
		}
		var row map[string]json.RawMessage
		if err := json.Unmarshal(line, &row); err != nil {
			return fmt.Errorf("read data: %s:%d: %w: %w", path, n, err, weights.ErrFile)
		}
		raw, ok := row[field]
		if !ok {
			return fmt.Errorf("read data: %s:%d: no field %q: %w", path, n, field, weights.ErrFile)
		}
		var one string
		var many []string
		if err := json.Unmarshal(raw, &one); err != nil {
			if json.Unmarshal(raw, &many) != nil {
				return fmt.Errorf("read data: %s:%d: field %q is neither a string nor a list of strings: %w", path, n, field, weights.ErrFile)
			}
			one = strings.Join(many, "\n")
		}
		if err := f(fmt.Sprintf("%s:%d", path, n), []byte(one)); err != nil {
			return err
		}
	}
	return nil
}

// openTokens reads text by d.
func openTokens(d Spec) (Set, error) {
	enc, err := NewEncoder(d.Tokenizer)
	if err != nil {
		return nil, err
	}
	sp, err := newSplitter(d.SplitSpec)
	if err != nil {
		return nil, err
	}
	t := &tokens{name: d.Format, context: max(d.Context, 0), vocab: enc.Vocab(), splits: map[string][]int32{}}
	if t.context == 0 {
		t.context = 128
	}
	if t.context < 2 || t.context > 4096 {
		return nil, fmt.Errorf("text context %d, want 2 to 4096", t.context)
	}
	field := d.Field
	if d.Format == "jsonl" && field == "" {
		field = "text"
	}
	put := func(split string, b []byte) error {
		ids, err := enc.Encode(b)
		t.splits[split] = append(t.splits[split], ids...)
		return err
	}
	err = documents(d.Path, d.Ext, field, maxText, func(name string, b []byte) error {
		if d.Tail > 0 {
			cut := len(b) - int(float64(len(b))*d.Tail)
			return errors.Join(put(Train, b[:cut]), put(Valid, b[cut:]))
		}
		if split := sp.of(name, "", wire.Sum(b)); split != "" {
			return put(split, b)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if t.Len(Train) == 0 {
		return nil, fmt.Errorf("open text: %s has no window of %d tokens to train on: %w", d.Path, t.context+1, weights.ErrFile)
	}
	t.digest = sync.OnceValue(t.root)
	return t, nil
}

func (t *tokens) Name() string         { return t.name }
func (t *tokens) Len(split string) int { return max(0, len(t.splits[split])-1) / t.context }

func (t *tokens) Form() Form {
	return Form{Kind: "text", Dims: []int{t.context}, Classes: t.vocab, Terms: t.context}
}

// Batch writes windows and, as labels, the tokens behind each; a key moves a window
// by less than its length, so that every cut of the text is met.
func (t *tokens) Batch(split string, idx []int, dst *Batch) error {
	if err := checkIndex(split, idx, t.Len(split)); err != nil {
		return err
	}
	all, n := t.splits[split], t.context
	for k, i := range idx {
		at := i * n
		if len(dst.Keys) > k {
			at = min(at+int(dst.Keys[k]%uint64(n)), len(all)-n-1)
		}
		copy(dst.Int[k*n:][:n], all[at:])
		copy(dst.Labels[k*n:][:n], all[at+1:])
	}
	return nil
}

func (t *tokens) root() wire.Digest {
	var leaves []wire.Digest
	for _, s := range []string{Train, Valid, Test} {
		for i := range t.Len(s) {
			leaves = append(leaves, wire.Sum(int32Bytes(t.splits[s][i*t.context:][:t.context+1])))
		}
	}
	return wire.MerkleRoot(leaves)
}

func int32Bytes(x []int32) []byte {
	b := make([]byte, 0, 4*len(x))
	for _, v := range x {
		b = append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
	}
	return b
}

func (t *tokens) Digest() (wire.Digest, error) { return t.digest(), nil }
