package weights

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Limits of a safetensors file; its header is read before anything is believed.
const (
	maxTensorHeader = 16 << 20
	MaxTensors      = 1 << 16
	maxTensorName   = 512
)

// Tensor is a named float32 tensor, row-major.
type Tensor struct {
	Name  string
	Shape []int
	Data  []float32
}

// tensorEntry is what a header says of one tensor.
type tensorEntry struct {
	name       string
	dtype      string
	shape      []int
	begin, end int64
}

// File is an open safetensors file whose header has been checked whole. Its
// methods may be called concurrently.
type File struct {
	Meta    map[string]string
	f       *os.File
	Path    string
	body    int64 // offset of the first tensor
	entries map[string]tensorEntry
}

// tensorWidth is the bytes of an element of each type that the format knows.
var tensorWidth = map[string]int64{"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1}

// Open opens a safetensors file and checks its header: every length against
// the file, every tensor's range against its shape, no overlap, no hole, no name
// twice. It wraps ErrFile. The caller closes the file.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open tensors: %w: %w", err, ErrFile)
	}
	t := &File{f: f, Path: path}
	if err := t.readHeader(); err != nil {
		f.Close()
		return nil, fmt.Errorf("open tensors: %s: %w: %w", path, err, ErrFile)
	}
	return t, nil
}

// Close closes the file.
func (t *File) Close() error { return t.f.Close() }

func (t *File) readHeader() error {
	st, err := t.f.Stat()
	if err != nil {
		return err
	}
	var b [8]byte
	if st.Size() < 10 {
		return fmt.Errorf("the file has %d bytes, a header needs 10", st.Size())
	}
	if _, err := io.ReadFull(t.f, b[:]); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint64(b[:])
	if string(b[:]) == "version " {
		return fmt.Errorf("it is a git-LFS pointer, not the file itself: type git lfs pull")
	}
	if n > uint64(st.Size()-8) {
		return fmt.Errorf("the header's length is %d, the file has %d bytes", n, st.Size())
	}
	if n > maxTensorHeader {
		return fmt.Errorf("the header has %d bytes, limit %d", n, maxTensorHeader)
	}
	head := make([]byte, n)
	if _, err := io.ReadFull(t.f, head); err != nil {
		return err
	}
	t.body = 8 + int64(n)
	t.Meta, t.entries, err = parseTensorHeader(head, st.Size()-t.body)
	return err
}

// parseTensorHeader checks a header against the bytes that follow it.
func parseTensorHeader(head []byte, body int64) (map[string]string, map[string]tensorEntry, error) {
	meta, list, err := decodeTensorHeader(head)
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(list, func(a, b tensorEntry) int {
		return int(min(1, max(-1, a.begin-b.begin)))*2 + int(min(1, max(-1, a.end-b.end)))
	})
	at, entries := int64(0), make(map[string]tensorEntry, len(list))
	for _, e := range list {
		switch {
		case e.end > body:
			return nil, nil, fmt.Errorf("tensor %q ends at %d, the file has %d bytes of tensors", e.name, e.end, body)
		case e.begin < at:
			return nil, nil, fmt.Errorf("tensor %q starts at %d, inside another that ends at %d", e.name, e.begin, at)
		case e.begin > at:
			return nil, nil, fmt.Errorf("bytes %d to %d belong to no tensor", at, e.begin)
		}
		at, entries[e.name] = e.end, e
	}
	if at != body {
		return nil, nil, fmt.Errorf("%d bytes after the last tensor", body-at)
	}
	return meta, entries, nil
}

