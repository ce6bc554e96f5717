package decide_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apiary-net/hived/elastic/decide"
	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/elastic/rules/rulestest"
	"github.com/apiary-net/hived/wire"
)

var update = flag.Bool("update", false, "write the outputs of scripts anew")

// TestScripts plays testdata/*.txt: a line that begins in the first column is what
// happens to one peer of a run, the indented lines below it are what it then wants
// done. Peers are numbers in the order of their ids. What the peer says it hears at
// once, as from its runner; what it persists is durable at once.
//
//	peers N [as I] [leader I] [groups N] [preset NAME] [voters N] [seats N]
//	start                       the start record comes
//	after D                     time passes, then a Tick
//	trained | failed            the local work ends
//	header I...  [twin]         headers of peers are heard; twin: a second one
//	body I... [whole | none | REASON]   fetches of bodies end
//	have I... [but J STATE]     HAVEs of peers for all headers heard so far
//	proposal [by I]             the leader's proposal is heard
//	decided [base] [unseen]     the next instance ends
//	applied R | attest R I...   versions
//	ready I... | leave I... | stop | up I... | down I... | due I... | leaving | restart
//	group-have I... | cut I | merged | group-vote I... | result G | result-body G
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d scripts: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(text))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			differ(t, string(text), got)
		})
	}
}

// differ reports the first line in which two scripts differ.
func differ(t *testing.T, want, got string) {
	t.Helper()
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		a, b := "", ""
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			t.Fatalf("line %d is\n%s\nwant\n%s", i+1, b, a)
		}
	}
}

// play returns the script with the outputs that it has now.
func play(t *testing.T, text string) string {
	var out strings.Builder
	s := &script{t: t, bodies: map[wire.Digest]int{}}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "    ") {
			continue
		}
		out.WriteString(line + "\n")
		if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
			s.out = nil
			s.do(words[0], words[1:])
			for _, l := range s.out {
				out.WriteString("    " + l + "\n")
			}
		}
	}
	return out.String()
}

// script is one peer of a run, played.
type script struct {
	t        *testing.T
	b        *rulestest.Swarm
	m        *decide.Machine
	cfg      decide.MachineConfig
	self     int
	begun    time.Time
	now      time.Time
	headers  []wire.Envelope // heard in the open round
	bodies   map[wire.Digest]int
	haves    []wire.Envelope
	extra    rules.Inputs // READYs and the like that were heard
	proposal *wire.Record
	instance uint64
	kept     map[string]wire.Envelope // sign-once slots
	views    []*rules.GroupView
	results  []wire.GroupResult
	out      []string
}

// electorate is an agreement in which every instance has the head's table and one
// leader.
type electorate struct {
	s      *script
	leader int // index; negative: the own peer
}

func (e electorate) Table(uint64) wire.Table { return e.s.b.History.Head().Table }
func (e electorate) Leader(wire.Digest, uint64, uint64) wire.PeerID {
	return e.s.b.Keys[e.leader].Peer()
}
func (e electorate) Held(uint64) uint64 { return 0 }

// peers makes the run.
func (s *script) peers(words []string) {
	n, opt := number(s.t, words[0]), options(s.t, words[1:])
	s.self = opt.num(s.t, "as", 0)
	s.b = rulestest.New(n, func(g *wire.Genesis) {
		if p := opt["preset"]; p != "" {
			preset, err := rules.PresetNamed(p)
			if err != nil {
				s.t.Fatal(err)
			}
			g.Preset = preset.Preset
			g.Preset.Inner.Batch, g.Preset.Cadence.Steps = 4, 30
		}
		if t := opt["topology"]; t != "" {
			g.Preset.Topology = t
		}
		g.Group = uint32(opt.num(s.t, "groups", wire.MaxMembers))
		g.MinPeers = uint32(opt.num(s.t, "min", n))
		g.Rounds = uint64(opt.num(s.t, "rounds", 100))
	})
	s.begun = time.Unix(1_700_000_000, 0)
	s.now, s.kept = s.begun, map[string]wire.Envelope{}
	var parts []wire.Part
	for i := range opt.num(s.t, "parts", 1) {
		parts = append(parts, wire.Part{Lo: i * 10, Hi: i*10 + 10})
	}
	s.cfg = decide.MachineConfig{Genesis: s.b.Genesis, Run: s.b.Run, Self: s.b.Keys[s.self].Peer(), Parts: parts,
		Voters: electorate{s, opt.num(s.t, "leader", n-1)}, Rand: rand.New(rand.NewPCG(1, 2)), LastHave: s.lastHave}
	s.m = decide.NewMachine(s.cfg)
	s.step(decide.Applied{Version: s.b.History.Head().Certified.Version})
}

