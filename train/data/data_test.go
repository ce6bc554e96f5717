package data

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apiary-net/hived/train/weights"
)

// idx builds an IDX file.
func idx(magic uint32, dims []uint32, body []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, magic)
	for _, d := range dims {
		b = binary.BigEndian.AppendUint32(b, d)
	}
	return append(b, body...)
}

// writeMNIST writes a data set of n train and 2 test digits; change may spoil files.
func writeMNIST(t *testing.T, n int, change func(name string, b []byte) []byte) string {
	t.Helper()
	dir := t.TempDir()
	for prefix, k := range map[string]int{"train": n, "t10k": 2} {
		img, lab := make([]byte, k*pixels), make([]byte, k)
		for i := range img {
			img[i] = byte(i)
		}
		for i := range lab {
			lab[i] = byte(i % 10)
		}
		for name, b := range map[string][]byte{
			prefix + "-images-idx3-ubyte": idx(idxImages, []uint32{uint32(k), Side, Side}, img),
			prefix + "-labels-idx1-ubyte": idx(idxLabels, []uint32{uint32(k)}, lab),
		} {
			if change != nil {
				b = change(name, b)
			}
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

func zipped(b []byte) []byte {
	var w bytes.Buffer
	z := gzip.NewWriter(&w)
	_, _ = z.Write(b)
	_ = z.Close()
	return w.Bytes()
}

func TestMNISTFromFiles(t *testing.T) {
	plain, err := Open(Spec{Format: "mnist", Path: writeMNIST(t, 3, nil)})
	if err != nil {
		t.Fatal(err)
	}
	packed, err := openMNIST(writeMNIST(t, 3, func(_ string, b []byte) []byte { return zipped(b) }))
	if err != nil {
		t.Fatal(err)
	}
	a, _ := plain.Digest()
	b, _ := packed.Digest()
	if a != b || a.IsZero() {
		t.Errorf("digests %v and %v", a, b)
	}
	if plain.Len(Train) != 3 || plain.Len(Test) != 2 || plain.Len("x") != 0 {
		t.Errorf("lengths %d, %d", plain.Len(Train), plain.Len(Test))
	}
	x := Batch{Float: make([]float32, 2*pixels), Labels: make([]int32, 2)}
	if err := plain.Batch(Train, []int{2, 0}, &x); err != nil {
		t.Fatal(err)
	}
	if x.Labels[0] != 2 || x.Labels[1] != 0 || x.Float[pixels+255] != shade[255] || shade[255] < 2.8 || shade[255] > 2.83 {
		t.Errorf("labels %v, pixel %v", x.Labels, x.Float[pixels+255])
	}
	for _, i := range []int{-1, 3} {
		if err := plain.Batch(Train, []int{i}, &x); err == nil {
			t.Errorf("sample %d is read", i)
		}
	}
	other, err := openMNIST(writeMNIST(t, 3, func(name string, b []byte) []byte {
		if strings.HasPrefix(name, "t10k-labels") {
			b[len(b)-1] = 7
		}
		return b
	}))
	if err != nil {
		t.Fatal(err)
	}
	if c, _ := other.Digest(); c == a {
		t.Error("a changed label leaves the digest")
	}
}

func TestMNISTRefusals(t *testing.T) {
	put := func(at int, v uint32) func([]byte) []byte {
		return func(b []byte) []byte { binary.BigEndian.PutUint32(b[at:], v); return b }
	}
	for _, c := range []struct {
		file, what string
		change     func([]byte) []byte
	}{
		{"train-images", "magic", put(0, 0x0802)},
		{"train-images", "count", put(4, 4)},
		{"train-images", "count", put(4, 0)},
		{"train-images", "limit", put(4, 1<<31)},
		{"train-images", "dimension 1", put(8, 27)},
		{"train-images", "dimension 2", put(12, 29)},
		{"train-images", "header", func(b []byte) []byte { return b[:15] }},
		{"train-images", "bytes", func(b []byte) []byte { return b[:len(b)-1] }},
		{"train-images", "bytes", func(b []byte) []byte { return append(b, 0) }},
		{"train-images", "EOF", func(b []byte) []byte { z := zipped(b); return z[:len(z)-9] }},
		{"train-labels", "limit 9", func(b []byte) []byte { b[9] = 10; return b }},
		{"train-labels", "labels", func(b []byte) []byte { return idx(idxLabels, []uint32{2}, b[8:10]) }},
		{"t10k-labels", "header", func([]byte) []byte { return nil }},
	} {
		_, err := openMNIST(writeMNIST(t, 3, func(name string, b []byte) []byte {
			if strings.HasPrefix(name, c.file) {
				return c.change(b)
			}
			return b
		}))
		if !errors.Is(err, weights.ErrFile) || !strings.Contains(fmt.Sprint(err), c.what) {
			t.Errorf("%s, %s: %v", c.file, c.what, err)
		}
	}
	if _, err := Open(Spec{Format: "birds"}); err == nil || !strings.Contains(err.Error(), "want csv, images") {
		t.Errorf("unknown task: %v", err)
	}
}

func FuzzDecodeIDX(f *testing.F) {
	f.Add(idx(idxImages, []uint32{1, Side, Side}, make([]byte, pixels)))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		body, err := decodeIDX(b, idxImages, []uint32{Side, Side})
		if err == nil && (len(body) == 0 || len(body)%pixels != 0) {
			t.Fatalf("body of %d bytes", len(body))
		}
	})
}

func TestText(t *testing.T) {
	dir := t.TempDir()
	for i := range 60 {
		name := filepath.Join(dir, fmt.Sprintf("d%d", i%7), fmt.Sprintf("f%02d.txt", i))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, bytes.Repeat([]byte(fmt.Sprintf("<%02d>", i)), 20), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := textConfig{Context: 16, Bytes: 1 << 14, Seed: 1}
	d, err := openText(dir, c)
	if err != nil {
		t.Fatal(err)
	}
	splits := d.(*text).splits
	seen := map[string]string{}
	for _, s := range []string{Train, Valid, Test} {
		if d.Len(s) != (len(splits[s])-1)/16 || d.Len(s) < 5 {
			t.Errorf("split %s has %d samples of %d bytes", s, d.Len(s), len(splits[s]))
		}
		for i := 0; i+4 <= len(splits[s]); i += 4 { // files are held out whole
			file := string(splits[s][i : i+4])
			if o, ok := seen[file]; ok && o != s {
				t.Fatalf("file %s is in %s and %s", file, o, s)
			}
			seen[file] = s
		}
	}
	if len(seen) != 60 {
		t.Errorf("%d files, want 60", len(seen))
	}
	x := Batch{Int: make([]int32, 32), Labels: make([]int32, 32)}
	last := d.Len(Train) - 1
	if err := d.Batch(Train, []int{0, last}, &x); err != nil {
		t.Fatal(err)
	}
	for j := range 15 {
		if x.Labels[j] != x.Int[j+1] || x.Labels[16+j] != x.Int[16+j+1] {
			t.Fatalf("labels are not the next bytes: %v, %v", x.Int, x.Labels)
		}
	}
	if int32(splits[Train][last*16+16]) != x.Labels[31] {
		t.Error("the last label is not the byte behind the window")
	}
	a, _ := d.Digest()
	again, err := openText(dir, c)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := again.Digest(); a != b {
		t.Error("the same files have two digests")
	}
	c.Bytes, c.Seed = 1<<12, 2 // 51 files fit
	if part, err := openText(dir, c); err == nil {
		if b, _ := part.Digest(); a == b {
			t.Error("a bound leaves the digest")
		}
	} else if !errors.Is(err, weights.ErrFile) {
		t.Error(err)
	}
}

func TestTextRefusals(t *testing.T) {
	if _, err := openText(t.TempDir(), defaultText()); !errors.Is(err, weights.ErrFile) {
		t.Errorf("empty folder: %v", err)
	}
	if _, err := openText(filepath.Join(t.TempDir(), "gone"), defaultText()); !errors.Is(err, weights.ErrFile) {
		t.Errorf("no folder: %v", err)
	}
	for _, c := range []textConfig{{Context: 7, Bytes: 1 << 20}, {Context: 5000, Bytes: 1 << 20}, {Context: 64, Bytes: 1}} {
		if _, err := openText(t.TempDir(), c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}
