package rulestest

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/wire"
)

// Swarm is a run of n peers whose start record is made.
type Swarm struct {
	Genesis *wire.Genesis
	Run     wire.RunID
	Keys    []wire.Key // in peer order
	History rules.History
}

// New makes a run of n peers whose start record is made; change may change its genesis.
func New(n int, change func(*wire.Genesis)) *Swarm {
	b := &Swarm{Genesis: Genesis()}
	for i := range n {
		var seed [32]byte
		binary.BigEndian.PutUint64(seed[:], uint64(i+1))
		k, err := wire.KeyFromSeed(seed[:])
		if err != nil {
			panic(err)
		}
		b.Keys = append(b.Keys, k)
	}
	slices.SortFunc(b.Keys, func(x, y wire.Key) int { return x.Peer().Compare(y.Peer()) })
	b.Genesis.Creator, b.Genesis.MinPeers = b.Keys[0].Peer(), uint32(n)
	if change != nil {
		change(b.Genesis)
	}
	b.Run = wire.Sum(wire.Marshal(b.Genesis))
	start := wire.ManifestCID([]byte("start"))
	var readys []wire.Envelope
	for _, k := range b.Keys {
		readys = append(readys, wire.Seal(k, wire.KindReady, b.Run, 0, &wire.Ready{Version: start, Schema: b.Genesis.Schema, Data: b.Genesis.Data[0].Root}))
	}
	r, err := rules.ComposeStart(b.Genesis, b.Run, start, readys)
	if err != nil {
		panic(err)
	}
	b.History = rules.History{r}
	return b
}

// NonceFor returns the secret of a key in a round.
func NonceFor(k wire.Key, round uint64) []byte {
	d := wire.Sum(binary.BigEndian.AppendUint64(k.Seed(), round))
	return d[:]
}

// Header seals the header of peer i for the open round; change may spoil it.
func (b *Swarm) Header(i int, change func(*wire.Header)) wire.Envelope {
	p := rules.MakePlan(b.Genesis, b.History)
	s := p.Share(b.Keys[i].Peer())
	h := &wire.Header{Base: wire.ManifestCID([]byte("base")), Root: wire.Sum([]byte{byte(i), byte(p.Round)}), Body: wire.RawCID([]byte{byte(i)}),
		Nonce: wire.Sum(NonceFor(b.Keys[i], p.Round)), TrainMs: 100, Loss: 1}
	if s != nil {
		h.Spans, h.Steps = s.Spans, s.Steps
	}
	if change != nil {
		change(h)
	}
	return wire.Seal(b.Keys[i], wire.KindHeader, b.Run, p.Round, h)
}

// Have seals the HAVE of voter i: whole for all headers, but for those in other.
func (b *Swarm) Have(i int, headers []wire.Envelope, other map[wire.Digest]wire.HaveItem) wire.Envelope {
	h := &wire.Have{Seq: 1}
	for _, e := range headers {
		it := wire.HaveItem{Header: e.Digest(), State: wire.HaveWhole, Ms: uint32(100 + i)}
		for _, k := range b.Keys {
			if k.Peer() == e.Sender {
				it.Nonce = NonceFor(k, e.Round)
			}
		}
		if o, ok := other[e.Digest()]; ok {
			it = o
			it.Header = e.Digest()
		}
		if it.State != 0 {
			h.Items = append(h.Items, it)
		}
	}
	slices.SortFunc(h.Items, func(x, y wire.HaveItem) int { return x.Header.Compare(y.Header) })
	return wire.Seal(b.Keys[i], wire.KindHave, b.Run, b.History.Head().Round+1, h)
}

// Full returns the inputs of a round in which everything is well.
func (b *Swarm) Full() rules.Inputs {
	var in rules.Inputs
	for i := range b.Keys {
		if s, ok := b.History.Head().Seat(b.Keys[i].Peer()); ok && s.Active {
			in.Headers = append(in.Headers, b.Header(i, nil))
		}
	}
	for i := range b.Keys {
		if b.History.Head().Table.Of(b.Keys[i].Peer()) > 0 {
			in.Haves = append(in.Haves, b.Have(i, in.Headers, nil))
		}
	}
	return in
}

// MustCompose returns the record that inputs give and checks that it is valid.
func (b *Swarm) MustCompose(t *testing.T, in rules.Inputs) *wire.Record {
	t.Helper()
	r, err := rules.Compose(b.Genesis, b.Run, b.History, in)
	if err != nil {
		t.Fatal(err)
	}
	if err := rules.Validate(b.Genesis, b.Run, b.History, r); err != nil {
		t.Fatal(err)
	}
	back, err := wire.OpenRecord(wire.Marshal(r))
	if err != nil || back.Digest() != r.Digest() {
		t.Fatalf("the record does not survive its encoding: %v", err)
	}
	return r
}

// Status returns the verdict on a peer.
func (b *Swarm) Status(r *wire.Record, i int) wire.Verdict {
	v, _ := r.Verdict(b.Keys[i].Peer())
	return v
}

