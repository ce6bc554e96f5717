package wire

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

// refuse changes a good value and wants its bytes refused.
func refuse[T any](t *testing.T, what string, good T, bad map[string]func(*T)) {
	t.Helper()
	for name, f := range bad {
		b := Marshal(&good)
		var v T
		if err := Unmarshal(b, &v, MaxBlock); err != nil {
			t.Fatalf("%s: the good value: %v", what, err)
		}
		f(&v)
		var out T
		if err := Unmarshal(Marshal(&v), &out, MaxBlock); err == nil {
			t.Errorf("%s with %s is accepted", what, name)
		}
	}
}

func TestGenesisChecks(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	refuse(t, "genesis", sampleGenesis(), map[string]func(*Genesis){
		"version 2":                 func(g *Genesis) { g.V = 2 },
		"numerics 0":                func(g *Genesis) { g.Numerics = 0 },
		"no name":                   func(g *Genesis) { g.Name = "" },
		"a long name":               func(g *Genesis) { g.Name = strings.Repeat("x", 65) },
		"no data":                   func(g *Genesis) { g.Data = nil },
		"two data contracts":        func(g *Genesis) { g.Data = append(g.Data, g.Data[0]) },
		"private data":              func(g *Genesis) { g.Data[0].Private = true },
		"no samples":                func(g *Genesis) { g.Data[0].Train = 0 },
		"2^41 samples":              func(g *Genesis) { g.Data[0].Train = 1 << 41 },
		"an unsorted allow":         func(g *Genesis) { a := g.Admission.Allow; a[0], a[1] = a[1], a[0] },
		"a repeated allow":          func(g *Genesis) { g.Admission.Allow[1] = g.Admission.Allow[0] },
		"another admission":         func(g *Genesis) { g.Admission.Mode = "invite" },
		"odd part_values":           func(g *Genesis) { g.PartValues = 5000 },
		"no part_values":            func(g *Genesis) { g.PartValues = 0 },
		"parts above a block":       func(g *Genesis) { g.PartValues = MaxBlock },
		"no rounds":                 func(g *Genesis) { g.Rounds = 0 },
		"no peers":                  func(g *Genesis) { g.MinPeers = 0 },
		"nobody counted":            func(g *Genesis) { g.MinCounted = 0 },
		"a name with a path":        func(g *Genesis) { g.Name = "../x" },
		"a name with a colour":      func(g *Genesis) { g.Name = "a\x1b[31m" },
		"a hidden name":             func(g *Genesis) { g.Name = ".x" },
		"no voters":                 func(g *Genesis) { g.MinVoters = 0 },
		"a group of one":            func(g *Genesis) { g.Group = 1 },
		"a group of 33":             func(g *Genesis) { g.Group = 33 },
		"22 voters":                 func(g *Genesis) { g.MinVoters = 22 },
		"no deadline":               func(g *Genesis) { g.Deadline.MinMs = 0 },
		"crossed deadlines":         func(g *Genesis) { g.Deadline.MinMs = g.Deadline.MaxMs + 1 },
		"replay 3":                  func(g *Genesis) { g.Replay = 3 },
		"no optimizer":              func(g *Genesis) { g.Preset.Inner.Optimizer = "" },
		"a codec with a colour":     func(g *Genesis) { g.Preset.Codec = "\x1b[31m" },
		"another merged codec":      func(g *Genesis) { g.Preset.Merged = "int8" },
		"another topology":          func(g *Genesis) { g.Preset.Topology = "ring" },
		"a long aggregator":         func(g *Genesis) { g.Preset.Aggregator = strings.Repeat("x", 65) },
		"an outer rule in capitals": func(g *Genesis) { g.Preset.Outer.Rule = "SGD" },
		"rate NaN":                  func(g *Genesis) { g.Preset.Inner.LR = nan },
		"outer rate infinite":       func(g *Genesis) { g.Preset.Outer.LR = inf },
		"a negative rate":           func(g *Genesis) { g.Preset.Inner.LR = -1 },
		"no batch":                  func(g *Genesis) { g.Preset.Inner.Batch = 0 },
		"no steps":                  func(g *Genesis) { g.Preset.Cadence.Steps = 0 },
		"a window by allgather":     func(g *Genesis) { g.Preset.Cadence = Cadence{Window: true, Steps: 8}; g.Preset.Aggregator = "mean" },
		"a window of 65 steps": func(g *Genesis) {
			g.Preset.Cadence, g.Preset.Topology, g.Preset.Aggregator = Cadence{Window: true, Steps: 65}, "butterfly", "mean"
		},
	})
}

