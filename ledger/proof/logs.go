package proof

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/apiary-net/hived/ledger"
	"github.com/apiary-net/hived/wire"
)

// logs checks every log, and that each counted header of a peer stands in it.
func (e *exported) logs() error {
	trees, seen := map[wire.PeerID]*ledger.Tree{}, map[wire.PeerID][]wire.Seen{}
	for _, seat := range e.recs[len(e.recs)-1].Roster {
		name := "logs/" + seat.Peer.String()
		sub, err := fs.Sub(e.dir, name)
		if err != nil {
			return err
		}
		if _, err := fs.Stat(e.dir, name); errors.Is(err, fs.ErrNotExist) {
			e.total.MissingLogs = append(e.total.MissingLogs, seat.Peer.String())
			continue
		}
		var entries []wire.EntryBody
		tree, err := ledger.ReadLog(sub, e.run, seat.Peer, func(_ []byte, b wire.EntryBody) error {
			entries = append(entries, b)
			return nil
		})
		if err == nil {
			err = e.holds(seat.Peer, entries)
		}
		if err == nil && seat.Peer == e.exporter {
			err = e.shows(entries)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := e.cosigned(seat.Peer, tree); err != nil {
			return err
		}
		trees[seat.Peer], seen[seat.Peer] = tree, sightings(entries)
		e.total.Entries += uint64(len(entries))
		e.total.Logs = append(e.total.Logs, seat.Peer.String())
	}
	if len(e.total.Logs) == 0 {
		return errors.New("logs/: the export holds no log")
	}
	e.compare(trees, seen)
	owners, err := list(e.dir, "cosigned")
	for _, o := range owners {
		if !slices.Contains(e.total.Logs, o) {
			err = errors.Join(err, fmt.Errorf("cosigned/%s: the log is not in the export", o))
		}
	}
	return err
}

// sightings are the heads that a peer says it cosigned. What it says in another form
// says nothing.
func sightings(entries []wire.EntryBody) (out []wire.Seen) {
	for _, b := range entries {
		var l wire.SeenList
		if b.Kind == wire.EntryWitness && wire.Unmarshal(b.Extra, &l, wire.MaxEntry) == nil {
			out = append(out, l.Seen...)
		}
	}
	return out
}

// compare looks for peers that say they saw another log of a member than the export
// has. Either may lie, so it is no error: whose key signed twice, evidence tells.
func (e *exported) compare(trees map[wire.PeerID]*ledger.Tree, seen map[wire.PeerID][]wire.Seen) {
	for _, w := range slices.SortedFunc(maps.Keys(seen), wire.PeerID.Compare) {
		for _, s := range seen[w] {
			t := trees[s.Peer]
			if t == nil {
				continue
			}
			switch same, known := t.Holds(s.Size, s.Root); {
			case same:
				e.total.Seen++
			case known:
				e.total.Disputed = append(e.total.Disputed, fmt.Sprintf("%s saw another log of %s, of %d entries", w, s.Peer, s.Size))
			}
		}
	}
}

// list returns the names in a folder that may not be there.
func list(dir fs.FS, folder string) ([]string, error) {
	es, err := fs.ReadDir(dir, folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, e := range es {
		out = append(out, e.Name())
	}
	return out, err
}

// cosigned checks what witnesses saw of a log against the log.
func (e *exported) cosigned(p wire.PeerID, tree *ledger.Tree) error {
	names, err := list(e.dir, "cosigned/"+p.String())
	if err != nil {
		return err
	}
	seen := Witnessed{Log: p.String(), Of: tree.Head.Size}
	for _, n := range names {
		w, err := wire.ParsePeer(n)
		name := wire.CosignedFile(p, w)
		if err != nil || w.String() != n {
			return fmt.Errorf("cosigned/%s/%s: the name is no peer's", p, n)
		}
		b, err := readFile(e.dir, name)
		var h wire.Head
		if err == nil {
			h, err = tree.CheckCosigned(b, w)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		e.total.Cosigned++
		seen.Witnesses, seen.Seen = seen.Witnesses+1, max(seen.Seen, h.Size)
	}
	if seen.Witnesses > 0 {
		e.total.Witnessed = append(e.total.Witnessed, seen)
	}
	return nil
}

// evidence checks every piece from its own bytes.
func (e *exported) evidence() error {
	names, err := list(e.dir, "evidence")
	if err != nil {
		return err
	}
	for _, n := range names {
		name := "evidence/" + n
		b, err := readFile(e.dir, name)
		if err != nil {
			return err
		}
		ev, err := ledger.ParseEvidence(b)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		p, run, err := ledger.CheckEvidence(ev)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if run != e.run || wire.EvidenceFile(wire.Sum(b)) != name {
			return fmt.Errorf("%s: it is of run %s, and its digest is %s", name, run.Short(), wire.Sum(b).Short())
		}
		if !slices.Contains(e.total.Convicted, p.String()) {
			e.total.Convicted = append(e.total.Convicted, p.String())
		}
		e.total.Evidence++
	}
	return nil
}

// shows checks that the exporter gives the evidence that its log says it keeps.
func (e *exported) shows(entries []wire.EntryBody) error {
	for _, b := range entries {
		if b.Kind != wire.EntryEvidence {
			continue
		}
		if _, err := fs.Stat(e.dir, wire.EvidenceFile(b.Ref.Digest())); err != nil {
			return fmt.Errorf("entry %d names evidence that the export lacks: %w", b.Seq, err)
		}
	}
	return nil
}

// holds checks a peer's entries against the records: every header of it that
// counts up to its last entry, and every version that it says it computed.
func (e *exported) holds(p wire.PeerID, entries []wire.EntryBody) error {
	said := map[wire.Digest]bool{}
	last := uint64(0)
	for _, b := range entries {
		switch b.Kind {
		case wire.EntryContribution:
			said[b.Ref.Digest()] = true
		case wire.EntryVersion:
			last = max(last, b.Round)
			if b.Round >= uint64(len(e.recs)) {
				return fmt.Errorf("entry %d is of round %d, behind the last record", b.Seq, b.Round)
			}
			if a := e.attested[b.Round]; !a.Version.IsZero() && a.Version != b.Ref {
				return fmt.Errorf("entry %d says version %d is %s, two thirds computed %s", b.Seq, b.Round, b.Ref.Short(), a.Version.Short())
			}
		}
	}
	for _, rec := range e.recs[1:] {
		if v, ok := rec.Verdict(p); ok && v.Status == wire.Counted && rec.Round <= last && !said[v.Header] && e.computed(entries, rec.Round) {
			return fmt.Errorf("the counted contribution of round %d is not in the log", rec.Round)
		}
	}
	return nil
}

// computed reports whether the log holds the version of a round: a peer that was
// away takes later versions from others and has no entries of the rounds between.
func (e *exported) computed(entries []wire.EntryBody, round uint64) bool {
	for _, b := range entries {
		if b.Kind == wire.EntryVersion && b.Round == round {
			return true
		}
	}
	return false
}
