package data

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"

	"github.com/apiary-net/hived/train/weights"
	"github.com/apiary-net/hived/wire"
)

// Valid is the split of text that tuning may look at.
const Valid = "valid"

// textConfig says which files make a text and how it is cut.
type textConfig struct {
	// Context is the bytes of a window; a sample has one more. Default 128, 8 to 4096.
	Context int
	// Bytes bounds the text; files are chosen by Seed until it is full. Default 8 MiB.
	Bytes int64
	// Seed chooses the files.
	Seed uint64
	// Ext is the ending of files that count; empty is all. Default .go for the
	// sources of the go command, else empty.
	Ext string
}

// defaultText returns the default configuration.
func defaultText() textConfig { return textConfig{Context: 128, Bytes: 8 << 20} }

// Validate checks c.
func (c textConfig) Validate() error {
	if c.Context < 8 || c.Context > 4096 {
		return fmt.Errorf("text context %d, want 8 to 4096", c.Context)
	}
	if c.Bytes < 1<<12 || c.Bytes > 1<<30 {
		return fmt.Errorf("text of at most %d bytes, want 4 KiB to 1 GiB", c.Bytes)
	}
	return nil
}

type textFile struct {
	path string // slash-separated, below the root
	size int64
	key  uint64
}

// openText reads the regular files under dir; empty is the sources of the go command and
// its .go files. One file in twenty is held out whole for valid and one for test,
// by a hash of its path and content. Sample i of a split is the i-th window.
type text struct {
	c      textConfig
	splits map[string][]byte
	digest func() wire.Digest
}

func openText(dir string, c textConfig) (Set, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if dir == "" {
		if dir = goSources(); dir == "" {
			return nil, fmt.Errorf("open text: no folder given, and there are no sources of the go command ($GOROOT, the go in $PATH, /usr/local/go); name a folder of text: %w", weights.ErrFile)
		}
		if c.Ext == "" {
			c.Ext = ".go"
		}
	}
	files, err := listText(dir, c)
	if err != nil {
		return nil, err
	}
	t := &text{c: c, splits: map[string][]byte{}}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(f.path)))
		if err != nil {
			return nil, fmt.Errorf("read text: %w", err)
		}
		s := splitOf(f.path, b)
		t.splits[s] = append(t.splits[s], b...)
	}
	for _, s := range []string{Train, Valid, Test} {
		if t.Len(s) == 0 {
			return nil, fmt.Errorf("open text: %d files under %s leave split %s without a window of %d bytes: %w", len(files), dir, s, c.Context+1, weights.ErrFile)
		}
	}
	t.digest = sync.OnceValue(t.root)
	return t, nil
}

// splitOf holds a file out whole.
func splitOf(path string, b []byte) string {
	h := sha256.New()
	h.Write([]byte(path))
	h.Write([]byte{0})
	h.Write(b)
	switch h.Sum(nil)[0] % 20 {
	case 0:
		return Valid
	case 1:
		return Test
	}
	return Train
}

// listText chooses files by seeded order until the bound is reached and returns
// them by path.
func listText(dir string, c textConfig) ([]textFile, error) {
	var all []textFile
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.Type().IsRegular() || !strings.HasSuffix(p, c.Ext) {
			return nil
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		f := textFile{path: filepath.ToSlash(rel), size: st.Size()}
		h := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(f.path), c.Seed))
		f.key = binary.BigEndian.Uint64(h[:])
		all = append(all, f)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list text: %w: %w", err, weights.ErrFile)
	}
	sort.Slice(all, func(i, j int) bool {
		return all[i].key < all[j].key || all[i].key == all[j].key && all[i].path < all[j].path
	})
	var chosen []textFile
	total := int64(0)
	for _, f := range all {
		if f.size > max(c.Bytes/256, 4096) || total+f.size > c.Bytes { // no single file rules the text
			continue
		}
		total += f.size
		chosen = append(chosen, f)
	}
	sort.Slice(chosen, func(i, j int) bool { return chosen[i].path < chosen[j].path })
	return chosen, nil
}

func (t *text) Name() string { return "text" }
func (t *text) Form() Form {
	return Form{Kind: "text", Dims: []int{t.c.Context}, Classes: Bytes, Terms: t.c.Context}
}

func (t *text) Len(split string) int { return max(0, len(t.splits[split])-1) / t.c.Context }

func (t *text) window(split string, i int) []byte {
	return t.splits[split][i*t.c.Context:][:t.c.Context+1]
}

// Batch writes the first Context bytes of a window and, as labels, the last.
func (t *text) Batch(split string, idx []int, dst *Batch) error {
	if err := checkIndex(split, idx, t.Len(split)); err != nil {
		return err
	}
	n := t.c.Context
	for k, i := range idx {
		w := t.window(split, i)
		for j := range n {
			dst.Int[k*n+j], dst.Labels[k*n+j] = int32(w[j]), int32(w[j+1])
		}
	}
	return nil
}

func (t *text) root() wire.Digest {
	var leaves []wire.Digest
	for _, s := range []string{Train, Valid, Test} {
		for i := range t.Len(s) {
			leaves = append(leaves, wire.Sum(t.window(s, i)))
		}
	}
	return wire.MerkleRoot(leaves)
}

func (t *text) Digest() (wire.Digest, error) { return t.digest(), nil }