func TestRoundChecks(t *testing.T) {
	nan := math.NaN()
	refuse(t, "header", sampleHeader(), map[string]func(*Header){
		"no base":         func(h *Header) { h.Base = CID{} },
		"no body":         func(h *Header) { h.Body = CID{} },
		"loss NaN":        func(h *Header) { h.Loss = float32(nan) },
		"infinite norm":   func(h *Header) { h.Norm = float32(math.Inf(-1)) },
		"an empty span":   func(h *Header) { h.Spans[0].Hi = h.Spans[0].Lo },
		"a reversed span": func(h *Header) { h.Spans[0] = Span{Lo: 9, Hi: 3} },
		"1,025 spans":     func(h *Header) { h.Spans = make([]Span, 1025) },
	})
	body := Body{Nonce: make([]byte, 32), Parts: []PartRef{{Block: digestN(1), Bytes: 4, SumSquares: 1}}}
	refuse(t, "body", body, map[string]func(*Body){
		"a short nonce":       func(b *Body) { b.Nonce = b.Nonce[:31] },
		"no parts":            func(b *Body) { b.Parts = nil },
		"a part above 1 MiB":  func(b *Body) { b.Parts[0].Bytes = MaxBlock + 1 },
		"a norm NaN":          func(b *Body) { b.Parts[0].SumSquares = nan },
		"a negative square":   func(b *Body) { b.Parts[0].SumSquares = -1 },
		"an infinite square":  func(b *Body) { b.Parts[0].SumSquares = math.Inf(1) },
		"more parts than fit": func(b *Body) { b.Parts = make([]PartRef, maxParts+1) },
	})
	refuse(t, "window body", WindowBody{Nonce: make([]byte, 32)}, map[string]func(*WindowBody){
		"a long nonce": func(b *WindowBody) { b.Nonce = make([]byte, 33) },
		"65 steps":     func(b *WindowBody) { b.Merged = make([]CID, 65) },
	})
	refuse(t, "have", sampleHave(), map[string]func(*Have){
		"items out of order":       func(h *Have) { h.Items[0], h.Items[1] = h.Items[1], h.Items[0] },
		"an item twice":            func(h *Have) { h.Items[1] = h.Items[0] },
		"state 0":                  func(h *Have) { h.Items[0] = HaveItem{Header: h.Items[0].Header} },
		"state 4":                  func(h *Have) { h.Items[0] = HaveItem{Header: h.Items[0].Header, State: 4} },
		"refused without a reason": func(h *Have) { h.Items[0] = HaveItem{Header: h.Items[0].Header, State: HaveRefused} },
		"seen for a reason":        func(h *Have) { h.Items[0] = HaveItem{Header: h.Items[0].Header, State: HaveSeen, Reason: 1} },
		"a nonce of what is seen": func(h *Have) {
			h.Items[0] = HaveItem{Header: h.Items[0].Header, State: HaveSeen, Nonce: make([]byte, 32)}
		},
		"a short nonce": func(h *Have) {
			h.Items[0] = HaveItem{Header: h.Items[0].Header, State: HaveWhole, Nonce: make([]byte, 31)}
		},
		"parts of what is seen": func(h *Have) { h.Items[0] = HaveItem{Header: h.Items[0].Header, State: HaveSeen, Parts: []byte{1}} },
		"more parts than fit": func(h *Have) {
			h.Items[0] = HaveItem{Header: h.Items[0].Header, State: HaveWhole, Parts: make([]byte, maxParts/8+1)}
		},
		"more items than headers":  func(h *Have) { h.Items = manyItems(2*MaxGroups + 1) },
		"more items than elements": func(h *Have) { h.Items = manyItems(1<<16 + 1) },
	})
	refuse(t, "leave", Leave{Reason: "x"}, map[string]func(*Leave){"201 bytes": func(l *Leave) { l.Reason = strings.Repeat("x", 201) }})
	refuse(t, "stop", Stop{Reason: "x"}, map[string]func(*Stop){"201 bytes": func(l *Stop) { l.Reason = strings.Repeat("x", 201) }})
}

func manyItems(n int) []HaveItem {
	out := make([]HaveItem, n)
	for i := range out {
		out[i] = HaveItem{State: HaveSeen}
		out[i].Header[0], out[i].Header[1], out[i].Header[2] = byte(i>>16), byte(i>>8), byte(i)
	}
	return out
}

