package live

import (
	"context"
	"time"

	"github.com/apiary-net/hived/daemon"
	"github.com/apiary-net/hived/netsim"
)

// askFor bounds one question to a daemon.
const askFor = 10 * time.Second

// look asks the next machine that runs for what is new.
func (p *player) look(ctx context.Context) {
	for range p.machines {
		m := p.machines[p.turn%len(p.machines)]
		p.turn++
		if m.up && !m.paused {
			p.ask(ctx, m)
			p.readRounds(ctx, m)
			p.readHead(ctx, m)
			return
		}
	}
}

// ask refreshes what is known of a machine. A daemon that does not answer now is
// asked again later.
func (p *player) ask(ctx context.Context, m *machine) {
	if !m.paused {
		p.askOn(ctx, m, m.Client())
	}
}

func (p *player) askOn(ctx context.Context, m *machine, c *daemon.Client) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	var s daemon.RunStatus
	if c.Get(ctx, "/api/v1/runs/"+p.run, &s) == nil {
		m.status, m.finished = s, s.State == "finished"
	}
}

// readRounds takes the rounds that a machine knows and nobody told before.
func (p *player) readRounds(ctx context.Context, m *machine) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	_ = m.Client().Rounds(ctx, p.run, p.head+1, false, func(l daemon.RoundLine) { // it may be gone
		if l.Round <= p.head {
			return
		}
		now := time.Now()
		e := netsim.Event{Ms: p.since().Milliseconds(), Kind: "decided", Peer: m.index, Round: l.Round, Record: l.Record, Loss: l.Loss, TookMs: now.Sub(p.headAt).Milliseconds()}
		p.head, p.headAt, p.rounds[l.Round] = l.Round, now, now
		p.events = append(p.events, e)
		if p.cfg.Progress != nil {
			p.cfg.Progress(netsim.Progress{Round: l.Round, Rounds: p.s.Swarm.Rounds, Kills: p.kills, Virtual: p.since()})
		}
		p.faults.Decided(l.Round)
	})
}

// maxHeads bounds the heads that are kept of a log.
const maxHeads = 512

// readHead notes how long a machine's log is now.
func (p *player) readHead(ctx context.Context, m *machine) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	var h daemon.LedgerHead
	if m.Client().Get(ctx, "/api/v1/runs/"+p.run+"/ledger", &h) != nil || h.Size == 0 {
		return
	}
	if n := len(m.heads); n > 0 && h.Size < m.heads[n-1].size {
		p.fail(netsim.CheckLogs, "the log of peer %d has %d entries after %d", m.index, h.Size, m.heads[n-1].size)
	}
	if len(m.heads) == maxHeads {
		m.heads = append(m.heads[:1], m.heads[2:]...)
	}
	m.heads = append(m.heads, head{h.Size, h.Root})
}

// book asks a daemon that is about to end what it did, and adds it up.
func (p *player) book(ctx context.Context, m *machine) {
	p.ask(ctx, m)
	p.enter(m)
}

// enter adds up what a life said last.
func (p *player) enter(m *machine) {
	p.dones += m.status.Steps
	p.payload += m.status.Bytes.Payload
	p.control += m.status.Bytes.Control
	p.uptime += time.Since(m.since)
	m.status.Steps, m.status.Bytes.Payload, m.status.Bytes.Control = 0, 0, 0
}

// allFinished reports whether every daemon that runs has ended the run.
func (p *player) allFinished(ctx context.Context) bool {
	if p.s.Swarm.Rounds == 0 || p.head < p.s.Swarm.Rounds {
		return false
	}
	for _, m := range p.machines {
		if m.busy {
			return false
		}
		if m.up && !m.finished {
			if p.ask(ctx, m); !m.finished {
				return false
			}
		}
	}
	return true
}

// watchHang looks for a round that is open past its bound while two thirds of all
// machines that ever ran are up and can talk to each other: tables hold no others.
func (p *player) watchHang() {
	total, most := 0, 0
	for _, a := range p.machines {
		if a.lives == 0 {
			continue
		}
		total++
		n := 0
		for _, b := range p.machines {
			if a.up && !a.paused && b.up && !b.paused && !p.cuts[pair(a.index, b.index)] {
				n++
			}
		}
		most = max(most, n)
	}
	now := time.Now()
	if 3*most < 2*total {
		p.quorum = time.Time{}
		return
	}
	if p.quorum.IsZero() {
		p.quorum = now
	}
	since := p.headAt
	if p.quorum.After(since) {
		since = p.quorum
	}
	if p.head > 0 && p.head == p.s.Swarm.Rounds || p.hung > 0 || now.Sub(since) <= p.bound() {
		return
	}
	p.hung = 1
	p.note("hung", 0, "")
	p.fail(netsim.CheckHang, "round %d has been open for %v with a quorum up", p.head+1, now.Sub(since).Round(time.Second))
}
