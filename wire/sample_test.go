package wire

import (
	"fmt"
	"strings"
)

// keyN is the n-th key of the tests: its seed is SHA-256("hived/vector/n").
func keyN(n int) Key {
	d := Sum(fmt.Appendf(nil, "hived/vector/%d", n))
	k, err := KeyFromSeed(d[:])
	if err != nil {
		panic(err)
	}
	return k
}

func digestN(n int) Digest { return Sum(fmt.Appendf(nil, "digest %d", n)) }
func cidN(n int) CID       { return RawDigestCID(digestN(n)) }

// peersN returns the peers of the keys 0 to n-1, ascending.
func peersN(n int) []PeerID {
	var out []PeerID
	for i := range n {
		p, at := keyN(i).Peer(), 0
		for at < len(out) && out[at].Compare(p) < 0 {
			at++
		}
		out = append(out[:at], append([]PeerID{p}, out[at:]...)...)
	}
	return out
}

func sampleGenesis() Genesis {
	return Genesis{V: 1, Name: "demo", Creator: keyN(0).Peer(), Model: ModelSpec{Name: "convnet", Args: []Arg{{Key: "channels", Value: 16}, {Key: "classes", Value: 10}}},
		Schema: digestN(1), Data: []DataContract{{Name: "mnist", Root: digestN(2), Train: 60000, Test: 10000, Holders: []PeerID{}}},
		Preset: Preset{Label: "diloco", Inner: Inner{Optimizer: "adamw", LR: 0.001, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Batch: 32, Decay: 0.125},
			Cadence: Cadence{Steps: 80}, Codec: "none", Merged: "none", Topology: "allgather", Aggregator: "clip-median",
			Outer: Outer{Rule: "nesterov", LR: 0.7, Momentum: 0.5}},
		PartValues: 65536, Rounds: 12, MinPeers: 4, MinCounted: 1, MinVoters: 1, Group: 32, Deadline: Deadline{MinMs: 200, MaxMs: 60000, Mads: 6}, Snapshot: 4,
		Replay: ReplayFull, Admission: Admission{Mode: "allow-list", Allow: peersN(4)}, Seed: 1, Numerics: 1}
}

func sampleHeader() Header {
	nonce := digestN(9)
	return Header{Base: ManifestCID([]byte("base")), Root: digestN(3), Body: cidN(4), Bytes: 1 << 20, Parts: 4, Spans: []Span{{Lo: 0, Hi: 2560}, {Lo: 5120, Hi: 5632}},
		Steps: 80, Loss: 0.5, Norm: 2.25, Nonce: Sum(nonce[:]), State: digestN(5), TrainMs: 2500}
}

func sampleRecord() Record {
	run, peers := digestN(0), peersN(2)
	head := Seal(keyN(0), KindHeader, run, 7, sampleHeader())
	nonce := digestN(9)
	return Record{V: 1, Run: run, Round: 7, Prev: digestN(6), Headers: [][]byte{head.Bytes()}, Haves: [][]byte{Seal(keyN(0), KindHave, run, 7, sampleHave()).Bytes()},
		Cut:  []Verdict{{Peer: peers[0], Status: Counted, Header: head.Digest(), Samples: 3072, ArrivalMs: 2600, Nonce: nonce[:]}, {Peer: peers[1], Status: Absent}},
		Root: MerkleRoot([]Digest{head.Digest()}), Certified: Certified{Round: 6, Version: ManifestCID([]byte("v6")), Merged: ManifestCID([]byte("m6"))},
		Roster: []Seat{{Peer: peers[0], Counted: 7, Active: true, Speed: 1200}, {Peer: peers[1], Rank: 1, Missed: 1}},
		Groups: []GroupResult{}, Counting: []uint32{},
		Table: Table{{Rank: 0, Peer: peers[0], Power: 2}, {Rank: 1, Peer: peers[1], Power: 1}}, Cursor: 5632, Returned: []Span{{Lo: 2560, Hi: 5120}}, Seed: digestN(7), Steps: 7}
}