func TestManifestChecks(t *testing.T) {
	refuse(t, "manifest", sampleManifest(), map[string]func(*Manifest){
		"version 2":        func(m *Manifest) { m.V = 2 },
		"no vectors":       func(m *Manifest) { m.Vectors = nil },
		"nine vectors":     func(m *Manifest) { m.Vectors = make([]Vector, 9) },
		"another type":     func(m *Manifest) { m.Vectors[0].Type = "f16" },
		"a block too few":  func(m *Manifest) { m.Vectors[0].Blocks = m.Vectors[0].Blocks[:1] },
		"a block too many": func(m *Manifest) { m.Vectors[1].Blocks = append(m.Vectors[1].Blocks, cidN(1)) },
		"2^60 values":      func(m *Manifest) { m.Vectors[0].Len = 1 << 60 },
		"2^63+1 values":    func(m *Manifest) { m.Vectors[0].Len = 1<<63 + 1 },
		"values that wrap": func(m *Manifest) { m.Vectors[0] = Vector{Type: "f32", Len: 1 << 62} },
	})
	m := sampleManifest()
	b := Marshal(&m)
	if _, err := OpenManifest(ManifestCID(b), b); err != nil {
		t.Error(err)
	}
	if _, err := OpenManifest(ManifestCID([]byte("other")), b); err == nil {
		t.Error("a manifest under another name is accepted")
	}
}

func TestEvidenceChecks(t *testing.T) {
	refuse(t, "evidence", sampleEvidence(), map[string]func(*Evidence){
		"version 2":          func(e *Evidence) { e.V = 2 },
		"kind 0":             func(e *Evidence) { e.Kind = 0 },
		"kind 4":             func(e *Evidence) { e.Kind = 4 },
		"one thing twice":    func(e *Evidence) { e.A = e.B },
		"sides out of order": func(e *Evidence) { e.A, e.B = e.B, e.A },
	})
}

func TestVoteChecks(t *testing.T) {
	refuse(t, "vote", sampleVote(), map[string]func(*Vote){
		"a short signature":      func(v *Vote) { v.Sig = v.Sig[:63] },
		"a short ticket":         func(v *Vote) { v.Ticket = []byte{1} },
		"phase 0":                func(v *Vote) { v.Vote.Phase = 0 },
		"phase 6":                func(v *Vote) { v.Vote.Phase = 6 },
		"round 1,025":            func(v *Vote) { v.Vote.Round = 1025 },
		"three tips":             func(v *Vote) { v.Vote.Chain = append(v.Vote.Chain, Tip{}) },
		"a signature too few":    func(v *Vote) { v.Just.Sigs = v.Just.Sigs[:64] },
		"a signer twice":         func(v *Vote) { v.Just.Signers[1] = 0 },
		"signer 21":              func(v *Vote) { v.Just.Signers[1] = MaxVoters },
		"phase 6 as its grounds": func(v *Vote) { v.Just.Vote.Phase = 6 },
	})
}

func TestPeerListChecks(t *testing.T) {
	refuse(t, "peer list", PeerList{{Peer: keyN(0).Peer()}}, map[string]func(*PeerList){
		"65 peers": func(l *PeerList) { *l = make(PeerList, MaxTold+1) },
	})
}

func TestSnapshotChecks(t *testing.T) {
	refuse(t, "snapshot", sampleSnapshot(), map[string]func(*Snapshot){
		"no state":            func(s *Snapshot) { s.State = CID{} },
		"no blocks":           func(s *Snapshot) { s.Blocks = nil },
		"blocks out of order": func(s *Snapshot) { s.Blocks[0], s.Blocks[1] = s.Blocks[1], s.Blocks[0] },
		"a block too many":    func(s *Snapshot) { s.Blocks = append(s.Blocks, cidN(24)) },
		"no parity":           func(s *Snapshot) { s.Stripes[0].Parity = nil },
		"three parities":      func(s *Snapshot) { s.Stripes[0].Parity = append(s.Stripes[0].Parity, cidN(24)) },
		"a length too few":    func(s *Snapshot) { s.Stripes[0].Len = s.Stripes[0].Len[:1] },
		"an empty block":      func(s *Snapshot) { s.Stripes[0].Len[1] = 0 },
		"a block above 1 MiB": func(s *Snapshot) { s.Stripes[0].Len[1] = MaxBlock + 1 },
		"a holder too few":    func(s *Snapshot) { s.Stripes[0].Holders = s.Stripes[0].Holders[:3] },
		"a holder twice":      func(s *Snapshot) { s.Stripes[0].Holders[1] = s.Stripes[0].Holders[0] },
		"a holder nobody":     func(s *Snapshot) { s.Stripes[0].Holders[1] = PeerID{} },
		"a nameless block":    func(s *Snapshot) { s.Stripes[0].Parity[1] = CID{} },
	})
}

