package daemon

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/apiary-net/hived/elastic"
	"github.com/apiary-net/hived/elastic/decide"
	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/wire"
)

// progress is what a run has done, for people: the newest rounds and totals.
type progress struct {
	mu       sync.Mutex
	rounds   []RoundLine // newest last, at most maxRounds
	decide   []float64   // milliseconds of the newest decisions
	payload  uint64
	counted  uint64
	expected uint64
	waiting  *decide.Waiting
	trouble  error
	changed  chan struct{} // closed and replaced at each change
}

const maxRounds = 1024

// RoundLine is one decided round as a line for people and as JSON.
type RoundLine struct {
	Round    uint64            `json:"round"`
	Counted  int               `json:"counted"`
	Expected int               `json:"expected"`
	Seconds  float64           `json:"seconds"`
	DecideMs float64           `json:"decide_ms"`
	Loss     float64           `json:"loss"`
	Missing  map[string]string `json:"missing,omitempty"`
	Record   string            `json:"record"`
	Text     string            `json:"text"`
}

// maxNamed is how many peers a line names that did not count.
const maxNamed = 8

// lineOf reads a decided record: counts and reasons come from it alone.
func lineOf(rec *wire.Record, took, decide time.Duration) RoundLine {
	l := RoundLine{Round: rec.Round, Expected: len(rec.Cut), Counted: rec.CountedPeers(), Seconds: took.Seconds(),
		DecideMs: float64(decide.Microseconds()) / 1000, Record: rec.Digest().String()}
	loss, samples := rules.MeanLoss(rec)
	l.Loss = loss
	var why []string
	for _, v := range rec.Cut {
		if v.Status == wire.Counted {
			continue
		}
		reason := v.Status.String()
		if v.Reason != wire.ReasonNone {
			reason += " " + v.Reason.String()
		}
		if l.Missing == nil {
			l.Missing = map[string]string{}
		}
		l.Missing[v.Peer.String()] = reason
		why = append(why, v.Peer.Short()+": "+reason)
	}
	l.Text = fmt.Sprintf("round %-4d %d/%d counted  %.1f s", l.Round, l.Counted, l.Expected, l.Seconds)
	if samples > 0 {
		l.Text += fmt.Sprintf("  loss %.3f", l.Loss)
	}
	if n := len(why); n > maxNamed {
		why = append(why[:maxNamed], fmt.Sprintf("and %d more", n-maxNamed))
	}
	if len(why) > 0 {
		l.Text += "  (" + strings.Join(why, ", ") + ")"
	}
	return l
}

// observe is called from the run's loop.
func (r *run) observe(i elastic.Info) {
	p := &r.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case i.Round != nil:
		rec := i.Round.Record
		p.waiting = nil
		r.net.setMembers(rec.Roster)
		if rec.Round == 0 {
			r.d.log.Info("run started", "run", r.genesis.Name, "members", len(rec.Roster), "voters", len(rec.Table))
			break
		}
		l := lineOf(rec, i.Round.Took, i.Round.Decide)
		p.rounds = append(p.rounds, l)
		if len(p.rounds) > maxRounds {
			p.rounds = p.rounds[1:]
		}
		if i.Round.Decide > 0 {
			p.decide = append(p.decide, l.DecideMs)
			if len(p.decide) > maxRounds {
				p.decide = p.decide[1:]
			}
		}
		p.payload += i.Round.Bytes
		p.counted += uint64(l.Counted)
		p.expected += uint64(l.Expected)
		r.d.metrics.round(r, rec, i.Round)
		r.d.log.Info(l.Text, "run", r.genesis.Name)
	case i.Waiting != nil:
		if p.waiting == nil {
			r.d.log.Warn(waitText(i.Waiting), "run", r.genesis.Name)
		}
		p.waiting = i.Waiting
	case i.Trouble != nil:
		p.trouble = i.Trouble.Err
	case i.Finished != nil:
		r.d.log.Info("finished", "run", r.genesis.Name, "round", i.Finished.Round)
	}
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

func shorts(ps []wire.PeerID) string {
	out := make([]string, len(ps))
	for i, p := range ps {
		out[i] = p.Short()
	}
	return strings.Join(out, ", ")
}

// waitText says for whom a round waits.
func waitText(w *decide.Waiting) string {
	s := fmt.Sprintf("round %d waits since %.0f s", w.Round, w.Since.Seconds())
	if len(w.Peers) > 0 {
		s += "; no contribution of " + shorts(w.Peers)
	}
	if len(w.Voters) > 0 {
		s += "; no word of the voters " + shorts(w.Voters)
	}
	return s
}

// since returns the rounds from number lo on, and a channel that is closed when
// there is more.
func (p *progress) since(lo uint64) ([]RoundLine, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []RoundLine
	for _, l := range p.rounds {
		if l.Round >= lo {
			out = append(out, l)
		}
	}
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return out, p.changed
}
