package rules

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/apiary-net/hived/wire"
)

// groupsOf deals peers into as few groups of at most size as there can be, of
// sizes that differ by one at most. Who meets whom is drawn from the seed, which
// the nonces of the round before make: nobody can choose its group. A proposer that
// leaves out a result that few voters know draws once more.
func groupsOf(seed wire.Digest, peers []wire.PeerID, size int) [][]wire.PeerID {
	order := wire.Draw("hived/group/v1\n", seed[:], peers)
	n := (len(order) + size - 1) / size
	out := make([][]wire.PeerID, n)
	for i := range n {
		out[i] = slices.SortedFunc(slices.Values(order[i*len(order)/n:(i+1)*len(order)/n]), wire.PeerID.Compare)
	}
	return out
}

// GroupOf returns the index of p's group, or -1.
func (p *Plan) GroupOf(id wire.PeerID) int {
	return slices.IndexFunc(p.Groups, func(g []wire.PeerID) bool {
		_, ok := slices.BinarySearchFunc(g, id, wire.PeerID.Compare)
		return ok
	})
}

// GroupLeaders returns a group's members in the order in which they speak for it:
// the first one there composes the group's cut and collects its votes.
func GroupLeaders(seed wire.Digest, members []wire.PeerID) []wire.PeerID {
	return wire.Draw("hived/group-leader/v1\n", seed[:], members)
}

// EqualTable gives each member of a group one vote.
func EqualTable(members []wire.PeerID) wire.Table {
	t := make(wire.Table, len(members))
	for i, p := range members {
		t[i] = wire.Power{Rank: uint32(i), Peer: p, Power: 1}
	}
	return t
}

// groupBallot returns the ballot of one group of the round.
func (s Setting) groupBallot(group int) *ballot {
	members := s.Plan.Groups[group]
	b := &ballot{Setting: s, table: EqualTable(members), kind: wire.KindGroupHave}
	for _, p := range members {
		b.shares = append(b.shares, *s.Plan.Share(p))
	}
	return b
}

// GroupView is what a group's cut says: an outcome without its merged update and
// nonces, and the headers that count, in peer order.
type GroupView struct {
	Cut     wire.GroupCut
	Outcome wire.GroupOutcome
	Counted []CountedHeader
}

// ComposeGroup makes the cut of one group from headers and HAVEs of its members,
// whose lists it sorts. What it gives is a function of them. It returns ErrTooEarly
// while HAVEs of less than two thirds of the members are there.
func (s Setting) ComposeGroup(group int, headers, haves []wire.Envelope) (*GroupView, error) {
	if group < 0 || group >= len(s.Plan.Groups) {
		return nil, fmt.Errorf("compose cut of group %d: the round has %d groups", group, len(s.Plan.Groups))
	}
	b := s.groupBallot(group)
	v := &GroupView{Cut: wire.GroupCut{Group: uint32(group)}}
	var err error
	if v.Cut.Headers, err = b.takeHeaders(headers); err == nil {
		v.Cut.Haves, err = b.takeHaves(haves)
	}
	if err != nil {
		return nil, fmt.Errorf("compose cut of group %d: %w", group, err)
	}
	v.Outcome = wire.GroupOutcome{Group: uint32(group), Cut: wire.Sum(wire.Marshal(&v.Cut))}
	var norms []float32
	var loss, n float64
	for _, d := range b.verdicts() {
		row := wire.GroupRow{Status: d.Status, Reason: d.Reason, Header: d.Header, Samples: d.Samples, ArrivalMs: d.ArrivalMs}
		if hd, ok := b.headers[d.Header]; ok {
			row.Speed = speedOf(&hd.Header)
			if d.Status == wire.Counted {
				norms = append(norms, hd.Norm)
				loss += float64(float64(hd.Loss) * float64(d.Samples))
				n += float64(d.Samples)
				v.Counted = append(v.Counted, CountedHeader{Env: hd.env, Header: hd.Header, Samples: d.Samples})
			}
		}
		v.Outcome.Rows = append(v.Outcome.Rows, row)
	}
	v.Outcome.Norm = lowerMedian(norms)
	if n > 0 {
		v.Outcome.Loss = float32(loss / n)
	}
	return v, nil
}

// OpenGroupCut checks that c is the cut that its own inputs give.
func (s Setting) OpenGroupCut(c *wire.GroupCut) (*GroupView, error) {
	var lists [2][]wire.Envelope
	for i, raws := range [][][]byte{c.Headers, c.Haves} {
		for _, raw := range raws {
			e, err := wire.Open(raw)
			if err != nil {
				return nil, fmt.Errorf("cut of group %d: %w", c.Group, err)
			}
			lists[i] = append(lists[i], e)
		}
	}
	v, err := s.ComposeGroup(int(c.Group), lists[0], lists[1])
	if err == nil && v.Outcome.Cut != wire.Sum(wire.Marshal(c)) {
		err = fmt.Errorf("cut of group %d: its inputs are out of order", c.Group)
	}
	return v, err
}

