package consensus

import (
	"encoding/binary"
	"time"

	"github.com/apiary-net/hived/wire"
)

// Lookback is how many instances a change of the table waits: instance i uses
// the table of the last record decided at or before instance i-Lookback.
const Lookback = 5

// Engine decides one instance after the other. Calls must be serialised.
type Engine interface {
	Step(now time.Time, ev wire.EngineEvent) []wire.EngineCommand
	// Instance returns the running instance and whether one is running.
	Instance() (uint64, bool)
}

// Leader returns who proposes record r in an instance: the voter with the least
// digest of (seed, r, instance, peer). It panics on an empty table.
func Leader(seed wire.Digest, r, instance uint64, table wire.Table) wire.PeerID {
	if len(table) == 0 {
		panic("consensus: leader of an empty table")
	}
	peers := make([]wire.PeerID, len(table))
	for i, p := range table {
		peers[i] = p.Peer
	}
	key := binary.BigEndian.AppendUint64(seed[:], r)
	return wire.Draw("hived/leader/v1\n", binary.BigEndian.AppendUint64(key, instance), peers)[0]
}

// Tables remembers at which instance each record's table was decided and
// tells the table of any instance. The zero value is empty.
type Tables struct {
	rows []tableRow // ascending by instance
}

type tableRow struct {
	instance uint64 // that decided it; the start record counts as before all
	first    bool
	table    wire.Table
}

// Start sets the table of the start record, which all instances up to
// Lookback use.
func (b *Tables) Start(t wire.Table) {
	b.rows = []tableRow{{first: true, table: t}}
}

// Decided adds the table of the record that an instance decided. Instances must
// ascend.
func (b *Tables) Decided(instance uint64, t wire.Table) {
	b.rows = append(b.rows, tableRow{instance: instance, table: t})
	// Only rows that a future instance can still use are kept.
	for len(b.rows) > 2 && b.rows[1].instance+Lookback <= instance {
		b.rows = b.rows[1:]
	}
}

// At returns the table of an instance that is not older than the newest decided
// one.
func (b *Tables) At(instance uint64) wire.Table {
	var t wire.Table
	for _, r := range b.rows {
		if r.first || r.instance+Lookback <= instance {
			t = r.table
		}
	}
	return t
}
