package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/ledger"
	"github.com/apiary-net/hived/ledger/proof"
	"github.com/apiary-net/hived/wire"
)

// answerLog gives own entries to another peer.
func (d *Daemon) answerLog(body []byte) ([]byte, error) {
	q, err := wire.OpenQuery[wire.LogQuery](body)
	if err != nil {
		return nil, err
	}
	r, err := d.runOf(q.Run)
	if err != nil {
		return nil, err
	}
	a := wire.LogAnswer{Head: r.log.Head()}
	size := 0
	err = r.log.Read(q.Lo, a.Head.Size, func(raw []byte, _ wire.EntryBody) error {
		if size += len(raw); size > wire.LogBudget {
			return errLogFull
		}
		a.Entries = append(a.Entries, append([]byte{}, raw...))
		return nil
	})
	if err != nil && !errors.Is(err, errLogFull) {
		return nil, err
	}
	return wire.Marshal(a), nil
}

var errLogFull = errors.New("answer is full")

// fetchLog takes another peer's whole log.
func (r *run) fetchLog(ctx context.Context, p wire.PeerID) (wire.Head, [][]byte, error) {
	return ledger.Fetch(r.id, p, r.genesis.Rounds, func(lo uint64) (a wire.LogAnswer, err error) {
		req := wire.Pull{Kind: wire.PullLog, Body: wire.Marshal(wire.LogQuery{Run: r.id, Lo: lo})}
		b, err := r.d.node.Pull(ctx, p, wire.Marshal(req))
		if err != nil {
			return a, err
		}
		err = wire.Unmarshal(b, &a, wire.MaxLogAnswer)
		return a, err
	})
}

// Export writes a run's ledger, and all that a replay of it needs, into a new
// directory. It appears whole or not at all.
func (d *Daemon) Export(ctx context.Context, r *run, dir string) error {
	return proof.Write(dir, d.key, r.id, func(put wire.Put) error {
		if err := put("genesis", r.sealed); err != nil {
			return err
		}
		// First the logs, then the records: a run in progress decides more meanwhile,
		// and every entry must find its record.
		own, err := r.exportLogs(ctx, put)
		if err != nil {
			return err
		}
		if err := r.exportWitnessed(own, put); err != nil {
			return err
		}
		return r.runner.Export(ctx, put)
	})
}

// appliedUpTo waits a while until this peer has made a version that another has.
func (r *run) appliedUpTo(ctx context.Context, round uint64) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		s, err := r.runner.Status(ctx)
		if err != nil {
			return fmt.Errorf("wait for version %d, which another peer's log names: %w", round, err)
		}
		if s.Applied >= round {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// exportLogs writes the own log and those of the members that can be reached. The
// log of a member that is ahead is written once this peer has got there too, or
// left out. It returns the head of the own log as it was written.
func (r *run) exportLogs(ctx context.Context, put wire.Put) (own wire.Head, err error) {
	snap, err := r.runner.Status(ctx)
	if err != nil {
		return own, err
	}
	if snap.Head == nil {
		return own, errors.New("the run has not started")
	}
	var mu sync.Mutex // of put
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(logsAtOnce)
	for _, seat := range snap.Head.Roster {
		g.Go(func() error {
			head, entries, err := r.logOf(ctx, seat.Peer)
			if err != nil && seat.Peer == r.d.ID() {
				return err
			}
			if err != nil || head.Size == 0 {
				r.d.log.Warn("a log is not in the export", "of", seat.Peer.String(), "err", err)
				return nil
			}
			if seat.Peer != r.d.ID() {
				if err := r.witness.Compare(seat.Peer, head, entries); err != nil {
					r.d.log.Warn("a log is not what was seen of it", "of", seat.Peer.String(), "err", err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if seat.Peer == r.d.ID() {
				own = head
			}
			err = ledger.ExportEntries(r.id, seat.Peer, head, entries, put.In("logs/"+seat.Peer.String()+"/"))
			if err != nil {
				return fmt.Errorf("log of %s: %w", seat.Peer.Short(), err)
			}
			return nil
		})
	}
	err = g.Wait() // first: the goroutines write own
	return own, err
}

// exportWitnessed writes who cosigned the own log as far as it was written, and the
// evidence: after the log, which names none that is not kept.
func (r *run) exportWitnessed(own wire.Head, put wire.Put) error {
	seen, err := r.witness.Cosigned()
	if err != nil {
		return err
	}
	for _, c := range seen {
		if c.Head.Size > own.Size {
			continue
		}
		if err := put(wire.CosignedFile(r.d.ID(), c.Witness), c.Head.Note); err != nil {
			return err
		}
	}
	kept, err := r.witness.Evidence()
	if err != nil {
		return err
	}
	for _, e := range kept {
		b := wire.Marshal(e)
		if err := put(wire.EvidenceFile(wire.Sum(b)), b); err != nil {
			return err
		}
	}
	return nil
}

// logsAtOnce bounds the logs that are fetched side by side.
const logsAtOnce = 8

// logOf returns a member's log, once this peer has got to all that it names.
func (r *run) logOf(ctx context.Context, p wire.PeerID) (head wire.Head, entries [][]byte, err error) {
	if p == r.d.ID() {
		head = r.log.Head()
		err = r.log.Read(0, head.Size, func(raw []byte, _ wire.EntryBody) error {
			entries = append(entries, append([]byte{}, raw...))
			return nil
		})
	} else {
		lctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		head, entries, err = r.fetchLog(lctx, p)
		cancel()
	}
	if err != nil {
		return head, nil, err
	}
	round, err := newestRound(entries)
	if err == nil {
		err = r.appliedUpTo(ctx, round)
	}
	return head, entries, err
}

// newestRound returns the newest round whose record or version a log names.
func newestRound(entries [][]byte) (round uint64, err error) {
	for _, raw := range entries {
		e, err := wire.OpenEntry(raw)
		if err != nil {
			return 0, err
		}
		if e.Kind == wire.EntryVersion || e.Kind == wire.EntryRecord {
			round = max(round, e.Round)
		}
	}
	return round, nil
}

// postExport writes an export to a directory of this machine.
func (d *Daemon) postExport(w http.ResponseWriter, q *http.Request) {
	var body struct {
		Dir string `json:"dir"`
	}
	err := decodeJSON(q, &body)
	if err == nil && !filepath.IsAbs(body.Dir) {
		err = exit.Fail(exit.Usage, nil, "export to %q: want an absolute path", body.Dir)
	}
	var r *run
	if err == nil {
		r, err = d.find(q.PathValue("run"))
	}
	if err == nil {
		err = d.Export(q.Context(), r, body.Dir)
	}
	reply(w, map[string]string{"dir": body.Dir}, err)
}