// Drive decides rounds in which the peers in away take no part.
func (b *Swarm) Drive(t *testing.T, rounds int, away ...int) *wire.Record {
	t.Helper()
	for range rounds {
		in := b.Full()
		drop := func(e wire.Envelope) bool {
			return slices.ContainsFunc(away, func(i int) bool { return b.Keys[i].Peer() == e.Sender })
		}
		in.Headers = slices.DeleteFunc(in.Headers, drop)
		in.Haves = nil
		for i, k := range b.Keys {
			if b.History.Head().Table.Of(k.Peer()) > 0 && !slices.Contains(away, i) {
				in.Haves = append(in.Haves, b.Have(i, in.Headers, nil))
			}
		}
		b.History = b.History.With(b.MustCompose(t, in))
	}
	return b.History.Head()
}

// Genesis returns a genesis for tests, which its caller may change.
func Genesis() *wire.Genesis {
	p, err := rules.PresetNamed("diloco")
	if err != nil {
		panic(err)
	}
	g := &wire.Genesis{V: 1, Numerics: 1, Name: "t", Rounds: 100, MinPeers: 1, MinCounted: 1, MinVoters: 1, Group: wire.MaxMembers, PartValues: 4096, Preset: p.Preset,
		Deadline: wire.Deadline{MinMs: 100, MaxMs: 60_000, Mads: 4}, Data: []wire.DataContract{{Name: "d", Train: 1000}}, Admission: wire.Admission{Mode: "open"}}
	g.Preset.Inner.Batch, g.Preset.Cadence.Steps = 4, 30
	return g
}

// NewGroups is a run of n peers in groups of size.
func NewGroups(n, size int) (*Swarm, *rules.Plan) {
	b := New(n, func(g *wire.Genesis) { g.Group = uint32(size) })
	return b, rules.MakePlan(b.Genesis, b.History)
}

// Setting returns what the open round is judged by.
func (b *Swarm) Setting(plan *rules.Plan) rules.Setting {
	return rules.Setting{Genesis: b.Genesis, Run: b.Run, Prev: b.History.Head(), Plan: plan}
}

// Index returns the number of a peer, or -1.
func (b *Swarm) Index(p wire.PeerID) int {
	return slices.IndexFunc(b.Keys, func(k wire.Key) bool { return k.Peer() == p })
}

// GroupInputs returns headers and HAVEs of a group in which everything is well.
func (b *Swarm) GroupInputs(plan *rules.Plan, group int) (headers, haves []wire.Envelope) {
	for _, p := range plan.Groups[group] {
		headers = append(headers, b.Header(b.Index(p), nil))
	}
	for _, p := range plan.Groups[group] {
		haves = append(haves, b.GroupHave(b.Index(p), headers))
	}
	return headers, haves
}

// GroupHave seals a HAVE of member i: whole for all headers.
func (b *Swarm) GroupHave(i int, headers []wire.Envelope) wire.Envelope {
	h := &wire.Have{Seq: 1}
	for _, e := range headers {
		h.Items = append(h.Items, wire.HaveItem{Header: e.Digest(), State: wire.HaveWhole, Ms: uint32(100 + i)})
	}
	slices.SortFunc(h.Items, func(x, y wire.HaveItem) int { return x.Header.Compare(y.Header) })
	return wire.Seal(b.Keys[i], wire.KindGroupHave, b.Run, b.History.Head().Round+1, h)
}

// Result has the first signers members of a group sign what change makes of the
// outcome of a good cut.
func (b *Swarm) Result(t *testing.T, plan *rules.Plan, group, signers int, change func(*wire.GroupOutcome)) wire.GroupResult {
	t.Helper()
	headers, haves := b.GroupInputs(plan, group)
	v, err := b.Setting(plan).ComposeGroup(group, headers, haves)
	if err != nil {
		t.Fatal(err)
	}
	o := v.Outcome
	o.Merged, o.Nonces = wire.ManifestCID(fmt.Appendf(nil, "merged %d", group)), wire.Sum([]byte{byte(group)})
	if change != nil {
		change(&o)
	}
	return b.Sign(plan, o, signers)
}

// Sign has the first signers members of a group vote for an outcome.
func (b *Swarm) Sign(plan *rules.Plan, o wire.GroupOutcome, signers int) wire.GroupResult {
	members := plan.Groups[o.Group]
	r := wire.GroupResult{Outcome: o, Signers: make([]byte, (len(members)+7)/8)}
	for i, p := range members[:signers] {
		e := wire.Seal(b.Keys[b.Index(p)], wire.KindGroupVote, b.Run, plan.Round, &wire.GroupVote{Outcome: o.Digest()})
		r.Signers[i/8] |= 1 << (i % 8)
		r.Sigs = append(r.Sigs, e.Sig...)
	}
	return r
}

// GroupHaves has every voter hold the outcomes.
func (b *Swarm) GroupHaves(results []wire.GroupResult) []wire.Envelope {
	var out []wire.Envelope
	for i := range b.Keys {
		if b.History.Head().Table.Of(b.Keys[i].Peer()) == 0 {
			continue
		}
		h := &wire.Have{Seq: 1}
		for _, r := range results {
			h.Items = append(h.Items, wire.HaveItem{Header: r.Outcome.Digest(), State: wire.HaveWhole, Ms: 500})
		}
		slices.SortFunc(h.Items, func(x, y wire.HaveItem) int { return x.Header.Compare(y.Header) })
		out = append(out, wire.Seal(b.Keys[i], wire.KindHave, b.Run, b.History.Head().Round+1, h))
	}
	return out
}