func sampleHave() Have {
	nonce := digestN(9)
	items := []HaveItem{{Header: digestN(10), State: HaveWhole, Ms: 900, Nonce: nonce[:], Parts: []byte{0x0f}}, {Header: digestN(11), State: HaveSeen, Ms: 950}, {Header: digestN(12), State: HaveRefused, Reason: ReasonNorm, Ms: 990}}
	for i := range items { // ascending by header
		for j := i; j > 0 && items[j-1].Header.Compare(items[j].Header) > 0; j-- {
			items[j-1], items[j] = items[j], items[j-1]
		}
	}
	return Have{Seq: 2, Items: items}
}

func sampleOutcome() GroupOutcome {
	return GroupOutcome{Group: 1, Cut: digestN(40), Merged: ManifestCID([]byte("g1")), Nonces: digestN(41), Norm: 2.25, Loss: 0.5,
		Rows: []GroupRow{{Status: Counted, Header: digestN(42), Samples: 3072, ArrivalMs: 2600, Speed: 1200}, {Status: Absent}}}
}

func sampleManifest() Manifest {
	return Manifest{V: 1, Schema: digestN(1), Vectors: []Vector{{Name: "params", Type: "f32", Len: 300000, Blocks: []CID{cidN(20), cidN(21)}},
		{Name: "merged", Type: "bf16", Len: 4, Blocks: []CID{cidN(22)}}}}
}

// noun is one sample with a way to decode another one.
type noun struct {
	name  string
	value any        // a pointer
	fresh func() any // a pointer to a zero value
}

func of[T any](name string, v T) noun { return noun{name, &v, func() any { return new(T) }} }

// samples holds one good value of everything that is encoded.
func samples() []noun {
	run := digestN(0)
	nonce := digestN(9)
	header := Seal(keyN(0), KindHeader, run, 7, sampleHeader())
	var entry Entry
	if err := Unmarshal(SealEntry(keyN(0), EntryBody{Run: run, Seq: 3, Prev: digestN(30), Kind: EntryVersion, Time: 1700000000000, Ref: ManifestCID([]byte("v7")), Parent: ManifestCID([]byte("m7")), Round: 7}), &entry, MaxEntry); err != nil {
		panic(err)
	}
	var body EntryBody
	if err := Unmarshal(entry.Body, &body, MaxEntry); err != nil {
		panic(err)
	}
	return []noun{
		of("genesis", sampleGenesis()),
		of("envelope", header),
		of("ready", Ready{Version: ManifestCID([]byte("v0")), Schema: digestN(1), Data: digestN(2)}),
		of("leave", Leave{Reason: "stopped by its owner"}),
		of("stop", Stop{Reason: "good enough"}),
		of("header", sampleHeader()),
		of("body", Body{Nonce: nonce[:], Parts: []PartRef{{Block: digestN(13), Bytes: 262144, SumSquares: 1.5}, {Block: digestN(14), Bytes: 40, SumSquares: 0.0009765625}}}),
		of("window-body", WindowBody{Nonce: nonce[:], Merged: []CID{ManifestCID([]byte("s0")), ManifestCID([]byte("s1"))}}),
		of("have", sampleHave()),
		of("attest", Attest{Version: ManifestCID([]byte("v7")), Merged: ManifestCID([]byte("m7"))}),
		of("manifest", sampleManifest()),
		of("record", sampleRecord()),
		of("cert", *sampleCert()),
		of("schema", Schema{{Name: "a.bias", Shape: []uint32{10}}, {Name: "a.weight", Shape: []uint32{10, 784}}, {Name: "norm.mean", Shape: []uint32{784}, Buffer: true}}),
		of("entry-body", body),
		of("entry", entry),
		of("group-cut", GroupCut{Group: 1, Headers: [][]byte{header.Bytes()}, Haves: [][]byte{Seal(keyN(0), KindGroupHave, run, 7, sampleHave()).Bytes()}}),
		of("group-vote", GroupVote{Outcome: digestN(43)}),
		of("group-result", GroupResult{Outcome: sampleOutcome(), Signers: []byte{0x03}, Sigs: []byte(strings.Repeat("\x5a", 128))}),
		of("head", sampleHead()),
		of("chain-item", sampleItem()),
		of("pull-request", PullRequest{Run: run, Next: 8, Instance: 10, Known: [][]byte{digestN(33).first8(), digestN(34).first8()}, Composes: true}),
		of("pull-answer", PullAnswer{Items: [][]byte{Marshal(sampleItem())}, Envelopes: [][]byte{header.Bytes()}}),
		of("attest-list", AttestList{Envelopes: [][]byte{Seal(keyN(0), KindAttest, run, 7, Attest{Version: ManifestCID([]byte("v7"))}).Bytes()}}),
		of("snapshot", sampleSnapshot()),
		of("evidence", sampleEvidence()),
		of("fork", Fork{Note: []byte("a signed note"), Old: digestN(44), Proof: []Digest{digestN(45), digestN(46)}}),
		of("cosigned", Cosigned{Note: []byte("a signed note")}),
		of("seen-list", SeenList{Seen: []Seen{{Peer: keyN(1).Peer(), Size: 4, Root: digestN(32)}}}),
		of("peer-list", PeerList{{Peer: keyN(0).Peer(), Addrs: []string{"/ip4/10.0.0.1/tcp/4001"}}}),
		of("vote", sampleVote()),
		of("pull", Pull{Kind: PullGenesis, Body: Marshal(GenesisQuery{Name: "demo"})}),
		of("genesis-query", GenesisQuery{Name: "demo"}),
		of("log-query", LogQuery{Run: run, Lo: 512}),
		of("log-answer", LogAnswer{Head: sampleHead(), Entries: [][]byte{Marshal(entry)}}),
		of("proof-query", ProofQuery{Run: run, Old: 3, New: 4}),
		of("slice", Slice{Run: run, Round: 7, Step: 3, Part: 1, Merged: true, Data: []byte{0, 0, 0x80, 0x3f}}),
	}
}

