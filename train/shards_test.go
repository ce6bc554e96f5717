package train

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// shard is a safetensors file of n samples of width w and their classes as bytes.
func shard(n, w int, class func(i int) byte) []byte {
	head := "{" + one("x", "F32", fmt.Sprintf("[%d,%d]", n, w), fmt.Sprintf("[0,%d]", 4*n*w)) + "," +
		one("y", "U8", fmt.Sprintf("[%d]", n), fmt.Sprintf("[%d,%d]", 4*n*w, 4*n*w+n)) + "}"
	b := tensorBytes(head, 0)
	for i := range n * w {
		b = append(b, 0, 0, byte(mix(uint64(i))), 0x3F)
	}
	for i := range n {
		b = append(b, class(i))
	}
	return b
}

func TestTensorShards(t *testing.T) {
	class := func(i int) byte { return byte(i % 3) }
	a, b := shard(20, 5, class), shard(9, 5, func(i int) byte { return byte(i%3 + 1) })
	d, err := OpenData(DataSpec{Format: "tensors", Path: write(t, map[string]string{"a.safetensors": string(a), "b.safetensors": string(b), "c.txt": "no"})})
	if err != nil {
		t.Fatal(err)
	}
	l := d.(*labelled)
	if f := d.Form(); f.Kind != "table" || f.Size() != 5 || f.Classes != 4 || d.Len(SplitTrain)+l.copies != 29 || d.Len(SplitTrain) < 20 {
		t.Errorf("%+v, %d samples, %d copies", f, d.Len(SplitTrain), l.copies)
	}
	if f := shardForm([]int{7, 4, 5, 3}); f.Kind != "image" || f.Size() != 60 {
		t.Errorf("%+v", f)
	}
	spec := func(files map[string]string) DataSpec { return DataSpec{Format: "tensors", Path: write(t, files)} }
	refuse(t, "nothing", spec(nil), "no file")
	refuse(t, "another width", spec(map[string]string{"a.safetensors": string(a), "b.safetensors": string(shard(3, 4, class))}), "samples of [4] beside [5]")
	refuse(t, "cut", spec(map[string]string{"a.safetensors": string(a[:len(a)-1])}), "the file has")
	refuse(t, "no labels", spec(map[string]string{"a.safetensors": strings.Replace(string(a), `"y"`, `"z"`, 1)}), `no "y"`)
	refuse(t, "one class", spec(map[string]string{"a.safetensors": string(shard(5, 5, func(int) byte { return 2 }))}), "1 classes")
	nan := bytes.Clone(a)
	at := len(a) - 20 - 4
	copy(nan[at:], []byte{0, 0, 0xC0, 0x7F})
	refuse(t, "not a number", spec(map[string]string{"a.safetensors": string(nan)}), `of "x" is NaN`)
	twice := strings.Replace(string(a), `"y"`, `"x"`, 1)
	refuse(t, "name twice", spec(map[string]string{"a.safetensors": twice}), "twice")
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
		f, err := OpenTensors(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Integers("a")
		_, bad := f.Integers("b")
		f.Close()
		if err != nil || got[0] != c.want || !errors.Is(bad, ErrData) {
			t.Errorf("%s: %v, %v, %v", c.dtype, got, err, bad)
		}
	}
}
