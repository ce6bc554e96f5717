package rules

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/apiary-net/hived/wire"
	"github.com/apiary-net/hived/wire/invariants"
)

// Rules of the roster and the table.
const (
	missedToLeaveTable = 3  // records in a row without a counted contribution
	countedToVote      = 10 // records in a row with one
	latesToRest        = 2  // records in a row in which a peer was late
	MaxReadyBehind     = 1  // a READY names version r-1 or later
	maxReturned        = 512
)

// Inputs is what peers signed for a round, as far as the one who composes a
// record knows it. The order is free; envelopes must have been opened.
type Inputs struct {
	Headers, Haves, Readys, Attests, Leaves, Stops []wire.Envelope
	Merged                                         []wire.CID         // of a window
	Groups                                         []wire.GroupResult // of a round of several groups; then no headers
}

// ErrTooEarly is returned by Compose while the inputs do not yet allow a record.
var ErrTooEarly = errors.New("too early for a record")

// composer holds one composition. Its fields are filled from top to bottom.
type composer struct {
	ballot // of the voters; in a round of several groups its headers are empty
	in     Inputs
	rec    *wire.Record
	speeds map[wire.PeerID]uint32 // that group results say
}

// Compose returns the record of the round after h's head. It is a pure function:
// everybody who has the same inputs gets the same bytes. It returns ErrTooEarly
// while HAVEs of less than two thirds of the weight or fewer than min_counted
// contributions are there, and another error if an input has no place in the
// record.
func Compose(g *wire.Genesis, run wire.RunID, h History, in Inputs) (*wire.Record, error) {
	return settingAfter(g, run, h).Compose(in)
}

// Compose is Compose in a setting.
func (s Setting) Compose(in Inputs) (*wire.Record, error) {
	rec, err := s.compose(in)
	if invariants.On && err == nil {
		s.checkRecord(rec)
	}
	return rec, err
}

func (s Setting) compose(in Inputs) (*wire.Record, error) {
	if s.Prev.Last {
		return nil, errors.New("compose record: the run has ended")
	}
	c := &composer{in: in, ballot: ballot{Setting: s, shares: s.Plan.Shares, table: s.Prev.Table, kind: wire.KindHave, nonces: true}}
	c.rec = &wire.Record{V: 1, Run: s.Run, Round: c.Plan.Round, Prev: c.Prev.Digest(), Certified: c.Prev.Certified}
	for _, f := range []func() error{c.takeBallot, c.cut, c.certify, c.seat, c.positions} {
		if err := f(); err != nil {
			return nil, fmt.Errorf("compose record %d: %w", c.rec.Round, err)
		}
	}
	c.finish()
	return c.rec.Finish(), nil
}

// Validate checks that r is the record that its own inputs give.
func Validate(g *wire.Genesis, run wire.RunID, h History, r *wire.Record) error {
	return settingAfter(g, run, h).Validate(r)
}

func (s Setting) Validate(r *wire.Record) error {
	in, err := inputsOf(r)
	if err != nil {
		return fmt.Errorf("validate record %d: %w", r.Round, err)
	}
	want, err := s.compose(in)
	if err != nil {
		return err
	}
	if !bytes.Equal(want.Bytes(), r.Bytes()) {
		return fmt.Errorf("validate record %d: its inputs give another record", r.Round)
	}
	return nil
}

func inputsOf(r *wire.Record) (Inputs, error) {
	in := Inputs{Merged: r.Merged, Groups: slices.Clone(r.Groups)}
	for _, l := range []struct {
		raw [][]byte
		out *[]wire.Envelope
	}{{r.Headers, &in.Headers}, {r.Haves, &in.Haves}, {r.Readys, &in.Readys}, {r.Attests, &in.Attests}, {r.Leaves, &in.Leaves}, {r.Stops, &in.Stops}} {
		for _, b := range l.raw {
			e, err := wire.Open(b)
			if err != nil {
				return in, err
			}
			*l.out = append(*l.out, e)
		}
	}
	return in, nil
}

// BySender orders envelopes by round, sender and bytes.
func BySender(a, b wire.Envelope) int {
	if a.Round != b.Round {
		if a.Round < b.Round {
			return -1
		}
		return 1
	}
	if c := a.Sender.Compare(b.Sender); c != 0 {
		return c
	}
	return a.Digest().Compare(b.Digest())
}

// admit checks and sorts one kind of input and returns it encoded. A sender
// stands once in a list unless twice is set.
func admit(run wire.RunID, list []wire.Envelope, kind wire.Kind, twice bool) ([][]byte, error) {
	slices.SortFunc(list, BySender)
	out := [][]byte{}
	for i, e := range list {
		if e.Kind != kind || e.Run != run {
			return nil, fmt.Errorf("a %s of run %s among the %ss", e.Kind, e.Run.Short(), kind)
		}
		if i > 0 && list[i-1].Sender == e.Sender && list[i-1].Round == e.Round && (!twice || list[i-1].Digest() == e.Digest()) {
			return nil, fmt.Errorf("two %ss of %s", kind, e.Sender.Short())
		}
		out = append(out, e.Bytes())
	}
	return out, nil
}