// Names returns the tensors' names in order.
func (t *File) Names() []string {
	names := make([]string, 0, len(t.entries))
	for n := range t.entries {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Shape returns a tensor's shape; ok is false where there is none of that name.
func (t *File) Shape(name string) (shape []int, ok bool) {
	e, ok := t.entries[name]
	return e.shape, ok
}

// Float32 reads a tensor of type F32, F16, BF16 or F64 as float32. Values that are
// not finite are refused.
func (t *File) Float32(name string) ([]float32, error) {
	e, ok := t.entries[name]
	if !ok {
		return nil, fmt.Errorf("read tensor: %s has no %q: %w", t.Path, name, ErrFile)
	}
	var decode func(b []byte) float32
	switch e.dtype {
	case "F32":
		decode = func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }
	case "BF16":
		decode = func(b []byte) float32 { return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16) }
	case "F16":
		decode = func(b []byte) float32 { return halfFloat(binary.LittleEndian.Uint16(b)) }
	case "F64":
		decode = func(b []byte) float32 { return float32(math.Float64frombits(binary.LittleEndian.Uint64(b))) }
	default:
		return nil, fmt.Errorf("read tensor: %s: %q has type %s, want F32, F16, BF16 or F64: %w", t.Path, name, e.dtype, ErrFile)
	}
	w := tensorWidth[e.dtype]
	out := make([]float32, (e.end-e.begin)/w)
	r := bufio.NewReaderSize(io.NewSectionReader(t.f, t.body+e.begin, e.end-e.begin), 1<<16)
	b := make([]byte, w)
	for i := range out {
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, fmt.Errorf("read tensor: %s: %q: %w: %w", t.Path, name, err, ErrFile)
		}
		out[i] = decode(b)
		if out[i]-out[i] != 0 {
			return nil, fmt.Errorf("read tensor: %s: element %d of %q is %v: %w", t.Path, i, name, out[i], ErrFile)
		}
	}
	return out, nil
}

// Integers reads a tensor of a whole-number type.
func (t *File) Integers(name string) ([]int64, error) {
	e, ok := t.entries[name]
	if !ok {
		return nil, fmt.Errorf("read tensor: %s has no %q: %w", t.Path, name, ErrFile)
	}
	if !slices.Contains([]string{"I64", "I32", "I16", "I8", "U8", "U16", "U32"}, e.dtype) {
		return nil, fmt.Errorf("read tensor: %s: %q has type %s, want whole numbers: %w", t.Path, name, e.dtype, ErrFile)
	}
	w := int(tensorWidth[e.dtype])
	b := make([]byte, e.end-e.begin)
	if _, err := t.f.ReadAt(b, t.body+e.begin); err != nil {
		return nil, fmt.Errorf("read tensor: %s: %q: %w: %w", t.Path, name, err, ErrFile)
	}
	out := make([]int64, len(b)/w)
	for i := range out {
		v := uint64(0)
		for k := w - 1; k >= 0; k-- {
			v = v<<8 | uint64(b[i*w+k])
		}
		if out[i] = int64(v); e.dtype[0] == 'I' {
			shift := 64 - 8*w
			out[i] = int64(v<<shift) >> shift
		}
	}
	return out, nil
}

// halfFloat is the value of an IEEE binary16.
func halfFloat(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10&31), uint32(h&1023)
	switch exp {
	case 0:
		f := float32(frac) / (1 << 24)
		return math.Float32frombits(sign | math.Float32bits(f))
	case 31:
		return math.Float32frombits(sign | 0x7F800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// Write writes a safetensors file: a length, a JSON header padded to 8
// bytes, and little-endian float32 values in the given order.
func Write(w io.Writer, tensors []Tensor, meta map[string]string) error {
	type entry struct {
		DType   string    `json:"dtype"`
		Shape   []int     `json:"shape"`
		Offsets [2]uint64 `json:"data_offsets"`
	}
	head := map[string]any{"__metadata__": meta}
	at := uint64(0)
	for _, t := range tensors {
		n := uint64(len(t.Data)) * 4
		head[t.Name] = entry{"F32", append([]int{}, t.Shape...), [2]uint64{at, at + n}}
		at += n
	}
	b, err := json.Marshal(head)
	if err != nil {
		return err
	}
	for len(b)%8 != 0 {
		b = append(b, ' ')
	}
	if _, err := w.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(b))), b...)); err != nil {
		return fmt.Errorf("write safetensors: %w", err)
	}
	buf := make([]byte, 0, 1<<16)
	for _, t := range tensors {
		for i, x := range t.Data {
			buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(x))
			if len(buf) == cap(buf) || i == len(t.Data)-1 {
				if _, err := w.Write(buf); err != nil {
					return fmt.Errorf("write safetensors: %w", err)
				}
				buf = buf[:0]
			}
		}
	}
	return nil
}

// checkTensorName refuses names that could be taken for paths or hide in a
// terminal.
func checkTensorName(s string) error {
	if s == "" || len(s) > maxTensorName {
		return fmt.Errorf("a tensor's name has %d bytes, limit 1 to %d", len(s), maxTensorName)
	}
	if strings.Contains(s, "..") || filepath.IsAbs(s) || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7F || r == '\uFFFD' }) {
		return fmt.Errorf("tensor name %q has characters that no name has", s)
	}
	return nil
}
