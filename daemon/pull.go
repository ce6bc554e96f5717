package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/wire"
)

// pull is a request on /hived/pull/1: Kind says what Body is.
type pull struct {
	_    struct{} `cbor:",toarray"`
	Kind uint64
	Body []byte
}

// Kinds of pulls.
const (
	pullRun      = 1 // elastic's round state; the body starts with the run
	pullGenesis  = 2 // wanted: a run by id or by name
	pullLog      = 3 // logQuery: entries of a log
	pullSnapshot = 4 // the run: its newest placement
	pullProof    = 5 // proofQuery: a consistency proof of the asked peer's log
)

// wanted names a run, by id or else by name.
type wanted struct {
	_    struct{} `cbor:",toarray"`
	Run  wire.RunID
	Name string
}

const maxPull = 128 << 10

// answer answers other peers' pulls.
func (d *Daemon) answer(from wire.PeerID, req []byte) ([]byte, error) {
	var p pull
	if err := wire.Unmarshal(req, &p, maxPull); err != nil {
		return nil, err
	}
	switch p.Kind {
	case pullRun:
		return d.answerRun(p.Body)
	case pullGenesis:
		var w wanted
		if err := wire.Unmarshal(p.Body, &w, 1<<10); err != nil {
			return nil, err
		}
		for _, r := range d.allRuns() {
			if r.id == w.Run || w.Run.IsZero() && r.genesis.Name == w.Name {
				return r.sealed, nil
			}
		}
		return nil, fs.ErrNotExist
	case pullLog:
		return d.answerLog(p.Body)
	case pullSnapshot:
		return d.answerSnapshot(p.Body)
	case pullProof:
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
func (d *Daemon) knownGenesis(w wanted) ([]byte, error) {
	dirs, err := os.ReadDir(filepath.Join(d.cfg.DataDir, "runs"))
	if err != nil {
		return nil, err
	}
	for _, e := range dirs {
		b, err := os.ReadFile(filepath.Join(d.cfg.DataDir, "runs", e.Name(), "genesis"))
		if err != nil {
			continue
		}
		if g, id, err := wire.OpenGenesis(b); err == nil && (id == w.Run || w.Run.IsZero() && g.Name == w.Name) {
			return b, nil
		}
	}
	return nil, fs.ErrNotExist
}

// findGenesis asks the connected peers for a run until one has it or ctx ends.
func (d *Daemon) findGenesis(ctx context.Context, w wanted) ([]byte, error) {
	for {
		for _, p := range d.node.Peers() {
			b, err := d.node.Pull(ctx, p.ID, wire.Marshal(pull{Kind: pullGenesis, Body: wire.Marshal(w)}))
			if err != nil {
				continue
			}
			g, id, err := wire.OpenGenesis(b)
			if err != nil || !w.Run.IsZero() && id != w.Run || w.Run.IsZero() && g.Name != w.Name {
				d.log.Warn("genesis refused", "peer", p.ID.Short(), "err", err)
				continue
			}
			return b, nil
		}
		select {
		case <-ctx.Done():
			n := len(d.node.Peers())
			return nil, exit.Fail(exit.Timeout, errors.Join(ctx.Err()), "none of %d connected peers knows run %s", n, w.label())
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func (w wanted) label() string {
	if w.Run.IsZero() {
		return w.Name
	}
	return w.Run.Short()
}
