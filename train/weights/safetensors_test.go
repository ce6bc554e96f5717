package weights

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tensorBytes is a file of a header and n bytes of tensors.
func tensorBytes(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, n)...)
}

func one(name, dtype, shape, offsets string) string {
	return fmt.Sprintf(`%q:{"dtype":%q,"shape":%s,"data_offsets":%s}`, name, dtype, shape, offsets)
}

// TestHostileTensors opens files that lie; each is refused with its reason.
func TestHostileTensors(t *testing.T) {
	length := func(n uint64) []byte { return append(binary.LittleEndian.AppendUint64(nil, n), "{}"...) }
	obj := func(parts ...string) string { return "{" + strings.Join(parts, ",") + "}" }
	many := make([]string, MaxTensors+2)
	for i := range many {
		many[i] = one(fmt.Sprintf("t%d", i), "F32", "[0]", "[0,0]")
	}
	for _, c := range []struct {
		what, want string
		file       []byte
	}{
		{"empty", "0 bytes", nil},
		{"short", "5 bytes", []byte("12345")},
		{"length 2^60", "header's length", length(1 << 60)},
		{"length 2^64-1", "header's length", length(math.MaxUint64)},
		{"length past the end", "header's length", length(11)},
		{"huge header", "limit", append(binary.LittleEndian.AppendUint64(nil, maxTensorHeader+1), make([]byte, maxTensorHeader+2)...)},
		{"git-lfs pointer", "git-LFS", []byte("version https://git-lfs.github.com/spec/v1\noid sha256:00\n")},
		{"no JSON", "no JSON object", tensorBytes("xxxx", 0)},
		{"a list", "no JSON object", tensorBytes("[]", 0)},
		{"cut off", "EOF", tensorBytes(`{"a":`, 0)},
		{"nested", "type", tensorBytes(`{"a":{"dtype":`+strings.Repeat("[", 10000)+`}`, 0)},
		{"not UTF-8", "UTF-8", tensorBytes("{\"a\xff\":{}}", 0)},
		{"name twice", "twice", tensorBytes(obj(one("a", "F32", "[1]", "[0,4]"), one("a", "F32", "[1]", "[4,8]")), 8)},
		{"field twice", "twice", tensorBytes(`{"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4)},
		{"field unknown", "unknown", tensorBytes(`{"a":{"dtype":"F32","size":1,"shape":[1],"data_offsets":[0,4]}}`, 4)},
		{"overlap", "inside another", tensorBytes(obj(one("a", "F32", "[2]", "[0,8]"), one("b", "F32", "[2]", "[4,12]")), 12)},
		{"same range", "inside another", tensorBytes(obj(one("a", "F32", "[2]", "[0,8]"), one("b", "F32", "[2]", "[0,8]")), 8)},
		{"hole", "no tensor", tensorBytes(obj(one("a", "F32", "[1]", "[0,4]"), one("b", "F32", "[1]", "[8,12]")), 12)},
		{"trailing", "after the last", tensorBytes(obj(one("a", "F32", "[1]", "[0,4]")), 5)},
		{"past the end", "the file has", tensorBytes(obj(one("a", "F32", "[2]", "[0,8]")), 4)},
		{"begin above end", "range", tensorBytes(obj(one("a", "F32", "[1]", "[4,0]")), 4)},
		{"negative", "whole number", tensorBytes(obj(one("a", "F32", "[-1]", "[0,4]")), 4)},
		{"negative offset", "whole number", tensorBytes(obj(one("a", "F32", "[1]", "[-4,0]")), 4)},
		{"fraction", "whole number", tensorBytes(obj(one("a", "F32", "[1.5]", "[0,4]")), 4)},
		{"product overflows", "more elements", tensorBytes(obj(one("a", "F32", "[4294967296,4294967296]", "[0,4]")), 4)},
		{"shape and range", "needs 8 bytes", tensorBytes(obj(one("a", "F32", "[2]", "[0,4]")), 4)},
		{"unknown type", "unknown", tensorBytes(obj(one("a", "F13", "[1]", "[0,4]")), 4)},
		{"too deep", "more than 8", tensorBytes(obj(one("a", "F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]")), 4)},
		{"three offsets", "more than 2", tensorBytes(obj(one("a", "F32", "[1]", "[0,4,4]")), 4)},
		{"no shape", "shape", tensorBytes(`{"a":{"dtype":"F32","data_offsets":[0,4]}}`, 4)},
		{"path as name", "characters", tensorBytes(obj(one("../a", "F32", "[1]", "[0,4]")), 4)},
		{"control characters", "characters", tensorBytes(obj(`"a\u001b[0m":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}`), 4)},
		{"long name", "limit", tensorBytes(obj(one(strings.Repeat("n", maxTensorName+1), "F32", "[1]", "[0,4]")), 4)},
		{"no name", "limit", tensorBytes(obj(one("", "F32", "[1]", "[0,4]")), 4)},
		{"metadata number", "string", tensorBytes(`{"__metadata__":{"a":1}}`, 0)},
		{"metadata twice", "twice", tensorBytes(`{"__metadata__":{"a":"1","a":"2"}}`, 0)},
		{"behind the object", "after its object", tensorBytes(`{} {}`, 0)},
		{"too many", "more than", tensorBytes(obj(many...), 0)},
	} {
		path := filepath.Join(t.TempDir(), "x.safetensors")
		if err := os.WriteFile(path, c.file, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(path)
		if !errors.Is(err, ErrFile) || !strings.Contains(fmt.Sprint(err), c.want) || !strings.Contains(fmt.Sprint(err), path) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
	}
}

func TestTensorsReturn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	want := []Tensor{{"b", []int{2, 3}, []float32{1, 2, 3, -0, 1e-40, 6}}, {"a", []int{0}, nil}, {"c", nil, []float32{7}}}
	if err := ReplaceFile(path, func(w io.Writer) error {
		return Write(w, want, map[string]string{"k": "v"})
	}); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Meta["k"] != "v" || !slices.Equal(f.Names(), []string{"a", "b", "c"}) {
		t.Errorf("metadata %v, names %v", f.Meta, f.Names())
	}
	for _, w := range want {
		got, err := f.Float32(w.Name)
		shape, ok := f.Shape(w.Name)
		if err != nil || !ok || !slices.Equal(shape, w.Shape) || !slices.Equal(got, w.Data) {
			t.Errorf("%s: %v %v, %v", w.Name, shape, got, err)
		}
	}
	if _, err := f.Float32("d"); !errors.Is(err, ErrFile) {
		t.Errorf("a tensor that is not there: %v", err)
	}
}

// TestTensorTypes reads 1.5 and -2 in each type, and refuses what is not finite.
func TestTensorTypes(t *testing.T) {
	for _, c := range []struct {
		dtype string
		bytes []byte
		bad   string
	}{
		{"F32", []byte{0, 0, 0xC0, 0x3F, 0, 0, 0, 0xC0}, ""},
		{"BF16", []byte{0xC0, 0x3F, 0, 0xC0}, ""},
		{"F16", []byte{0, 0x3E, 0, 0xC0}, ""},
		{"F64", append(binary.LittleEndian.AppendUint64(nil, math.Float64bits(1.5)), binary.LittleEndian.AppendUint64(nil, math.Float64bits(-2))...), ""},
		{"F32", []byte{0, 0, 0xC0, 0x3F, 0, 0, 0x80, 0x7F}, "element 1"},
		{"F16", []byte{0, 0x7E, 0, 0xC0}, "element 0"},
		{"I32", []byte{0, 0, 0, 0, 0, 0, 0, 0}, "has type I32"},
	} {
		head := "{" + one("a", c.dtype, "[2]", fmt.Sprintf("[0,%d]", len(c.bytes))) + "}"
		path := filepath.Join(t.TempDir(), "x")
		b := tensorBytes(head, 0)
		if err := os.WriteFile(path, append(b, c.bytes...), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Float32("a")
		f.Close()
		if c.bad == "" && (err != nil || got[0] != 1.5 || got[1] != -2) || c.bad != "" && !strings.Contains(fmt.Sprint(err), c.bad) {
			t.Errorf("%s % x: %v, %v", c.dtype, c.bytes, got, err)
		}
	}
	for h, want := range map[uint16]float32{0x0001: 1.0 / (1 << 24), 0x03FF: 1023.0 / (1 << 24), 0x0400: 1.0 / (1 << 14), 0x7BFF: 65504, 0x8000: 0} {
		if got := halfFloat(h); got != want {
			t.Errorf("half %04x is %v, want %v", h, got, want)
		}
	}
}

func FuzzTensorHeader(f *testing.F) {
	f.Add([]byte("{"+one("a", "F32", "[2,3]", "[0,24]")+"}"), int64(24))
	f.Add([]byte(`{"__metadata__":{"k":"v"}}`), int64(0))
	f.Fuzz(func(t *testing.T, head []byte, body int64) {
		_, entries, err := parseTensorHeader(head, body)
		if err != nil {
			return
		}
		total := int64(0)
		for n, e := range entries {
			if e.name != n || e.begin < 0 || e.end > body {
				t.Fatalf("entry %+v of %d bytes", e, body)
			}
			total += e.end - e.begin
		}
		if total != body {
			t.Fatalf("tensors of %d bytes in %d", total, body)
		}
	})
}

func TestIntegers(t *testing.T) {
	for _, c := range []struct {
		dtype string
		bytes []byte
		want  int64
	}{{"I8", []byte{0xFE}, -2}, {"U8", []byte{0xFE}, 254}, {"I16", []byte{0xFE, 0xFF}, -2}, {"I64", []byte{1, 0, 0, 0, 0, 0, 0, 0x80}, -1<<63 + 1}, {"U32", []byte{0, 0, 0, 0x80}, 1 << 31}} {
		path := filepath.Join(t.TempDir(), "x")
		b := tensorBytes("{"+one("a", c.dtype, "[1]", fmt.Sprintf("[0,%d]", len(c.bytes)))+"}", 0)
		if err := os.WriteFile(path, append(b, c.bytes...), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Integers("a")
		_, bad := f.Integers("b")
		f.Close()
		if err != nil || got[0] != c.want || !errors.Is(bad, ErrFile) {
			t.Errorf("%s: %v, %v, %v", c.dtype, got, err, bad)
		}
	}
}
