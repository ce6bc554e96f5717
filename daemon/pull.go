package daemon

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/wire"
)

// answer answers other peers' pulls.
func (d *Daemon) answer(from wire.PeerID, req []byte) ([]byte, error) {
	var p wire.Pull
	if err := wire.Unmarshal(req, &p, wire.MaxPull); err != nil {
		return nil, err
	}
	switch p.Kind {
	case wire.PullRun:
		return d.answerRun(p.Body)
	case wire.PullGenesis:
		w, err := wire.OpenQuery[wire.GenesisQuery](p.Body)
		if err != nil {
			return nil, err
		}
		for _, r := range d.allRuns() {
			if w.Names(r.id, r.genesis.Name) {
				return r.sealed, nil
			}
		}
		return nil, fs.ErrNotExist
	case wire.PullLog:
		return d.answerLog(p.Body)
	case wire.PullSnapshot:
		return d.answerSnapshot(p.Body)
	case wire.PullProof:
		return d.answerProof(p.Body)
	}
	return nil, fmt.Errorf("pull of kind %d is not known", p.Kind)
}

// runOf returns a run in progress, or fs.ErrNotExist.
func (d *Daemon) runOf(id wire.RunID) (*run, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if r := d.runs[id]; r != nil {
		return r, nil
	}
	return nil, fs.ErrNotExist
}

func (d *Daemon) answerRun(body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	last := error(fs.ErrNotExist)
	for _, r := range d.allRuns() {
		a, err := r.runner.Answer(ctx, body)
		if err == nil {
			return a.Bytes(), nil
		}
		last = err
	}
	return nil, last
}

// knownGenesis returns a run that an earlier life took part in, or one in
// progress.
func (d *Daemon) knownGenesis(w wire.GenesisQuery) ([]byte, error) {
	dirs, err := os.ReadDir(filepath.Join(d.cfg.DataDir, "runs"))
	if err != nil {
		return nil, err
	}
	var found []byte
	var ids []wire.RunID
	for _, e := range dirs {
		b, err := os.ReadFile(filepath.Join(d.cfg.DataDir, "runs", e.Name(), "genesis"))
		if err != nil {
			continue
		}
		if g, id, err := wire.OpenGenesis(b); err == nil && w.Names(id, g.Name) {
			found, ids = b, append(ids, id)
		}
	}
	switch len(ids) {
	case 0:
		return nil, fs.ErrNotExist
	case 1:
		return found, nil
	}
	return nil, ambiguous(w.Name, ids)
}

// findGenesis asks the connected peers for a run until one has it or ctx ends.
func (d *Daemon) findGenesis(ctx context.Context, w wire.GenesisQuery) ([]byte, error) {
	for {
		for _, p := range d.node.Peers() {
			b, err := d.node.Pull(ctx, p.ID, wire.Marshal(wire.Pull{Kind: wire.PullGenesis, Body: wire.Marshal(w)}))
			if err != nil {
				continue
			}
			g, id, err := wire.OpenGenesis(b)
			if err != nil || !w.Names(id, g.Name) {
				d.log.Warn("genesis refused", "peer", p.ID.Short(), "err", err)
				continue
			}
			return b, nil
		}
		select {
		case <-ctx.Done():
			n := len(d.node.Peers())
			return nil, exit.Fail(exit.Timeout, ctx.Err(), "none of %d connected peers knows run %s", n, label(w))
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func label(w wire.GenesisQuery) string {
	if w.Run.IsZero() {
		return w.Name
	}
	return w.Run.Short()
}
