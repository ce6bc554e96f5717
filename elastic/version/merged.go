package version

import (
	"bytes"
	"context"
	"fmt"

	"github.com/apiary-net/hived/tensorops/codec"
	"github.com/apiary-net/hived/tensorops/num"
	"github.com/apiary-net/hived/wire"
)

// A gradient or delta on its way to the owner of a part, and what the owner merged on
// its way back: both travel outside of a body.

// EncodePart encodes the values of one part of a gradient, without a residual.
func (m *Model) EncodePart(x []float32) ([]byte, error) {
	return m.codec.Encode(&codec.State{}, 0, nil, x)
}

// DecodePart decodes what EncodePart gave into x, which has the part's length.
func (m *Model) DecodePart(x []float32, b []byte) error { return m.codec.Decode(0, x, b) }

// MaxPart bounds the bytes of part i of a gradient.
func (m *Model) MaxPart(i int) int { return m.codec.MaxSize(m.parts[i].Hi - m.parts[i].Lo) }

// mergedType is how merged values are encoded.
func (m *Model) mergedType() string {
	if m.g.Preset.Merged == "bf16" {
		return "bf16"
	}
	return "f32"
}

// MergedLen is the length in bytes of merged part i.
func (m *Model) MergedLen(i int) int {
	return (m.parts[i].Hi - m.parts[i].Lo) * wire.Vector{Type: m.mergedType()}.Width()
}

// EncodeMerged encodes merged values and rounds x to what everybody will decode.
func (m *Model) EncodeMerged(x []float32) []byte {
	var out []byte
	w, err := blocksOf(vector{"merged", m.mergedType(), x}, func(b []byte) (wire.CID, error) {
		out = append(out, b...)
		return wire.CID{}, nil
	})
	if err != nil {
		panic(fmt.Sprintf("version: encode merged part: %v", err))
	}
	if err := decodeBlock(x, out, w.Width()); err != nil {
		panic(fmt.Sprintf("version: decode own merged part: %v", err))
	}
	return out
}

// DecodeMerged decodes what EncodeMerged gave into x, which has the part's length.
func (m *Model) DecodeMerged(x []float32, b []byte) error {
	return decodeBlock(x, b, wire.Vector{Type: m.mergedType()}.Width())
}

// MergedCID names a merged update as the genesis' merged codec encodes it, and
// makes it what everybody applies: decode(encode(merged)), in place. put may store the
// blocks; nil only hashes them.
func (m *Model) MergedCID(merged []float32, put func([]byte) (wire.CID, error)) (wire.CID, error) {
	if m.mergedType() == "bf16" {
		for i, x := range merged {
			merged[i] = num.FromBF16(num.ToBF16(x))
		}
	}
	if put == nil {
		put = hashOnly
	}
	return manifestOf(m.digest, []vector{{"merged", m.mergedType(), merged}}, put)
}

// LoadMerged fetches a merged update by its CID.
func (m *Model) LoadMerged(ctx context.Context, id wire.CID, get GetBlock) ([]float32, error) {
	v, err := LoadVectors(ctx, m.digest, id, map[string]int{"merged": m.params}, get)
	if err != nil {
		return nil, err
	}
	return v["merged"], nil
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
