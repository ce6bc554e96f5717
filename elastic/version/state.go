package version

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/apiary-net/hived/tensorops/num"
	"github.com/apiary-net/hived/wire"
)

// State is a version of the model: flat float32 vectors in the schema's order.
// A State is never changed after it was made.
type State struct {
	Round   uint64
	Params  []float32
	Buffers []float32
	Outer   []float32 // outer optimizer state
	ID      wire.CID  // of the manifest
}

type vector struct {
	name, typ string
	values    []float32
}

// blocksOf cuts v into blocks of 1 MiB of little-endian values.
func blocksOf(v vector, put func([]byte) (wire.CID, error)) (wire.Vector, error) {
	out := wire.Vector{Name: v.name, Type: v.typ, Len: uint64(len(v.values)), Blocks: []wire.CID{}}
	per := wire.MaxBlock / out.Width()
	for lo := 0; lo < len(v.values); lo += per {
		part := v.values[lo:min(lo+per, len(v.values))]
		b := make([]byte, 0, len(part)*out.Width())
		for _, x := range part {
			if v.typ == "bf16" {
				b = binary.LittleEndian.AppendUint16(b, num.ToBF16(x))
			} else {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
			}
		}
		id, err := put(b)
		if err != nil {
			return out, err
		}
		out.Blocks = append(out.Blocks, id)
	}
	return out, nil
}

// manifestOf names vectors by their blocks. put gets every block and, last, the
// manifest itself.
func manifestOf(schema wire.Digest, vs []vector, put func([]byte) (wire.CID, error)) (wire.CID, error) {
	m := wire.Manifest{V: 1, Schema: schema}
	for _, v := range vs {
		if len(v.values) == 0 {
			continue
		}
		w, err := blocksOf(v, put)
		if err != nil {
			return wire.CID{}, fmt.Errorf("store vector %s: %w", v.name, err)
		}
		m.Vectors = append(m.Vectors, w)
	}
	b := wire.Marshal(&m)
	if _, err := put(b); err != nil {
		return wire.CID{}, fmt.Errorf("store manifest: %w", err)
	}
	return wire.ManifestCID(b), nil
}

func hashOnly(b []byte) (wire.CID, error) { return wire.RawCID(b), nil }

func (s *State) vectors() []vector {
	return []vector{{"params", "f32", s.Params}, {"buffers", "f32", s.Buffers}, {"outer", "f32", s.Outer}}
}

// NewState makes a state, which takes over the slices, and computes its version.
func (m *Model) NewState(round uint64, params, buffers, outer []float32) (*State, error) {
	s := &State{Round: round, Params: params, Buffers: buffers, Outer: outer}
	var err error
	s.ID, err = manifestOf(m.digest, s.vectors(), hashOnly)
	return s, err
}

// Blocks gives the blocks of a state, and last its manifest, to put.
func (m *Model) Blocks(s *State, put func([]byte) (wire.CID, error)) error {
	_, err := manifestOf(m.digest, s.vectors(), put)
	return err
}

// LoadState fetches a version by its CID.
func (m *Model) LoadState(ctx context.Context, round uint64, id wire.CID, get GetBlock) (*State, error) {
	man, err := openManifest(ctx, m.digest, id, get)
	if err != nil {
		return nil, err
	}
	want := map[string]int{"params": m.params, "buffers": m.schema.Buffers(), "outer": m.OuterLen()}
	var names []string
	for _, name := range []string{"params", "buffers", "outer"} {
		if want[name] > 0 {
			names = append(names, name)
		}
	}
	// Others could be read, but kept they would have another name.
	if !slices.EqualFunc(man.Vectors, names, func(v wire.Vector, name string) bool { return v.Name == name && v.Type == "f32" }) {
		return nil, fmt.Errorf("load version %s: its manifest is not that of a state", id.Short())
	}
	v, err := loadVectors(ctx, man, id, want, get)
	if err != nil {
		return nil, err
	}
	return &State{Round: round, Params: v["params"], Buffers: v["buffers"], Outer: v["outer"], ID: id}, nil
}

// GetBlock returns a block by its id; the bytes are checked by whoever reads.
type GetBlock func(ctx context.Context, ids []wire.CID, got func(wire.CID, []byte) error) error

// blockManifest is the raw block id of a manifest: manifests travel as blocks.
func blockManifest(id wire.CID) wire.CID { return wire.RawDigestCID(id.Digest()) }

// LoadVectors fetches and decodes the vectors that the manifest id names. want
// gives the length that each must have; other vectors are refused.
func LoadVectors(ctx context.Context, schema wire.Digest, id wire.CID, want map[string]int, get GetBlock) (map[string][]float32, error) {
	m, err := openManifest(ctx, schema, id, get)
	if err != nil {
		return nil, err
	}
	return loadVectors(ctx, m, id, want, get)
}

// openManifest fetches the manifest id, which must be of a model.
func openManifest(ctx context.Context, schema wire.Digest, id wire.CID, get GetBlock) (m wire.Manifest, err error) {
	err = get(ctx, []wire.CID{blockManifest(id)}, func(_ wire.CID, b []byte) (err error) {
		m, err = wire.OpenManifest(id, b)
		return err
	})
	if err != nil {
		return m, fmt.Errorf("load manifest %s: %w", id.Short(), err)
	}
	if m.Schema != schema {
		return m, fmt.Errorf("load manifest %s: it is of another model", id.Short())
	}
	return m, nil
}

func loadVectors(ctx context.Context, m wire.Manifest, id wire.CID, want map[string]int, get GetBlock) (map[string][]float32, error) {
	out := map[string][]float32{}
	type place struct {
		dst   []float32
		width int
	}
	places := map[wire.CID][]place{}
	var ids []wire.CID
	for _, v := range m.Vectors {
		if n, ok := want[v.Name]; !ok || uint64(n) != v.Len {
			return nil, fmt.Errorf("load manifest %s: vector %q of %d values is not wanted", id.Short(), v.Name, v.Len)
		}
		dst := make([]float32, v.Len)
		out[v.Name] = dst
		per := wire.MaxBlock / v.Width()
		for i, b := range v.Blocks {
			if places[b] == nil {
				ids = append(ids, b)
			}
			places[b] = append(places[b], place{dst[i*per : min((i+1)*per, len(dst))], v.Width()})
		}
	}
	for name, n := range want {
		if n > 0 && out[name] == nil {
			return nil, fmt.Errorf("load manifest %s: vector %q is missing", id.Short(), name)
		}
	}
	err := get(ctx, ids, func(id wire.CID, b []byte) error {
		if !id.Names(b) {
			return fmt.Errorf("block %s: bytes do not match", id.Short())
		}
		for _, p := range places[id] {
			if err := decodeBlock(p.dst, b, p.width); err != nil {
				return fmt.Errorf("block %s: %w", id.Short(), err)
			}
		}
		delete(places, id)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(places) > 0 {
		return nil, fmt.Errorf("load manifest %s: %d blocks are missing", id.Short(), len(places))
	}
	return out, nil
}

func decodeBlock(dst []float32, b []byte, width int) error {
	if len(b) != len(dst)*width {
		return fmt.Errorf("%d bytes for %d values", len(b), len(dst))
	}
	for i := range dst {
		if width == 2 {
			dst[i] = num.FromBF16(binary.LittleEndian.Uint16(b[2*i:]))
		} else {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
		if x := dst[i]; x-x != 0 {
			return errors.New("a value is not finite")
		}
	}
	return nil
}
