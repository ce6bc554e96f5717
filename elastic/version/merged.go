package version

import (
	"bytes"
	"context"
	"fmt"

	"github.com/apiary-net/hived/wire"
)

// EncodeMerged encodes a merged part and rounds x to what everybody will decode.
func EncodeMerged(codec string, x []float32) []byte {
	typ := MergedType(codec)
	var out []byte
	w, err := blocksOf(vector{"merged", typ, x}, func(b []byte) (wire.CID, error) {
		out = append(out, b...)
		return wire.CID{}, nil
	})
	if err != nil {
		panic(fmt.Sprintf("elastic: encode merged part: %v", err))
	}
	if err := decodeBlock(x, out, w.Width()); err != nil {
		panic(fmt.Sprintf("elastic: decode own merged part: %v", err))
	}
	return out
}

func DecodeMerged(codec string, x []float32, b []byte) error {
	return decodeBlock(x, b, wire.Vector{Type: MergedType(codec)}.Width())
}

func MergedType(codec string) string {
	if codec == "bf16" {
		return "bf16"
	}
	return "f32"
}

// EachBlock gives the manifest id and every block that it names to f.
func EachBlock(ctx context.Context, id wire.CID, get GetBlock, f func(b []byte) error) error {
	var m wire.Manifest
	err := get(ctx, []wire.CID{blockManifest(id)}, func(_ wire.CID, b []byte) (err error) {
		if m, err = wire.OpenManifest(id, b); err != nil {
			return err
		}
		return f(bytes.Clone(b))
	})
	if err != nil {
		return err
	}
	var ids []wire.CID
	for _, v := range m.Vectors {
		ids = append(ids, v.Blocks...)
	}
	return get(ctx, ids, func(_ wire.CID, b []byte) error { return f(b) })
}
