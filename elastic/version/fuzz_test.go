package version

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math"
	"testing"

	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/tensorops/codec"
	"github.com/apiary-net/hived/wire"
)

// fuzzModel has two tensors and three parts.
func fuzzModel(tb testing.TB, name, merged string) *Model {
	tb.Helper()
	schema := wire.Schema{{Name: "a", Shape: []uint32{4100}}, {Name: "b", Shape: []uint32{3}}}
	g := &wire.Genesis{Schema: schema.Digest(), PartValues: 4096}
	g.Preset.Codec, g.Preset.Merged, g.Preset.Aggregator, g.Preset.Outer.Rule = name, merged, "mean", "sgd"
	m, err := NewModel(g, schema)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func finite(tb testing.TB, what string, x []float32) {
	tb.Helper()
	for i, f := range x {
		if f-f != 0 {
			tb.Fatalf("%s: value %d is %v", what, i, f)
		}
	}
}

// FuzzPart decodes parts of members and of owners: what is taken is finite, and a
// merged part has one encoding.
func FuzzPart(f *testing.F) {
	var models []*Model
	for _, c := range codec.Names() {
		for _, merged := range wire.MergedCodecs() {
			models = append(models, fuzzModel(f, c, merged))
		}
	}
	for i, m := range models {
		x := []float32{1, -2.5, 0x1p-140}
		b, err := m.EncodePart(x)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), b)
		f.Add(uint8(i), m.EncodeMerged(x))
	}
	f.Fuzz(func(t *testing.T, i uint8, b []byte) {
		m, x := models[int(i)%len(models)], make([]float32, 3)
		if m.DecodePart(x, b) == nil {
			finite(t, "part", x)
			if len(b) > m.MaxPart(2) {
				t.Errorf("a part of %d bytes, limit %d", len(b), m.MaxPart(2))
			}
		}
		if m.DecodeMerged(x, b) == nil {
			finite(t, "merged part", x)
			if len(b) != m.MergedLen(2) || !bytes.Equal(m.EncodeMerged(x), b) {
				t.Errorf("%x is taken and encodes as %x", b, m.EncodeMerged(x))
			}
		}
	})
}

// FuzzLoadState loads versions of which manifest and blocks come from anybody:
// what is taken is whole, finite, and has the name that was asked for.
func FuzzLoadState(f *testing.F) {
	m := fuzzModel(f, "none", "none")
	s, err := m.NewState(3, make([]float32, m.params), nil, nil)
	if err != nil {
		f.Fatal(err)
	}
	var blocks [][]byte
	err = m.Blocks(s, func(b []byte) (wire.CID, error) {
		blocks = append(blocks, bytes.Clone(b))
		return wire.RawCID(b), nil
	})
	if err != nil || len(blocks) != 2 {
		f.Fatal(len(blocks), err)
	}
	f.Add(blocks[1], blocks[0])
	f.Add(blocks[1], blocks[0][1:])
	f.Fuzz(func(t *testing.T, manifest, block []byte) {
		get := func(_ context.Context, ids []wire.CID, got func(wire.CID, []byte) error) error {
			for _, id := range ids {
				b := block
				if id.Names(manifest) {
					b = manifest
				} else if id.Digest() != wire.Sum(block) {
					return fmt.Errorf("block %s: %w", id.Short(), fs.ErrNotExist)
				}
				if err := got(id, b); err != nil {
					return err
				}
			}
			return nil
		}
		id := wire.ManifestCID(manifest)
		s, err := m.LoadState(t.Context(), 3, id, get)
		if err != nil {
			return
		}
		finite(t, "state", s.Params)
		if len(s.Params) != m.params || len(s.Buffers) != 0 || len(s.Outer) != 0 {
			t.Fatalf("%d parameters, %d buffers, %d of the outer step", len(s.Params), len(s.Buffers), len(s.Outer))
		}
		if again, err := m.NewState(3, s.Params, s.Buffers, s.Outer); err != nil || again.ID != id {
			t.Errorf("the state that %s names is %s: %v", id.Short(), again.ID.Short(), err)
		}
		if _, err := m.LoadMerged(t.Context(), id, get); err == nil {
			t.Error("a state is taken for a merged update")
		}
	})
}

// FuzzIndex checks index blocks under a header that commits to what they say, as a
// liar would sign one: what is taken fits the model, and parts that are not the ones
// of the index are refused.
func FuzzIndex(f *testing.F) {
	m := fuzzModel(f, "int8", "none")
	nonce := make([]byte, 32)
	con, err := m.Encode(make([]float32, m.params), nil, nonce)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(con.Index, con.Blocks[2])
	f.Add(wire.Marshal(&wire.WindowBody{Nonce: nonce, Merged: []wire.CID{wire.ManifestCID(nil)}}), []byte{})
	scratch := make([]float32, 4096)
	f.Fuzz(func(t *testing.T, index, block []byte) {
		h := wire.Header{Body: wire.RawCID(index), Parts: uint32(len(m.parts)), Bytes: uint64(len(index))}
		var b wire.Body
		if wire.UnmarshalAny(index, &b, wire.MaxBlock) == nil {
			var leaves []wire.Digest
			squares := 0.0
			for _, p := range b.Parts {
				leaves, squares, h.Bytes = append(leaves, p.Block), squares+p.SumSquares, h.Bytes+uint64(p.Bytes)
			}
			h.Nonce, h.Root, h.Norm = wire.Sum(b.Nonce), wire.MerkleRoot(leaves), float32(math.Sqrt(squares))
		}
		if got, err := m.CheckIndex(&h, index); err == nil {
			if len(got.Parts) != len(m.parts) || !bytes.Equal(wire.Marshal(got), index) {
				t.Errorf("an index of %d parts is taken", len(got.Parts))
			}
			for i, p := range got.Parts {
				if int(p.Bytes) > m.MaxPart(i) {
					t.Errorf("part %d of %d bytes is taken, limit %d", i, p.Bytes, m.MaxPart(i))
				}
				if m.CheckPart(i, p, block, scratch) == nil && wire.Sum(block) != p.Block {
					t.Errorf("part %d is another block", i)
				}
			}
		}
		var w wire.WindowBody
		if wire.UnmarshalAny(index, &w, wire.MaxBlock) == nil {
			h.Nonce, h.Steps, h.Root = wire.Sum(w.Nonce), uint32(len(w.Merged)), rules.WindowRoot(w.Merged)
			if got, err := CheckWindowBody(&h, index); err == nil && (len(got.Merged) > wire.MaxWindow || !bytes.Equal(wire.Marshal(got), index)) {
				t.Errorf("a window of %d steps is taken", len(got.Merged))
			}
		}
	})
}
