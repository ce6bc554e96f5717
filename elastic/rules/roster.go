package rules

import (
	"errors"
	"fmt"
	"slices"

	"github.com/apiary-net/hived/wire"
	"github.com/apiary-net/hived/wire/invariants"
)

// seat makes the roster and the table of the record: who is active in the next
// round, who joined, left, and votes.
func (c *composer) seat() (err error) {
	if c.rec.Readys, err = admit(c.Run, c.in.Readys, wire.KindReady, false); err != nil {
		return err
	}
	if c.rec.Leaves, err = admit(c.Run, c.in.Leaves, wire.KindLeave, false); err != nil {
		return err
	}
	if c.rec.Stops, err = admit(c.Run, c.in.Stops, wire.KindStop, false); err != nil {
		return err
	}
	for _, e := range c.in.Stops {
		if e.Sender != c.Genesis.Creator {
			return errors.New("stop is not the creator's")
		}
	}
	c.rec.Roster = slices.Clone(c.Prev.Roster)
	for i := range c.rec.Roster {
		c.update(&c.rec.Roster[i])
	}
	for _, e := range c.in.Readys {
		if err := c.ready(e); err != nil {
			return err
		}
	}
	left := map[wire.PeerID]bool{}
	for _, e := range c.in.Leaves {
		i := c.find(e.Sender)
		if i < 0 || e.Round != c.rec.Round {
			return fmt.Errorf("leave of %s for round %d has no place here", e.Sender.Short(), e.Round)
		}
		c.rec.Roster[i].Active = false
		left[e.Sender] = true
	}
	slices.SortFunc(c.rec.Roster, func(a, b wire.Seat) int { return a.Peer.Compare(b.Peer) })
	c.rec.Table = nextTable(c.Genesis, c.Prev.Table, c.rec.Roster, left)
	return nil
}

func (c *composer) find(p wire.PeerID) int {
	return slices.IndexFunc(c.rec.Roster, func(s wire.Seat) bool { return s.Peer == p })
}

// update carries a seat over the cut.
func (c *composer) update(s *wire.Seat) {
	v, planned := c.rec.Verdict(s.Peer)
	if speed := c.speed(v); speed > 0 && (v.Status == wire.Counted || v.Status == wire.Late) {
		s.Speed = speed
	}
	if planned && v.Status == wire.Counted {
		s.Counted, s.Missed, s.Lates, s.Active = s.Counted+1, 0, 0, true
		return
	}
	s.Counted, s.Missed = 0, s.Missed+1
	s.Active = false
	if planned && v.Status == wire.Late {
		s.Lates++
		s.Active = s.Lates < latesToRest
	}
}

// ready activates a member, or admits a newcomer.
func (c *composer) ready(e wire.Envelope) error {
	r, err := wire.Read[wire.Ready](e)
	if err != nil {
		return err
	}
	if e.Round+MaxReadyBehind < c.rec.Round || e.Round >= c.rec.Round {
		return fmt.Errorf("READY of %s for version %d has no place here", e.Sender.Short(), e.Round)
	}
	if r.Schema != c.Genesis.Schema || r.Data != c.Genesis.Data[0].Root {
		return fmt.Errorf("READY of %s is for another model or other data", e.Sender.Short())
	}
	if i := c.find(e.Sender); i >= 0 {
		c.rec.Roster[i].Active, c.rec.Roster[i].Lates = true, 0
		return nil
	}
	if !c.Genesis.Admission.Admits(e.Sender) {
		return fmt.Errorf("READY of %s, who is not admitted", e.Sender.Short())
	}
	if len(c.rec.Roster) >= c.Genesis.Seats() {
		return fmt.Errorf("READY of %s, but all %d seats are taken", e.Sender.Short(), c.Genesis.Seats())
	}
	rank := uint32(0)
	for _, s := range c.rec.Roster {
		rank = max(rank, s.Rank+1)
	}
	c.rec.Roster = append(c.rec.Roster, wire.Seat{Peer: e.Sender, Rank: rank, Active: true})
	return nil
}

// nextTable removes voters that left or were missing and are not back yet, adds
// steady members, and gives the powers: one voter 1; two 2 and 1, so that the longer-standing one
// can decide alone; from three on 1 each.
func nextTable(g *wire.Genesis, prev wire.Table, roster []wire.Seat, left map[wire.PeerID]bool) wire.Table {
	seats := map[wire.PeerID]wire.Seat{}
	for _, s := range roster {
		seats[s.Peer] = s
	}
	out := wire.Table{}
	removable := len(prev) - int(g.MinVoters)
	for _, p := range prev {
		s := seats[p.Peer]
		gone := left[p.Peer] || s.Missed >= missedToLeaveTable && !s.Active
		if gone && removable > 0 {
			removable--
			continue
		}
		out = append(out, p)
	}
	byRank := slices.Clone(roster)
	slices.SortFunc(byRank, func(a, b wire.Seat) int { return int(a.Rank) - int(b.Rank) })
	for _, s := range byRank {
		if len(out) < wire.MaxVoters && s.Counted >= countedToVote && out.Of(s.Peer) == 0 && !left[s.Peer] {
			out = append(out, wire.Power{Rank: s.Rank, Peer: s.Peer, Power: 1})
		}
	}
	return powers(out)
}