func (d Digest) first8() []byte { return d[:8] }

func sampleSnapshot() Snapshot {
	return Snapshot{Version: 7, State: ManifestCID([]byte("v7")), Blocks: []CID{cidN(20), cidN(21)},
		Stripes: []Stripe{{Data: []CID{cidN(20), cidN(21)}, Len: []uint32{MaxBlock, 300}, Parity: []CID{cidN(22), cidN(23)}, Holders: peersN(4)}}}
}

func sampleEvidence() Evidence {
	other := EntryBody{Run: digestN(0), Seq: 3, Kind: EntryRecord, Ref: cidN(1)}
	b := SealEntry(keyN(0), other)
	other.Ref = cidN(2)
	return NewEvidence(EvidenceEntries, SealEntry(keyN(0), other), b)
}

func sampleVote() Vote {
	tips := []Tip{{Round: 6, Record: digestN(6), Table: digestN(31)}, {Round: 7, Record: digestN(8), Table: digestN(31)}}
	return Vote{Rank: 1, Vote: VotePayload{Instance: 9, Phase: 4, Chain: tips}, Sig: []byte(strings.Repeat("\x5a", 64)),
		Just: &Justification{Vote: VotePayload{Instance: 9, Phase: 3, Chain: tips}, Signers: []uint32{0, 2}, Sigs: []byte(strings.Repeat("\x5b", 128))}}
}

func sampleHead() Head {
	return Head{Origin: LogOrigin(digestN(0), keyN(0).Peer()), Size: 4, Root: digestN(32), Note: []byte("a signed note")}
}

func sampleItem() ChainItem {
	r := sampleRecord()
	return ChainItem{Record: Marshal(&r), Cert: Marshal(sampleCert())}
}

func sampleCert() *Cert {
	return &Cert{V: 1, Instance: 9, BaseRound: 6, Base: digestN(6), BaseTable: digestN(31), Round: 7, Value: digestN(8), ValTable: digestN(31),
		Signers: []uint32{0, 2}, Sigs: []byte(strings.Repeat("\x5a", 128))}
}
