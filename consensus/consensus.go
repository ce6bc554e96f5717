package consensus

import (
	"encoding/binary"
	"time"

	"github.com/apiary-net/hived/wire"
)

// Lookback is how many instances a change of the table waits: instance i uses
// the table of the last record decided at or before instance i-Lookback.
const Lookback = 5

// Event is something that happened to an engine: Start, Message, Alarm or
// Rebroadcast.
type Event interface{ event() }

// Start begins an instance. A nil Proposal votes for the base alone.
type Start struct {
	Instance uint64
	Base     wire.Tip
	Proposal *wire.Tip
	Table    wire.Table // that the instance uses
}

// Message is a vote whose envelope was opened.
type Message struct{ Env wire.Envelope }

// Alarm says that the time of the last SetAlarm has come.
type Alarm struct{}

// Rebroadcast asks for all own votes of the running instance again, for a peer
// that has just connected.
type Rebroadcast struct{}

func (Start) event()       {}
func (Message) event()     {}
func (Alarm) event()       {}
func (Rebroadcast) event() {}

// Command is something that an engine wants done: Persist, Send, SetAlarm or
// Decide.
type Command interface{ command() }

// Persist stores a sign-once slot; it is durable before any later command of
// the batch starts.
type Persist struct{ Slot, Value []byte }

// Send gives a vote of an instance to every voter. Body goes into an envelope
// of kind vote whose round is the instance.
type Send struct {
	Instance uint64
	Body     []byte
}

// SetAlarm replaces the alarm.
type SetAlarm struct{ At time.Time }

// Decide reports the end of the instance.
type Decide struct{ Cert wire.Cert }

func (Persist) command()  {}
func (Send) command()     {}
func (SetAlarm) command() {}
func (Decide) command()   {}

// Engine decides one instance after the other. Calls must be serialised.
type Engine interface {
	Step(now time.Time, ev Event) []Command
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

// TableBook remembers at which instance each record's table was decided and
// tells the table of any instance. The zero value is empty.
type TableBook struct {
	rows []tableRow // ascending by instance
}

type tableRow struct {
	instance uint64 // that decided it; the start record counts as before all
	first    bool
	table    wire.Table
}

// Start sets the table of the start record, which all instances up to
// Lookback use.
func (b *TableBook) Start(t wire.Table) {
	b.rows = []tableRow{{first: true, table: t}}
}

// Decided adds the table of the record that an instance decided. Instances must
// ascend.
func (b *TableBook) Decided(instance uint64, t wire.Table) {
	b.rows = append(b.rows, tableRow{instance: instance, table: t})
	// Only rows that a future instance can still use are kept.
	for len(b.rows) > 2 && b.rows[1].instance+Lookback <= instance {
		b.rows = b.rows[1:]
	}
}

// At returns the table of an instance that is not older than the newest decided
// one.
func (b *TableBook) At(instance uint64) wire.Table {
	var t wire.Table
	for _, r := range b.rows {
		if r.first || r.instance+Lookback <= instance {
			t = r.table
		}
	}
	return t
}
