package decide

import (
	"cmp"
	"slices"

	"github.com/apiary-net/hived/wire"
)

// A round has one or two levels at which peers offer work, say which of it they have,
// and decide which of it counts. In a round of one group voters decide on
// contributions. In a round of several groups each group's members decide on their
// contributions, and voters on the groups' results.

// offer is a contribution, or the result of a group, as this peer knows it: what a
// HAVE says something of.
type offer struct {
	env    wire.Envelope
	item   wire.HaveItem     // what this peer has of it; its state only rises
	asked  bool              // a fetch is under way or has ended well
	rest   bool              // the parts of silent owners were asked for
	header wire.Header       // of a contribution
	merged []wire.CID        // of a contribution to a window, once its body is here
	result *wire.GroupResult // of a group; nil for a contribution
	was    wire.HaveState    // its state when invariants were checked last; 0: never
}

// source is whose work an offer is: a peer's or a group's.
type source struct {
	peer  wire.PeerID
	group uint32 // counted from 1; 0 for a peer's
}

func (o *offer) source() source {
	if o.result != nil {
		return source{group: o.result.Outcome.Group + 1}
	}
	return source{peer: o.env.Sender}
}

// inOrder is by group, then by digest: the order in which a record names what counts.
func inOrder(a, b *offer) int {
	return cmp.Or(cmp.Compare(a.source().group, b.source().group), a.item.Header.Compare(b.item.Header))
}

// level is what is offered at one level, and who has said to have what of it.
type level struct {
	kind  wire.Kind  // of its HAVEs
	table wire.Table // whose HAVEs weigh
	haves *acks

	order   []*offer               // all, inOrder
	by      map[wire.Digest]*offer // the same, by digest
	of      map[source][]*offer    // the same, by whose it is; at most offersOfOne each
	unasked bool                   // something is to be fetched
}

// offersOfOne is how many offers of one source are looked at: two contributions are
// proof enough that their sender equivocates, and of two results the heavier counts.
const offersOfOne = 2

func newLevel(kind wire.Kind, table wire.Table) *level {
	return &level{kind: kind, table: table, haves: newAcks(), by: map[wire.Digest]*offer{}, of: map[source][]*offer{}}
}

// full reports whether an offer is known, or has no room beside others of its source.
func (l *level) full(d wire.Digest, s source) bool {
	return l.by[d] != nil || len(l.of[s]) >= offersOfOne
}

// add takes an offer that full has not refused.
func (l *level) add(o *offer) {
	at, _ := slices.BinarySearchFunc(l.order, o, inOrder)
	l.order = slices.Insert(l.order, at, o)
	l.by[o.item.Header] = o
	l.of[o.source()] = append(l.of[o.source()], o)
	l.unasked, l.haves.changed = true, true
}

// resolved reports whether the work of a source is whole, refused or equivocated.
func (l *level) resolved(s source) bool {
	mine := l.of[s]
	return len(mine) > 1 && mine[0].result == nil || slices.ContainsFunc(mine, func(o *offer) bool { return o.item.State != wire.HaveSeen })
}

// items is what this peer has of every offer.
func (l *level) items() []wire.HaveItem {
	items := []wire.HaveItem{}
	for _, o := range l.order {
		it := o.item
		if l.kind == wire.KindGroupHave {
			it.Nonce = nil // who votes for an outcome has the bodies
		}
		items = append(items, it)
	}
	return items[:min(len(items), 2*wire.MaxGroups)]
}
