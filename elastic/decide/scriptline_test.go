package decide_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/apiary-net/hived/elastic/decide"
	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/elastic/rules/rulestest"
	"github.com/apiary-net/hived/wire"
)

// do plays one line of a script.
func (s *script) do(verb string, words []string) {
	peers, rest := s.split(words)
	each := func(f func(i int)) {
		for _, i := range peers {
			f(i)
		}
	}
	switch verb {
	case "peers":
		s.peers(words)
	case "start":
		s.step(decide.Started{Record: s.b.History.Head()})
	case "after":
		d, err := time.ParseDuration(words[0])
		if err != nil {
			s.t.Fatal(err)
		}
		s.now = s.now.Add(d)
		s.step(decide.Tick{})
	case "trained":
		h, err := wire.Read[wire.Header](s.b.Header(s.self, nil))
		if err != nil {
			s.t.Fatal(err)
		}
		s.step(decide.Trained{Round: s.round(), Header: *h})
	case "failed":
		s.step(decide.TrainFailed{Round: s.round(), Err: fmt.Errorf("no space")})
	case "header":
		each(func(i int) {
			s.hear(s.b.Header(i, func(h *wire.Header) {
				if len(rest) > 0 { // a twin
					h.Root = wire.Sum([]byte("another"))
				}
			}))
		})
	case "body":
		each(func(i int) { s.body(i, rest) })
	case "have":
		each(func(i int) { s.have(i, rest) })
	case "up", "down":
		each(func(i int) { s.step(decide.Connected{Peer: s.b.Keys[i].Peer(), Up: verb == "up"}) })
	case "due":
		s.step(decide.Due{Connected: s.ids(peers)})
	case "pulled":
		each(func(i int) { s.step(decide.Pulled{Peer: s.b.Keys[i].Peer()}) })
	case "leaving":
		s.step(decide.Leaving{Alone: len(rest) > 0})
	case "restart":
		s.restart(peers)
	default:
		s.doSigned(verb, words, peers, rest)
	}
}

// doSigned plays a line about records, versions and statements.
func (s *script) doSigned(verb string, words []string, peers []int, rest []string) {
	seal := func(i int, k wire.Kind, round uint64, body any) {
		s.hear(wire.Seal(s.b.Keys[i], k, s.b.Run, round, body))
	}
	head := s.b.History.Head()
	switch verb {
	case "proposal":
		by := s.b.Index(s.cfg.Voters.Leader(head.Seed, 0, 0))
		if len(rest) > 0 {
			by = number(s.t, rest[1])
		}
		seal(by, wire.KindProposal, s.instance, s.compose())
	case "decided":
		s.decided(rest)
	case "applied":
		s.step(decide.Applied{Round: uint64(peers[0]), Version: version(peers[0])})
	case "attest":
		for _, i := range peers[1:] {
			seal(i, wire.KindAttest, uint64(peers[0]), &wire.Attest{Version: version(peers[0])})
		}
	case "ready":
		for _, i := range peers {
			seal(i, wire.KindReady, head.Round, &wire.Ready{Version: head.Certified.Version, Schema: s.b.Genesis.Schema, Data: s.b.Genesis.Data[0].Root})
		}
	case "leave":
		for _, i := range peers {
			seal(i, wire.KindLeave, s.round(), &wire.Leave{Reason: "stopped"})
		}
	case "stop":
		seal(peers[0], wire.KindStop, 0, &wire.Stop{})
	case "later":
		for _, i := range peers { // a HAVE of the round after the open one
			seal(i, wire.KindHave, s.round()+1, &wire.Have{Seq: 1, Items: []wire.HaveItem{}})
		}
	default:
		s.doGroups(verb, peers)
	}
	_ = words
}

// doGroups plays a line about a round of several groups.
func (s *script) doGroups(verb string, peers []int) {
	plan := rules.MakePlan(s.b.Genesis, s.b.History)
	switch verb {
	case "members":
		for g, members := range plan.Groups {
			s.out = append(s.out, fmt.Sprintf("group %d: %s, led by %s", g, s.list(members), s.list(rules.GroupLeaders(s.b.History.Head().Seed, members))))
		}
	case "group-have":
		for _, i := range peers {
			s.hear(s.b.GroupHave(i, s.headers))
		}
	case "cut":
		group := plan.GroupOf(s.b.Keys[peers[0]].Peer())
		headers, haves := s.b.GroupInputs(plan, group)
		v, err := s.b.Setting(plan).ComposeGroup(group, headers, haves)
		if err != nil {
			s.t.Fatal(err)
		}
		s.hear(wire.Seal(s.b.Keys[peers[0]], wire.KindGroupCut, s.b.Run, plan.Round, &v.Cut))
	case "merged":
		v := s.views[0]
		s.step(decide.GroupMerged{Round: plan.Round, Cut: v.Outcome.Cut, Merged: merged(v.Outcome.Group), Nonces: wire.Sum([]byte{byte(v.Outcome.Group)})})
	case "group-vote":
		o := s.views[0].Outcome
		o.Merged, o.Nonces = merged(o.Group), wire.Sum([]byte{byte(o.Group)})
		for _, i := range peers {
			s.hear(wire.Seal(s.b.Keys[i], wire.KindGroupVote, s.b.Run, plan.Round, &wire.GroupVote{Outcome: o.Digest()}))
		}
	case "result":
		for _, g := range peers {
			r := s.b.Result(s.t, plan, g, len(plan.Groups[g]), nil)
			s.results = append(s.results, r)
			s.hear(wire.Seal(s.b.Keys[s.b.Index(plan.Groups[g][0])], wire.KindGroup, s.b.Run, plan.Round, &r))
		}
	case "result-body":
		for _, g := range peers {
			for _, r := range s.results {
				if int(r.Outcome.Group) == g {
					s.step(decide.BodyChecked{Header: r.Outcome.Digest(), Whole: true})
				}
			}
		}
	default:
		s.t.Fatalf("no such line: %s", verb)
	}
}

