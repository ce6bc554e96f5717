package decide

import (
	"bytes"
	"slices"

	"github.com/apiary-net/hived/wire"
)

// acks are the HAVEs of one level in one round: the newest of each peer, and what
// this peer has said itself.
type acks struct {
	by   map[wire.PeerID]wire.Envelope
	seqs map[wire.PeerID]uint32

	seq     uint32
	said    []wire.HaveItem
	changed bool // something to say may be new
	told    bool // HAVE was said in this life: what an earlier one said may be lost
}

func newAcks() *acks {
	return &acks{by: map[wire.PeerID]wire.Envelope{}, seqs: map[wire.PeerID]uint32{}}
}

// restore takes what an earlier life said, nil for nothing.
func (a *acks) restore(old *wire.Have) {
	if old != nil {
		a.seq, a.said = old.Seq, old.Items
	}
}

// hear takes a peer's HAVE if it is newer than the known one.
func (a *acks) hear(e wire.Envelope, seq uint32) {
	if _, ok := a.by[e.Sender]; ok && seq <= a.seqs[e.Sender] {
		return
	}
	a.by[e.Sender], a.seqs[e.Sender] = e, seq
}

func (a *acks) has(p wire.PeerID) bool {
	_, ok := a.by[p]
	return ok
}

// weight returns the weight of those who said HAVE.
func (a *acks) weight(t wire.Table) uint64 {
	n := uint64(0)
	for _, v := range t {
		if a.has(v.Peer) {
			n += uint64(v.Power)
		}
	}
	return n
}

// count returns in the weight of a table who knows each header, and who holds it
// whole.
func (a *acks) count(t wire.Table) (known, whole map[wire.Digest]uint64) {
	known, whole = map[wire.Digest]uint64{}, map[wire.Digest]uint64{}
	for p, e := range a.by {
		h, err := wire.Read[wire.Have](e)
		if err != nil || t.Of(p) == 0 {
			continue
		}
		for _, it := range h.Items {
			known[it.Header] += t.Of(p)
			if it.State == wire.HaveWhole {
				whole[it.Header] += t.Of(p)
			}
		}
	}
	return known, whole
}

// say returns the HAVE to be said, or nil if it would be no news. States only
// rise, also over a restart.
func (a *acks) say(known func() []wire.HaveItem) *wire.Have {
	if a.told && !a.changed {
		return nil
	}
	a.changed = false
	items := known()
	for _, old := range a.said {
		i := slices.IndexFunc(items, func(it wire.HaveItem) bool { return it.Header == old.Header })
		switch {
		case i < 0:
			items = append(items, old)
		case old.State > items[i].State:
			items[i] = old
		case old.State == items[i].State && len(old.Parts) == len(items[i].Parts):
			items[i].Parts = union(old.Parts, items[i].Parts)
		}
	}
	slices.SortFunc(items, func(x, y wire.HaveItem) int { return x.Header.Compare(y.Header) })
	same := func(x, y wire.HaveItem) bool {
		return x.Header == y.Header && x.State == y.State && bytes.Equal(x.Parts, y.Parts)
	}
	if a.told && slices.EqualFunc(items, a.said, same) {
		return nil
	}
	a.told, a.said = true, items
	a.seq++
	return &wire.Have{Seq: a.seq, Items: items}
}