func powers(t wire.Table) wire.Table {
	slices.SortFunc(t, func(a, b wire.Power) int { return int(a.Rank) - int(b.Rank) })
	for i := range t {
		t[i].Power = 1
	}
	if len(t) == 2 {
		t[0].Power = 2
	}
	return t
}

// positions books which positions were used, and which are dealt again.
func (c *composer) positions() error {
	c.rec.Cursor = c.Plan.Cursor
	back := slices.Clone(c.Plan.Returned)
	for _, s := range c.Plan.Shares {
		v, _ := c.rec.Verdict(s.Peer)
		h := c.headers[v.Header]
		used := uint64(0) // of the dealt positions
		rode := false
		switch v.Status {
		case wire.Counted:
			rode = h.Late != 0
			used = uint64(v.Samples)
			if rode {
				used -= wire.SpanLen(carried(c.Genesis, c.Prev, s.Peer))
			}
			if c.Genesis.Preset.Cadence.Window { // steps past the last common one are undone
				used = min(used, uint64(WindowSteps(c.rec, c.Prev))*uint64(c.Genesis.Preset.Inner.Batch))
			}
		case wire.Late:
			if h.Late == 0 && !c.Genesis.Preset.Cadence.Window && c.Plan.Groups == nil { // may ride into the next round
				used = wire.SpanLen(h.Spans)
			}
		}
		_, rest := wire.SplitSpans(s.Spans, used)
		back = append(back, rest...)
		if !rode {
			back = append(back, carried(c.Genesis, c.Prev, s.Peer)...)
		}
	}
	// Late work of peers that are not planned for any more is dropped too.
	for _, v := range c.Prev.Cut {
		if v.Status == wire.Late && c.Plan.Share(v.Peer) == nil {
			back = append(back, carried(c.Genesis, c.Prev, v.Peer)...)
		}
	}
	c.rec.Returned = normal(back, true)
	if len(c.rec.Returned) > maxReturned {
		c.rec.Returned = c.rec.Returned[:maxReturned]
	}
	if invariants.On {
		c.checkPositions()
	}
	return nil
}

// ComposeStart returns record 0: the READY peers that the creator saw, creator
// first by rank and then in peer order; the first 21 vote. version is that of
// the start weights.
func ComposeStart(g *wire.Genesis, run wire.RunID, version wire.CID, readys []wire.Envelope) (*wire.Record, error) {
	r := &wire.Record{V: 1, Run: run, Certified: wire.Certified{Version: version}, Cut: []wire.Verdict{}, Returned: []wire.Span{},
		Headers: [][]byte{}, Haves: [][]byte{}, Attests: [][]byte{}, Leaves: [][]byte{}, Stops: [][]byte{}, Groups: []wire.GroupResult{}}
	var err error
	if r.Readys, err = admit(run, readys, wire.KindReady, false); err != nil {
		return nil, fmt.Errorf("compose start record: %w", err)
	}
	if len(readys) < int(g.MinPeers) {
		return nil, fmt.Errorf("compose start record: %w: %d of %d peers are ready", ErrTooEarly, len(readys), g.MinPeers)
	}
	if len(readys) > g.Seats() {
		return nil, fmt.Errorf("compose start record: %d peers, limit %d", len(readys), g.Seats())
	}
	rank := uint32(1)
	for _, e := range readys {
		rd, err := wire.Read[wire.Ready](e)
		if err != nil {
			return nil, fmt.Errorf("compose start record: %w", err)
		}
		if e.Round != 0 || rd.Version != version || rd.Schema != g.Schema || rd.Data != g.Data[0].Root || !g.Admission.Admits(e.Sender) {
			return nil, fmt.Errorf("compose start record: READY of %s does not fit the genesis", e.Sender.Short())
		}
		s := wire.Seat{Peer: e.Sender, Active: true}
		if e.Sender != g.Creator {
			s.Rank = rank
			rank++
		}
		r.Roster = append(r.Roster, s)
	}
	if _, ok := r.Seat(g.Creator); !ok {
		return nil, errors.New("compose start record: the creator is not among the READY peers")
	}
	for _, s := range r.Roster {
		if s.Rank < wire.MaxVoters {
			r.Table = append(r.Table, wire.Power{Rank: s.Rank, Peer: s.Peer})
		}
	}
	r.Table = powers(r.Table)
	seed := append([]byte("hived/seed/v1\n"), run[:]...)
	r.Seed = wire.Sum(seed)
	return r.Finish(), nil
}

// ValidateStart checks record 0.
func ValidateStart(g *wire.Genesis, run wire.RunID, version wire.CID, r *wire.Record) error {
	in, err := inputsOf(r)
	if err != nil {
		return fmt.Errorf("validate start record: %w", err)
	}
	want, err := ComposeStart(g, run, version, in.Readys)
	if err != nil {
		return err
	}
	if want.Digest() != r.Digest() {
		return errors.New("validate start record: its READYs give another record")
	}
	return nil
}