func version(round int) wire.CID   { return wire.ManifestCID(fmt.Appendf(nil, "version %d", round)) }
func merged(group uint32) wire.CID { return wire.ManifestCID(fmt.Appendf(nil, "merged %d", group)) }

// round returns the open round.
func (s *script) round() uint64 { return s.b.History.Head().Round + 1 }

func (s *script) ids(peers []int) []wire.PeerID {
	out := []wire.PeerID{}
	for _, i := range peers {
		out = append(out, s.b.Keys[i].Peer())
	}
	return out
}

// body ends the fetch of a peer's bodies: whole, none, or bad for a reason.
func (s *script) body(i int, rest []string) {
	for _, e := range s.headers {
		if e.Sender != s.b.Keys[i].Peer() {
			continue
		}
		ev := decide.BodyChecked{Header: e.Digest(), Whole: true, Nonce: rulestest.NonceFor(s.b.Keys[i], s.round())}
		switch {
		case len(rest) == 0:
		case rest[0] == "none":
			ev.Whole, ev.Nonce = false, nil
		case rest[0] == "bad":
			ev.Whole, ev.Nonce, ev.Reason = false, nil, wire.ReasonNonFinite
		case rest[0] == "parts":
			ev.Parts = make([]byte, (len(s.cfg.Parts)+7)/8)
			for _, w := range rest[1:] {
				p := number(s.t, w)
				ev.Parts[p/8] |= 1 << (p % 8)
			}
		case rest[0] == "steps":
			for k := range number(s.t, rest[1]) {
				ev.Merged = append(ev.Merged, wire.ManifestCID([]byte{byte(k)}))
			}
		}
		s.step(ev)
	}
}

// have has a peer say that it holds all headers heard so far, but some of them only
// in another state: `but J late`, `but J bad`, `but J unknown`.
func (s *script) have(i int, rest []string) {
	other := map[wire.Digest]wire.HaveItem{}
	for k := 0; k+2 < len(rest); k += 3 {
		for _, e := range s.headers {
			if e.Sender == s.b.Keys[number(s.t, rest[k+1])].Peer() {
				other[e.Digest()] = map[string]wire.HaveItem{"seen": {State: wire.HaveSeen}, "bad": {State: wire.HaveRefused, Reason: wire.ReasonNonFinite}, "unknown": {}}[rest[k+2]]
			}
		}
	}
	s.hear(s.b.Have(i, s.headers, other))
}

// compose makes the record that the statements heard so far give.
func (s *script) compose() *wire.Record {
	in := s.extra
	in.Headers, in.Haves = append([]wire.Envelope{}, s.headers...), append([]wire.Envelope{}, s.haves...)
	r, err := rules.Compose(s.b.Genesis, s.b.Run, s.b.History, in)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// decided ends the next instance: with the proposal, for the base, or with a record
// that this peer has not seen.
func (s *script) decided(rest []string) {
	head := s.b.History.Head()
	c := wire.Cert{V: 1, Instance: s.instance, BaseRound: head.Round, Base: head.Digest(), Round: head.Round}
	kind := strings.Join(rest, " ")
	if kind == "base" {
		s.step(decide.Decided{Cert: c})
		return
	}
	r := s.proposal
	if r == nil {
		r = s.compose()
	}
	c.Round, c.Value = r.Round, r.Digest()
	ev := decide.Decided{Cert: c}
	if kind == "" {
		ev.Record = r
	}
	s.step(ev)
}

// restart begins another life on what the first one made durable.
func (s *script) restart(connected []int) {
	head := s.b.History.Head()
	s.m = decide.NewMachine(s.cfg)
	s.m.Restore(s.now, s.b.History, s.instance, version(0), head.Round, version(int(head.Round)))
	s.step(decide.Begun{Connected: s.ids(connected)})
}
