package decide

import (
	"bytes"
	"slices"

	"github.com/apiary-net/hived/wire"
)

// book keeps the HAVEs of one kind in one round: the newest of each peer, and
// what this peer has said itself.
type book struct {
	by   map[wire.PeerID]wire.Envelope
	seqs map[wire.PeerID]uint32

	seq     uint32
	said    []wire.HaveItem
	changed bool // something to say may be new
	told    bool // HAVE was said in this life: what an earlier one said may be lost
}

func newBook() *book {
	return &book{by: map[wire.PeerID]wire.Envelope{}, seqs: map[wire.PeerID]uint32{}}
}

// restore takes what an earlier life said, nil for nothing.
func (b *book) restore(old *wire.Have) {
	if old != nil {
		b.seq, b.said = old.Seq, old.Items
	}
}

// hear takes a peer's HAVE if it is newer than the known one.
func (b *book) hear(e wire.Envelope, seq uint32) {
	if _, ok := b.by[e.Sender]; ok && seq <= b.seqs[e.Sender] {
		return
	}
	b.by[e.Sender], b.seqs[e.Sender] = e, seq
}

func (b *book) has(p wire.PeerID) bool {
	_, ok := b.by[p]
	return ok
}

// weight returns the weight of those who said HAVE.
func (b *book) weight(t wire.Table) uint64 {
	n := uint64(0)
	for _, v := range t {
		if b.has(v.Peer) {
			n += uint64(v.Power)
		}
	}
	return n
}

// count returns in the weight of a table who knows each header, and who holds it
// whole.
func (b *book) count(t wire.Table) (known, whole map[wire.Digest]uint64) {
	known, whole = map[wire.Digest]uint64{}, map[wire.Digest]uint64{}
	for p, e := range b.by {
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
func (b *book) say(known func() []wire.HaveItem) *wire.Have {
	if b.told && !b.changed {
		return nil
	}
	b.changed = false
	items := known()
	for _, old := range b.said {
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
	if b.told && slices.EqualFunc(items, b.said, same) {
		return nil
	}
	b.told, b.said = true, items
	b.seq++
	return &wire.Have{Seq: b.seq, Items: items}
}