func (s *script) lastHave(kind wire.Kind, round uint64) *wire.Have {
	e, ok := s.kept[decide.Slot(kind.String(), round)]
	if !ok {
		return nil
	}
	h, err := wire.Read[wire.Have](e)
	if err != nil {
		s.t.Fatal(err)
	}
	return h
}

// step feeds an event and does what is wanted as far as it concerns the machine.
func (s *script) step(ev decide.Event) {
	for _, c := range s.m.Step(s.now, ev) {
		s.out = append(s.out, s.show(c))
		switch c := c.(type) {
		case decide.Say:
			s.said(c)
		case decide.PersistRecord:
			if c.Record.Round > 0 {
				s.b.History = s.b.History.With(c.Record)
			}
			if c.Cert != nil {
				s.instance = c.Cert.Instance + 1
			}
			s.headers, s.haves, s.proposal, s.extra, s.views, s.results = nil, nil, nil, rules.Inputs{}, nil, nil
			s.step(decide.Persisted{})
		case decide.PersistCert:
			s.instance, s.proposal = c.Cert.Instance+1, nil
			s.step(decide.Persisted{})
		case decide.MergeGroup:
			s.views = append(s.views, c.View)
		}
	}
}

// said signs a statement, or takes the one that its slot holds, and hears it.
func (s *script) said(c decide.Say) {
	e, ok := s.kept[c.Slot]
	if c.Slot == "" || c.Latest || !ok {
		e = wire.Seal(s.b.Keys[s.self], c.Kind, s.b.Run, c.Round, c.Body)
		s.kept[c.Slot] = e
	}
	s.hear(e)
}

// hear has the machine hear a statement and notes what proposals are made of.
func (s *script) hear(e wire.Envelope) {
	switch e.Kind {
	case wire.KindHeader:
		if !slices.ContainsFunc(s.headers, func(o wire.Envelope) bool { return o.Digest() == e.Digest() }) {
			s.headers = append(s.headers, e)
		}
	case wire.KindHave:
		s.haves = append(s.haves[:0:0], append(without(s.haves, e.Sender), e)...)
	case wire.KindReady:
		s.extra.Readys = append(without(s.extra.Readys, e.Sender), e)
	case wire.KindLeave:
		s.extra.Leaves = append(s.extra.Leaves, e)
	case wire.KindStop:
		s.extra.Stops = append(s.extra.Stops, e)
	case wire.KindProposal:
		if r, err := wire.OpenRecord(e.Body); err == nil && r.Round > 0 {
			s.proposal = r
		}
	}
	s.step(decide.Heard{Env: e})
}

func without(list []wire.Envelope, p wire.PeerID) (out []wire.Envelope) {
	for _, e := range list {
		if e.Sender != p {
			out = append(out, e)
		}
	}
	return out
}

// named are the options of a line: pairs of a name and a value.
type named map[string]string

func options(t *testing.T, words []string) named {
	t.Helper()
	if len(words)%2 != 0 {
		t.Fatalf("options come in pairs: %v", words)
	}
	out := named{}
	for i := 0; i < len(words); i += 2 {
		out[words[i]] = words[i+1]
	}
	return out
}

func (o named) num(t *testing.T, name string, otherwise int) int {
	t.Helper()
	if v, ok := o[name]; ok {
		return number(t, v)
	}
	return otherwise
}

func number(t *testing.T, word string) int {
	t.Helper()
	n, err := strconv.Atoi(word)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// split returns the leading numbers of a line, all peers for none, and the words after
// them.
func (s *script) split(words []string) (peers []int, rest []string) {
	for i, w := range words {
		n, err := strconv.Atoi(w)
		if err != nil {
			return peers, words[i:]
		}
		peers = append(peers, n)
	}
	return peers, nil
}

// peer returns a peer's number.
func (s *script) peer(p wire.PeerID) string {
	if i := s.b.Index(p); i >= 0 {
		return strconv.Itoa(i)
	}
	return "a stranger"
}

func (s *script) list(ps []wire.PeerID) string {
	var out []string
	for _, p := range ps {
		out = append(out, s.peer(p))
	}
	return strings.Join(out, " ")
}

// headerOf names a header or result by whose it is.
func (s *script) headerOf(d wire.Digest) string {
	n := 0
	for _, e := range s.headers {
		if e.Digest() == d {
			return s.peer(e.Sender)
		}
		n++
	}
	for _, r := range s.results {
		if r.Outcome.Digest() == d {
			return fmt.Sprintf("group-%d", r.Outcome.Group)
		}
	}
	return "unknown"
}

func bits(b []byte) string {
	var out []string
	for i := range 8 * len(b) {
		if b[i/8]&(1<<(i%8)) != 0 {
			out = append(out, strconv.Itoa(i))
		}
	}
	return strings.Join(out, " ")
}
