package daemon

import (
	"log/slog"
	"time"

	"github.com/apiary-net/hived/consensus"
	"github.com/apiary-net/hived/consensus/gpbft"
	"github.com/apiary-net/hived/elastic"
	"github.com/apiary-net/hived/wire"
)

// NewAgreement returns elastic's Agreement of one run. slot returns the value of
// a sign-once slot that an earlier life persisted, or nil.
func NewAgreement(run wire.RunID, key wire.Key, slot func([]byte) []byte, log *slog.Logger) elastic.Agreement {
	return &agreement{run: run, eng: gpbft.New(gpbft.Config{Key: key, Run: run, Slot: slot, Logger: log})}
}

// agreement makes a GPBFT engine and the book of tables elastic's Agreement.
type agreement struct {
	run  wire.RunID
	eng  *gpbft.Engine
	book consensus.TableBook

	asked  led // the last question of Leader
	leader wire.PeerID
}

// led is what a leader depends on: an instance's table does not change while it
// may be asked for.
type led struct {
	seed        wire.Digest
	r, instance uint64
}

func (a *agreement) Step(now time.Time, ev elastic.AgreeEvent) []elastic.AgreeCommand {
	var in consensus.Event
	switch {
	case ev.Start != nil:
		s := consensus.Start{Instance: ev.Start.Instance, Base: wire.TipOf(ev.Start.Base), Table: a.book.At(ev.Start.Instance)}
		if ev.Start.Proposal != nil {
			t := wire.TipOf(ev.Start.Proposal)
			s.Proposal = &t
		}
		in = s
	case ev.Vote != nil:
		if t := a.book.At(ev.Vote.Round); len(t) > 0 && t.Of(ev.Vote.Sender) == 0 {
			return nil // no vote of a stranger takes the place of a voter's
		}
		in = consensus.Message{Env: *ev.Vote}
	case ev.Rebroadcast:
		in = consensus.Rebroadcast{}
	default:
		in = consensus.Alarm{}
	}
	var out []elastic.AgreeCommand
	for _, c := range a.eng.Step(now, in) {
		switch c := c.(type) {
		case consensus.Persist:
			out = append(out, elastic.AgreeCommand{Persist: [][2][]byte{{append([]byte("slot/"), c.Slot...), c.Value}}})
		case consensus.Send:
			out = append(out, elastic.AgreeCommand{Vote: c.Body, Instance: c.Instance})
		case consensus.SetAlarm:
			out = append(out, elastic.AgreeCommand{Alarm: c.At})
		case consensus.Decide:
			out = append(out, elastic.AgreeCommand{Cert: &c.Cert})
		}
	}
	return out
}

func (a *agreement) Final(instance uint64, r *wire.Record) {
	switch {
	case r == nil:
	case r.Round == 0:
		a.book.Start(r.Table)
	default:
		a.book.Decided(instance, r.Table)
	}
}

func (a *agreement) Table(instance uint64) wire.Table { return a.book.At(instance) }

func (a *agreement) Leader(seed wire.Digest, r, instance uint64) wire.PeerID {
	if q := (led{seed, r, instance}); q != a.asked || a.leader.IsZero() {
		a.asked, a.leader = q, consensus.Leader(seed, r, instance, a.book.At(instance))
	}
	return a.leader
}

func (a *agreement) Held(instance uint64) uint64 { return a.eng.Held(instance, a.book.At(instance)) }

func (a *agreement) Verify(c *wire.Cert) error { return gpbft.Verify(a.run, c, a.book.At(c.Instance)) }