func TestRecordChecks(t *testing.T) {
	refuse(t, "record", sampleRecord(), map[string]func(*Record){
		"version 0":                            func(r *Record) { r.V = 0 },
		"two stops":                            func(r *Record) { r.Stops = [][]byte{{1}, {2}} },
		"22 voters":                            func(r *Record) { r.Table = make(Table, 22) },
		"16,385 seats":                         func(r *Record) { r.Roster = make([]Seat, MaxSeats+1) },
		"counts a group that it does not hold": func(r *Record) { r.Counting = []uint32{0} },
		"65 steps":                             func(r *Record) { r.Merged = make([]CID, 65) },
		"an empty span":                        func(r *Record) { r.Returned = []Span{{Lo: 1, Hi: 1}} },
	})
	good := *samples()[12].value.(*Cert)
	refuse(t, "certificate", good, map[string]func(*Cert){
		"version 0":            func(c *Cert) { c.V = 0 },
		"no signers":           func(c *Cert) { c.Signers, c.Sigs = nil, nil },
		"signers out of order": func(c *Cert) { c.Signers = []uint32{2, 0} },
		"a signer twice":       func(c *Cert) { c.Signers = []uint32{2, 2} },
		"a signature too few":  func(c *Cert) { c.Sigs = c.Sigs[:64] },
		"22 signers":           func(c *Cert) { c.Signers, c.Sigs = make([]uint32, 22), make([]byte, 64*22) },
	})
	r := sampleRecord()
	if got, err := OpenRecord(Marshal(&r)); err != nil || got.Digest() != r.Digest() {
		t.Errorf("record: %v", err)
	}
	if n := r.CountedPeers(); n != 1 {
		t.Errorf("%d counted, want 1", n)
	}
	for _, v := range r.Cut {
		if got, ok := r.Verdict(v.Peer); !ok || got.Status != v.Status {
			t.Errorf("verdict of %s is %v, %v", v.Peer.Short(), got.Status, ok)
		}
		if _, ok := r.Seat(v.Peer); !ok {
			t.Errorf("no seat of %s", v.Peer.Short())
		}
	}
	if _, ok := r.Verdict(keyN(9).Peer()); ok {
		t.Error("a verdict about a stranger")
	}
}

// TestQuorums compares with fractions, for all tables of up to seven powers.
func TestQuorums(t *testing.T) {
	if (Table{}).Quorum(0) {
		t.Error("no voters are a quorum")
	}
	for total := uint64(1); total <= 42; total++ {
		table := Table{{Peer: keyN(0).Peer(), Power: uint32(total)}}
		for w := range total + 1 {
			f := float64(w) / float64(total)
			if got := table.Quorum(w); got != (f > 2.0/3-1e-9) {
				t.Errorf("quorum of %d in %d: %v", w, total, got)
			}
			if got := table.More(w); got != (f > 1.0/3+1e-9) {
				t.Errorf("more than a third, %d of %d: %v", w, total, got)
			}
		}
	}
	r := sampleRecord()
	if r.Table.Total() != 3 || r.Table.Of(keyN(9).Peer()) != 0 || r.Table.Of(r.Table[0].Peer) != 2 {
		t.Error("weights of the table")
	}
}

// TestNamesOfNumbers: whatever number a peer sends, its name is a word.
func TestNamesOfNumbers(t *testing.T) {
	for _, n := range []uint64{0, 1, 5, 8, 13, 14, 200, 1 << 31, 1 << 32, 1 << 63, math.MaxUint64} {
		for _, s := range []string{Kind(n).String(), EntryKind(n).String(), Status(n).String(), Reason(n).String(), Replay(n).String()} {
			if strings.Contains(s, "PANIC") || len(s) > 40 {
				t.Errorf("number %d is %q", n, s)
			}
		}
	}
	if KindSums.String() != "sums" || EntryEnd.String() != "end" || Equivocated.String() != "equivocated" || ReasonOversize.String() != "oversize" {
		t.Error("the last of the numbers have no names")
	}
}

func TestEntries(t *testing.T) {
	k := keyN(0)
	leaf := SealEntry(k, EntryBody{Run: digestN(0), Seq: 3, Kind: EntryRecord, Ref: cidN(1), Round: 2})
	e, err := OpenEntry(leaf)
	if err != nil || e.Peer != k.Peer() || e.Seq != 3 || e.V != 1 {
		t.Fatalf("%+v, %v", e, err)
	}
	for i := range leaf {
		bad := bytes.Clone(leaf)
		bad[i] ^= 1
		if _, err := OpenEntry(bad); err == nil {
			t.Errorf("a flipped bit in byte %d of %d is accepted", i, len(leaf))
		}
	}
	big := SealEntry(k, EntryBody{Extra: make([]byte, MaxEntry)})
	if _, err := OpenEntry(big); err == nil {
		t.Error("an entry above the limit is accepted")
	}
}
