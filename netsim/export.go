package netsim

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/apiary-net/hived/ledger"
	"github.com/apiary-net/hived/ledger/proof"
	"github.com/apiary-net/hived/wire"
)

// ExportsFolder holds the exports of an output directory.
const ExportsFolder = "exports"

// export writes what the first honest running peer exports of the run, with the
// logs from everybody's disk, as a daemon would: `hived ledger verify` checks it.
// Machines that were left off are switched on for it: they may hold what nobody else
// has.
func (m *Sim) export(dir string) error {
	sw := m.Swarm
	var n *Node
	for _, o := range sw.Nodes {
		if o.Up() && o.Lie == nil {
			n = o
			break
		}
	}
	if n == nil || sw.check.head() == nil {
		return nil // nobody is left, or nothing began
	}
	for _, o := range sw.Nodes {
		if o.lives > 0 && !o.Up() {
			if err := o.Start(); err != nil {
				return err
			}
		}
	}
	folder := filepath.Join(dir, ExportsFolder)
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return proof.Write(filepath.Join(folder, fmt.Sprintf("peer-%d", n.Index)), n.Key, sw.Run, func(put wire.Put) error {
		if err := put("genesis", sw.sealed); err != nil {
			return err
		}
		for _, seat := range sw.check.head().Roster {
			if err := sw.exportLog(sw.byID[seat.Peer], put); err != nil {
				return err
			}
		}
		return sw.exportRun(n, put)
	})
}

func (sw *Swarm) exportLog(n *Node, put wire.Put) error {
	if len(n.heads) == 0 {
		return nil
	}
	l, err := ledger.Open(ledger.Config{KV: n.disk.log, Key: n.Key, Run: sw.Run, Now: sw.Loop.Now})
	if err == nil {
		_, err = l.Export(put.In("logs/" + n.ID.String() + "/"))
	}
	if err != nil {
		return fmt.Errorf("log of peer %d: %w", n.Index, err)
	}
	return nil
}

// exportRun has a peer export the run, which takes virtual time.
func (sw *Swarm) exportRun(n *Node, put wire.Put) error {
	var err error
	done := false
	sw.Loop.Go(func() {
		err = n.life.runner.Export(n.life.ctx, put)
		done = true
	})
	if e := sw.Until(time.Hour, fmt.Sprintf("peer %d exports the run", n.Index), func() bool { return done }); e != nil {
		return e
	}
	return err
}
