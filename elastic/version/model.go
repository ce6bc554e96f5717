package version

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/tensorops/codec"
	"github.com/apiary-net/hived/tensorops/merge"
	"github.com/apiary-net/hived/tensorops/num"
	"github.com/apiary-net/hived/wire"
)

// Model is what the genesis fixes about the numbers of a run: how contributions
// are cut, encoded, merged and applied. It is safe for concurrent use.
type Model struct {
	g      *wire.Genesis
	schema wire.Schema
	digest wire.Digest // of schema
	parts  []wire.Part
	params int
	codec  codec.Codec
	rule   merge.Rule
	outer  merge.Outer
}

// NewModel checks that schema is the one of the genesis.
func NewModel(g *wire.Genesis, schema wire.Schema) (*Model, error) {
	if err := schema.Check(); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if schema.Digest() != g.Schema {
		return nil, fmt.Errorf("model: schema %s here, %s in the genesis", schema.Digest().Short(), g.Schema.Short())
	}
	if schema.Buffers() > 0 {
		return nil, errors.New("model: models with buffers are not supported by this version")
	}
	m := &Model{g: g, schema: schema, digest: g.Schema, parts: schema.Parts(int(g.PartValues)), params: schema.Params()}
	var err error
	if m.codec, err = codec.New(g.Preset.Codec); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if m.rule, err = merge.NewRule(g.Preset.Aggregator); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if m.outer, err = merge.NewOuter(g.Preset.Outer.Rule); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	return m, nil
}

// Params is the number of parameters.
func (m *Model) Params() int { return m.params }

// Parts returns how the parameters are cut. The caller must not change it.
func (m *Model) Parts() []wire.Part { return m.parts }

// OuterLen is the length of the outer optimizer's state.
func (m *Model) OuterLen() int { return m.outer.StateLen(m.params) }

// Contribution is an encoded update: what a header commits to.
type Contribution struct {
	Index  []byte   // canonical Body
	Blocks [][]byte // encoded parts
	Root   wire.Digest
	Norm   float32
	Bytes  uint64
}

// Encode encodes x, a vector of all parameters. residual, of the same length, is
// the error feedback: read and updated; nil for none.
func (m *Model) Encode(x, residual []float32, nonce []byte) (*Contribution, error) {
	c := &Contribution{}
	body := wire.Body{Nonce: nonce}
	var leaves []wire.Digest
	var total float64
	scratch := make([]float32, m.g.PartValues)
	for _, p := range m.parts {
		st := &codec.State{}
		if residual != nil {
			st.Residual = residual[p.Lo:p.Hi]
		}
		b, err := m.codec.Encode(st, 0, nil, x[p.Lo:p.Hi])
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", m.schema[p.Tensor].Name, err)
		}
		y := scratch[:p.Hi-p.Lo]
		if err := m.codec.Decode(0, y, b); err != nil {
			return nil, fmt.Errorf("encode %s: %w", m.schema[p.Tensor].Name, err)
		}
		ref := wire.PartRef{Block: wire.Sum(b), Bytes: uint32(len(b)), SumSquares: num.SumSquares(y)}
		total += ref.SumSquares
		leaves = append(leaves, ref.Block)
		body.Parts = append(body.Parts, ref)
		c.Blocks = append(c.Blocks, b)
		c.Bytes += uint64(len(b))
	}
	c.Index = wire.Marshal(&body)
	c.Bytes += uint64(len(c.Index))
	c.Root, c.Norm = wire.MerkleRoot(leaves), float32(math.Sqrt(total))
	return c, nil
}

// BadBody is why a body is refused.
type BadBody struct {
	Reason wire.Reason
	Detail string
}

func (e *BadBody) Error() string { return fmt.Sprintf("body refused (%s): %s", e.Reason, e.Detail) }

func bad(r wire.Reason, format string, args ...any) error {
	return &BadBody{r, fmt.Sprintf(format, args...)}
}