// takeBallot books what the voters state: of contributions, or of group results.
func (c *composer) takeBallot() (err error) {
	if c.Plan.Groups != nil {
		return c.takeGroups()
	}
	if len(c.in.Groups) > 0 {
		return errors.New("group results in a round of one group")
	}
	c.rec.Groups = []wire.GroupResult{}
	if c.rec.Headers, err = c.takeHeaders(c.in.Headers); err != nil {
		return err
	}
	c.rec.Haves, err = c.takeHaves(c.in.Haves)
	return err
}

// cut judges every planned peer.
func (c *composer) cut() error {
	if c.Plan.Groups != nil {
		c.cutGroups()
	} else {
		c.rec.Cut = c.verdicts()
		leaves := []wire.Digest{}
		for _, v := range c.rec.Cut {
			if v.Status == wire.Counted {
				leaves = append(leaves, v.Header)
			}
		}
		c.rec.Root = wire.MerkleRoot(leaves)
	}
	if err := c.window(); err != nil {
		return err
	}
	enough := c.rec.CountedPeers() >= int(c.Genesis.MinCounted)
	// A record without contributions only lets newcomers in, or ends the run.
	if !enough && len(c.in.Readys) == 0 && len(c.in.Stops) == 0 {
		return fmt.Errorf("%w: %d contributions, want %d", ErrTooEarly, c.rec.CountedPeers(), c.Genesis.MinCounted)
	}
	return nil
}

// window sets how many steps of a window count: the last one that more than a
// third of the counted members finished. Members whose merged gradients differ
// from the listed ones are refused.
func (c *composer) window() error {
	c.rec.Steps = c.Prev.Steps
	if !c.Genesis.Preset.Cadence.Window {
		if len(c.in.Merged) > 0 {
			return errors.New("merged gradients outside of a window")
		}
		if c.rec.CountedPeers() > 0 {
			c.rec.Steps++
		}
		return nil
	}
	c.rec.Merged = append([]wire.CID{}, c.in.Merged...)
	var steps []uint32
	longest := uint32(0)
	others := map[wire.Digest]int{} // members by the root of another list
	for i := range c.rec.Cut {
		v := &c.rec.Cut[i]
		if v.Status != wire.Counted {
			continue
		}
		h := c.headers[v.Header]
		if int(h.Steps) > len(c.rec.Merged) || h.Root != WindowRoot(c.rec.Merged[:h.Steps]) ||
			wire.SpanLen(h.Spans) != uint64(h.Steps)*uint64(c.Genesis.Preset.Inner.Batch) {
			*v = wire.Verdict{Peer: v.Peer, Status: wire.Refused, Reason: wire.ReasonBody, Header: v.Header}
			others[h.Root]++
			continue
		}
		steps = append(steps, h.Steps)
		longest = max(longest, h.Steps)
	}
	if int(longest) != len(c.rec.Merged) {
		return fmt.Errorf("%d merged gradients listed, %d finished", len(c.rec.Merged), longest)
	}
	for root, n := range others {
		if n > len(steps) {
			return fmt.Errorf("the merged gradients listed are those of %d members, root %s is of %d", len(steps), root.Short(), n)
		}
	}
	slices.Sort(steps)
	if n := len(steps); n > 0 {
		c.rec.Steps += uint64(steps[n-1-n/3])
	}
	return nil
}

// WindowRoot is the header root of a peer that finished the given steps.
func WindowRoot(merged []wire.CID) wire.Digest {
	leaves := make([]wire.Digest, len(merged))
	for i, m := range merged {
		leaves[i] = m.Digest()
	}
	return wire.MerkleRoot(leaves)
}

// WindowSteps returns how many steps of the window r count.
func WindowSteps(r, prev *wire.Record) int { return int(r.Steps - prev.Steps) }

// certify takes the attestations and moves Certified to the newest version that
// two thirds of the weight computed alike.
func (c *composer) certify() (err error) {
	if c.rec.Attests, err = admit(c.Run, c.in.Attests, wire.KindAttest, false); err != nil {
		return err
	}
	weight := map[wire.Certified]uint64{}
	for _, e := range c.in.Attests {
		a, err := wire.Read[wire.Attest](e)
		if err != nil {
			return err
		}
		if e.Round <= c.Prev.Certified.Round || e.Round >= c.rec.Round || c.Prev.Table.Of(e.Sender) == 0 {
			return fmt.Errorf("attestation of %s for version %d has no place here", e.Sender.Short(), e.Round)
		}
		k := wire.Certified{Round: e.Round, Version: a.Version, Merged: a.Merged}
		weight[k] += c.Prev.Table.Of(e.Sender)
		if c.Prev.Table.Quorum(weight[k]) && k.Round > c.rec.Certified.Round {
			c.rec.Certified = k
		}
	}
	return nil
}

func (c *composer) finish() {
	seed := append([]byte("hived/seed/v1\n"), c.Prev.Seed[:]...)
	for _, v := range c.rec.Cut {
		seed = append(seed, v.Nonce...)
	}
	for _, o := range CountedGroups(c.rec) {
		seed = append(seed, o.Nonces[:]...)
	}
	c.rec.Seed = wire.Sum(seed)
	c.rec.Last = c.rec.Round >= c.Genesis.Rounds || len(c.rec.Stops) > 0
}
