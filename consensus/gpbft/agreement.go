package gpbft

import (
	"time"

	"github.com/apiary-net/hived/consensus"
	"github.com/apiary-net/hived/wire"
)

// Agreement is the engine of one run with the tables of its instances. Calls must be
// serialised.
type Agreement struct {
	run    wire.RunID
	eng    *Engine
	tables consensus.Tables

	asked  led // the last question of Leader
	leader wire.PeerID
}

// NewAgreement returns the agreement of a run that has decided nothing yet.
func NewAgreement(cfg Config) *Agreement { return &Agreement{run: cfg.Run, eng: New(cfg)} }

// led is what a leader depends on: an instance's table does not change while it
// may be asked for.
type led struct {
	seed        wire.Digest
	r, instance uint64
}

// Step runs the engine.
func (a *Agreement) Step(now time.Time, ev wire.EngineEvent) []wire.EngineCommand {
	if v, ok := ev.(wire.EngineVote); ok {
		if t := a.tables.At(v.Env.Round); len(t) > 0 && t.Of(v.Env.Sender) == 0 {
			return nil // no vote of a stranger takes the place of a voter's
		}
	}
	return a.eng.Step(now, ev)
}

// Final tells which record an instance decided; nil for a base decision. The start
// record is told with instance 0 before all others.
func (a *Agreement) Final(instance uint64, r *wire.Record) {
	switch {
	case r == nil:
	case r.Round == 0:
		a.tables.Start(r.Table)
	default:
		a.tables.Decided(instance, r.Table)
	}
}

// Table returns the voters of an instance not older than the newest final one.
func (a *Agreement) Table(instance uint64) wire.Table { return a.tables.At(instance) }

// Leader returns who proposes round r in an instance.
func (a *Agreement) Leader(seed wire.Digest, r, instance uint64) wire.PeerID {
	if q := (led{seed, r, instance}); q != a.asked || a.leader.IsZero() {
		a.asked, a.leader = q, consensus.Leader(seed, r, instance, a.tables.At(instance))
	}
	return a.leader
}

// Held returns the weight of those whose votes for a later instance wait.
func (a *Agreement) Held(instance uint64) uint64 { return a.eng.Held(instance, a.tables.At(instance)) }

// Verify checks a certificate against the table of its instance.
func (a *Agreement) Verify(c *wire.Cert) error { return Verify(a.run, c, a.tables.At(c.Instance)) }
