package data

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

// shard is a safetensors file of n samples of width w and their classes as bytes.
func shard(n, w int, class func(i int) byte) []byte {
	head := fmt.Sprintf(`{"x":{"dtype":"F32","shape":[%d,%d],"data_offsets":[0,%d]},"y":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]}}`, n, w, 4*n*w, n, 4*n*w, 4*n*w+n)
	b := append(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), head...)
	for i := range n * w {
		b = append(b, 0, 0, byte(Mix(uint64(i))), 0x3F)
	}
	for i := range n {
		b = append(b, class(i))
	}
	return b
}

func TestTensorShards(t *testing.T) {
	class := func(i int) byte { return byte(i % 3) }
	a, b := shard(20, 5, class), shard(9, 5, func(i int) byte { return byte(i%3 + 1) })
	d, err := Open(Spec{Format: "tensors", Path: write(t, map[string]string{"a.safetensors": string(a), "b.safetensors": string(b), "c.txt": "no"})})
	if err != nil {
		t.Fatal(err)
	}
	l := d.(*labelled)
	if f := d.Form(); f.Kind != "table" || f.Size() != 5 || f.Classes != 4 || d.Len(Train)+l.copies != 29 || d.Len(Train) < 20 {
		t.Errorf("%+v, %d samples, %d copies", f, d.Len(Train), l.copies)
	}
	if f := shardForm([]int{7, 4, 5, 3}); f.Kind != "image" || f.Size() != 60 {
		t.Errorf("%+v", f)
	}
	spec := func(files map[string]string) Spec { return Spec{Format: "tensors", Path: write(t, files)} }
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
