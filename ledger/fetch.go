package ledger

import (
	"fmt"

	"github.com/apiary-net/hived/wire"
)

// Bounds of a log that another peer gives. A version is at most five entries, each of
// which may bring one of a witness; evidence comes on top.
const (
	entriesPerRound = 10
	otherEntries    = 4096
	maxFetched      = 64 << 20 // bytes of entries; a longer log is not taken
)

// Fetch takes the whole log of peer p in a run of so many rounds from ask, which returns
// p's answer to a query of entries from lo on. Nothing is believed before it is checked:
// the head's signature and size first, then every entry as it comes, at last the root.
// The first thing that is wrong ends it.
func Fetch(run wire.RunID, p wire.PeerID, rounds uint64, ask func(lo uint64) (wire.LogAnswer, error)) (wire.Head, [][]byte, error) {
	a, err := ask(0)
	if err != nil {
		return wire.Head{}, nil, err
	}
	head := a.Head // those of later answers may be of a longer log
	if err := CheckHead(head, run, p); err != nil {
		return head, nil, fmt.Errorf("fetch log: %w", err)
	}
	if most := entriesPerRound*(rounds+1) + otherEntries; head.Size > most {
		return head, nil, fmt.Errorf("fetch log of %s: %d entries, a run of %d rounds has at most %d", p, head.Size, rounds, most)
	}
	v := &verifier{run: run, peer: p}
	var all [][]byte
	size := 0
	for v.size < head.Size {
		if v.size > 0 {
			if a, err = ask(v.size); err != nil {
				return head, nil, err
			}
		}
		if len(a.Entries) == 0 {
			return head, nil, fmt.Errorf("fetch log of %s: %d of %d entries", p, v.size, head.Size)
		}
		for _, leaf := range a.Entries[:min(uint64(len(a.Entries)), head.Size-v.size)] {
			if size += len(leaf); size > maxFetched {
				return head, nil, fmt.Errorf("fetch log of %s: entry %d is behind the first %d bytes", p, v.size, maxFetched)
			}
			if err := v.entry(leaf); err != nil {
				return head, nil, fmt.Errorf("fetch log of %s: %w", p, err)
			}
			all = append(all, leaf)
		}
	}
	root, err := v.rootAt(v.size)
	if err == nil && root != head.Root {
		err = fmt.Errorf("root of the %d entries is not that of the head", v.size)
	}
	if err != nil {
		return head, nil, fmt.Errorf("fetch log of %s: %w", p, err)
	}
	return head, all, nil
}