// CheckIndex decodes and checks the index block of h.
func (m *Model) CheckIndex(h *wire.Header, index []byte) (*wire.Body, error) {
	if !h.Body.Names(index) {
		return nil, bad(wire.ReasonBody, "index block does not match the header")
	}
	var b wire.Body
	if err := wire.Unmarshal(index, &b, wire.MaxBlock); err != nil {
		return nil, bad(wire.ReasonBody, "%v", err)
	}
	if len(b.Parts) != len(m.parts) {
		return nil, bad(wire.ReasonSchema, "%d parts, want %d", len(b.Parts), len(m.parts))
	}
	if wire.Sum(b.Nonce) != h.Nonce {
		return nil, bad(wire.ReasonBody, "nonce does not match the header")
	}
	var leaves []wire.Digest
	total := uint64(len(index))
	var squares float64
	for i, p := range b.Parts {
		if int(p.Bytes) > m.codec.MaxSize(m.parts[i].Hi-m.parts[i].Lo) {
			return nil, bad(wire.ReasonOversize, "part %d has %d bytes", i, p.Bytes)
		}
		leaves = append(leaves, p.Block)
		total += uint64(p.Bytes)
		squares += p.SumSquares
	}
	if wire.MerkleRoot(leaves) != h.Root || total != h.Bytes || int(h.Parts) != len(m.parts) || float32(math.Sqrt(squares)) != h.Norm {
		return nil, bad(wire.ReasonBody, "root, size or norm does not match the header")
	}
	return &b, nil
}

// CheckPart checks one encoded part: length, finite values, sum of squares.
// scratch holds at least PartValues values.
func (m *Model) CheckPart(i int, ref wire.PartRef, block []byte, scratch []float32) error {
	if wire.Sum(block) != ref.Block || len(block) != int(ref.Bytes) {
		return bad(wire.ReasonBody, "part %d does not match its digest", i)
	}
	y := scratch[:m.parts[i].Hi-m.parts[i].Lo]
	if err := m.codec.Decode(0, y, block); err != nil {
		return bad(wire.ReasonNonFinite, "part %d: %v", i, err)
	}
	if num.SumSquares(y) != ref.SumSquares {
		return bad(wire.ReasonBody, "part %d: sum of squares is not the stated one", i)
	}
	return nil
}

// Counted is one contribution of a decided cut: the index and a way to its parts.
type Counted struct {
	Samples uint32
	Body    *wire.Body
	Part    func(i int) ([]byte, error)
}

