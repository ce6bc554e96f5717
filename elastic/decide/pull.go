package decide

import (
	"time"

	"github.com/apiary-net/hived/wire"
)

// Round state is also pulled: what was lost on its way is asked for, on each new
// connection and every second while a round is open.

// pullInterval is how often somebody is asked for what is lacking. It is asked for
// out of turn at most twice as often.
const pullInterval = time.Second

// waitingAfter is how long after its deadline a round is late enough for people to be
// told.
const waitingAfter = 2 * time.Second

// due says for whom an overdue round waits, and asks somebody for what is lacking.
func (m *Machine) due(now time.Time, connected []wire.PeerID) []Command {
	var out []Command
	if p := m.round.plan; p != nil {
		if since := now.Sub(m.learnt); since >= p.Deadline+waitingAfter {
			peers, voters := m.missing()
			out = append(out, Waiting{Round: p.Round, Peers: peers, Voters: voters, Since: since})
		}
	}
	if m.tooEarly(now) || now.Sub(m.pulled) < pullInterval/2 {
		return out
	}
	if peers := m.sources(connected, now); len(peers) > 0 {
		out = append(out, m.pull(now, peers[m.cfg.Rand.IntN(len(peers))])...)
	}
	return out
}

// pull asks p for what is lacking. While it is being asked it is asked again when
// that has ended.
func (m *Machine) pull(now time.Time, p wire.PeerID) []Command {
	if _, busy := m.pulling[p]; busy {
		m.pulling[p] = true
		return nil
	}
	m.pulling[p], m.pulled = false, now
	req := wire.PullRequest{Run: m.cfg.Run, Instance: m.next, Composes: m.composes()}
	if h := m.Head(); h != nil {
		req.Next = h.Round + 1
	}
	for i, e := range m.Known() {
		if i == wire.MaxKnown {
			break
		}
		d := e.Digest()
		req.Known = append(req.Known, d[:8])
	}
	return []Command{Pull{Peer: p, Request: req}}
}

// endPull books the end of a pull.
func (m *Machine) endPull(now time.Time, p wire.PeerID) []Command {
	again := m.pulling[p]
	delete(m.pulling, p)
	if !again {
		return nil
	}
	return m.pull(now, p)
}