// CheckGroupResult checks a group's result for a plan: rows for every member, and
// signatures of two thirds of them.
func CheckGroupResult(run wire.RunID, plan *Plan, r *wire.GroupResult) error {
	g := int(r.Outcome.Group)
	if g >= len(plan.Groups) {
		return fmt.Errorf("result of group %d, the round has %d", g, len(plan.Groups))
	}
	members := plan.Groups[g]
	n, err := r.Signatures(run, plan.Round, members)
	if err != nil {
		return err
	}
	if !EqualTable(members).Quorum(uint64(n)) {
		return fmt.Errorf("result of group %d has %d signatures of %d members", g, n, len(members))
	}
	if (r.Outcome.Weight() > 0) == r.Outcome.Merged.IsZero() {
		return fmt.Errorf("result of group %d of weight %d names update %s", g, r.Outcome.Weight(), r.Outcome.Merged.Short())
	}
	for i, row := range r.Outcome.Rows {
		share := plan.Share(members[i])
		if row.Status < wire.Counted || row.Status > wire.Equivocated || uint64(row.Samples) > wire.SpanLen(share.Spans) ||
			(row.Samples > 0) != (row.Status == wire.Counted) {
			return fmt.Errorf("result of group %d: row %d has status %d and %d samples", g, i, row.Status, row.Samples)
		}
	}
	return nil
}

// takeGroups books group results and what the voters have of them. A result has
// a digest like a header, and counts under the same rule.
func (c *composer) takeGroups() (err error) {
	if len(c.in.Headers) > 0 {
		return errors.New("headers in a round of several groups")
	}
	c.headers, c.tally = map[wire.Digest]header{}, map[wire.Digest]*tally{}
	type named struct {
		wire.GroupResult
		name wire.Digest
	}
	var all []named
	for _, r := range c.in.Groups {
		n := named{r, r.Outcome.Digest()}
		if _, again := c.headers[n.name]; again {
			return fmt.Errorf("two results of group %d that say the same", r.Outcome.Group)
		}
		if err := CheckGroupResult(c.Run, c.Plan, &r); err != nil {
			return err
		}
		c.headers[n.name] = header{} // known, so that takeHaves does not miss it
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b named) int {
		return cmp.Or(cmp.Compare(a.Outcome.Group, b.Outcome.Group), a.name.Compare(b.name))
	})
	c.rec.Headers = [][]byte{}
	if c.rec.Haves, err = c.takeHaves(c.in.Haves); err != nil {
		return err
	}
	c.rec.Groups = make([]wire.GroupResult, 0, len(all))
	for i := range all {
		c.rec.Groups = append(c.rec.Groups, all[i].GroupResult)
		if t := c.tally[all[i].name]; t == nil || !c.table.More(t.whole) {
			continue
		}
		// Of several the heaviest, then the first: all were checked by two thirds.
		o, n := &all[i].Outcome, len(c.rec.Counting)
		switch {
		case n == 0 || c.rec.Groups[c.rec.Counting[n-1]].Outcome.Group != o.Group:
			c.rec.Counting = append(c.rec.Counting, uint32(i))
		case o.Weight() > c.rec.Groups[c.rec.Counting[n-1]].Outcome.Weight():
			c.rec.Counting[n-1] = uint32(i)
		}
	}
	return nil
}

// cutGroups takes the verdicts of the groups that count; members of the others
// are absent.
func (c *composer) cutGroups() {
	leaves := []wire.Digest{}
	rows := map[wire.PeerID]wire.GroupRow{}
	for _, o := range CountedGroups(c.rec) {
		leaves = append(leaves, o.Digest())
		for j, p := range c.Plan.Groups[o.Group] {
			rows[p] = o.Rows[j]
		}
	}
	c.rec.Cut, c.speeds = make([]wire.Verdict, 0, len(c.shares)), map[wire.PeerID]uint32{}
	for _, s := range c.shares {
		v := wire.Verdict{Peer: s.Peer, Status: wire.Absent}
		if r, ok := rows[s.Peer]; ok {
			v = wire.Verdict{Peer: s.Peer, Status: r.Status, Reason: r.Reason, Header: r.Header, Samples: r.Samples, ArrivalMs: r.ArrivalMs}
			c.speeds[s.Peer] = r.Speed
		}
		c.rec.Cut = append(c.rec.Cut, v)
	}
	c.rec.Root = wire.MerkleRoot(leaves)
}

// speed returns the samples a second of the header that a verdict names, 0 if it
// says none.
func (c *composer) speed(v wire.Verdict) uint32 {
	if c.Plan.Groups != nil {
		return c.speeds[v.Peer]
	}
	h := c.headers[v.Header]
	return speedOf(&h.Header)
}