// Merge merges the contributions of a cut, given in the order of peer ids.
func (m *Model) Merge(in []Counted) ([]float32, error) {
	out := make([]float32, m.params)
	for i, p := range m.parts {
		if err := m.MergePart(i, in, out[p.Lo:p.Hi]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// MergePart merges part i of the contributions of a cut into out.
func (m *Model) MergePart(i int, in []Counted, out []float32) error {
	stats, views := make([]merge.Stat, len(in)), make([][]float32, len(in))
	for k, c := range in {
		b, err := c.Part(i)
		if err != nil {
			return fmt.Errorf("merge part %d: %w", i, err)
		}
		views[k] = make([]float32, len(out))
		if err := m.CheckPart(i, c.Body.Parts[i], b, views[k]); err != nil {
			return fmt.Errorf("merge: %w", err)
		}
		stats[k] = merge.Stat{Samples: c.Samples, SumSquares: c.Body.Parts[i].SumSquares}
	}
	w, total, err := m.rule.Weights(stats)
	if err != nil {
		return fmt.Errorf("merge part %d: %w", i, err)
	}
	rep, err := m.rule.Merge(out, views, w, total)
	if err != nil {
		return fmt.Errorf("merge part %d: %w", i, err)
	}
	if rep.NonFinite {
		return fmt.Errorf("merge part %d: a merged value is not finite", i)
	}
	return nil
}

// Step applies a merged update as outer step number n (from 1) in a round, in
// place; merged is scratch afterwards. In windows the outer rate follows the
// schedule of the local one.
func (m *Model) Step(params, outer, merged []float32, round, n uint64) {
	o := m.g.Preset.Outer
	if m.g.Preset.Cadence.Window {
		o.LR = float32(o.LR * num.RateScale(m.g.Preset.Inner.Decay, round, m.g.Rounds))
	}
	if o.Clip > 0 {
		merge.ClipNorm(merged, float64(o.Clip))
	}
	m.outer.Step(params, outer, merged, merge.Coef{LR: o.LR, Momentum: o.Momentum, Beta1: o.Beta1, Beta2: o.Beta2, Eps: o.Eps,
		WeightDecay: o.WeightDecay, Bias1: num.BiasCorrection(o.Beta1, n), Bias2: num.BiasCorrection(o.Beta2, n)})
}

// Next returns parameters and outer state after s for a decided record: its
// merged updates applied in order. prevSteps are the outer steps before.
func (m *Model) Next(s *State, prevSteps uint64, merged [][]float32) (params, outer []float32) {
	params, outer = slices.Clone(s.Params), slices.Clone(s.Outer)
	for i, d := range merged {
		m.Step(params, outer, slices.Clone(d), s.Round+1, prevSteps+uint64(i)+1)
	}
	return params, outer
}

// CheckWindowBody decodes the index block of a window's header.
func CheckWindowBody(h *wire.Header, index []byte) (*wire.WindowBody, error) {
	if !h.Body.Names(index) {
		return nil, bad(wire.ReasonBody, "index block does not match the header")
	}
	var b wire.WindowBody
	if err := wire.Unmarshal(index, &b, wire.MaxBlock); err != nil {
		return nil, bad(wire.ReasonBody, "%v", err)
	}
	if wire.Sum(b.Nonce) != h.Nonce || len(b.Merged) != int(h.Steps) || rules.WindowRoot(b.Merged) != h.Root {
		return nil, bad(wire.ReasonBody, "nonce, steps or root does not match the header")
	}
	return &b, nil
}

// FetchBody fetches a contribution and checks it: the index, and all parts or
// those that want names. got receives every block; it must keep a copy if it
// keeps the bytes.
func (m *Model) FetchBody(ctx context.Context, h *wire.Header, want func(part int) bool, get GetBlock, got func(id wire.CID, b []byte)) (*wire.Body, error) {
	scratch := make([]float32, m.g.PartValues)
	return m.fetchBody(ctx, h, want, get, func(i int, ref wire.PartRef, b []byte) error { return m.CheckPart(i, ref, b, scratch) }, got)
}

// fetchBody is FetchBody with another check of parts.
func (m *Model) fetchBody(ctx context.Context, h *wire.Header, want func(part int) bool, get GetBlock, check func(i int, ref wire.PartRef, b []byte) error, got func(id wire.CID, b []byte)) (*wire.Body, error) {
	var index []byte
	err := get(ctx, []wire.CID{h.Body}, func(_ wire.CID, b []byte) error {
		index = bytes.Clone(b)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("fetch body: %w", err)
	}
	body, err := m.CheckIndex(h, index)
	if err != nil {
		return nil, err
	}
	got(h.Body, index)
	ids := make([]wire.CID, 0, len(body.Parts))
	at := map[wire.CID][]int{}
	for i, p := range body.Parts {
		id := wire.RawDigestCID(p.Block)
		if want != nil && !want(i) {
			continue
		}
		if at[id] == nil {
			ids = append(ids, id)
		}
		at[id] = append(at[id], i)
	}
	var refused error
	err = get(ctx, ids, func(id wire.CID, b []byte) error {
		for _, i := range at[id] {
			if err := check(i, body.Parts[i], b); err != nil {
				refused = err
				return err
			}
		}
		got(id, b)
		delete(at, id)
		return nil
	})
	if refused != nil {
		return nil, refused
	}
	if err != nil {
		return nil, fmt.Errorf("fetch body: %w", err)
	}
	if len(at) > 0 {
		return nil, errors.New("fetch body: parts are missing")
	}
	return body, nil
}
