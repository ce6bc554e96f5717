package gpbft

import (
	"testing"
	"time"

	"github.com/apiary-net/hived/consensus"
	"github.com/apiary-net/hived/wire"
)

// lie is a vote of node n over any chain, as one gets that signs without asking.
func (s *swarm) lie(n *node, instance, round uint64, chain ...wire.Tip) wire.EngineVote {
	v := wire.Vote{Rank: uint32(n.id), Sig: make([]byte, 64), Vote: wire.VotePayload{Instance: instance, Round: round, Phase: 1, Chain: chain}}
	return wire.EngineVote{Env: wire.Seal(n.key, wire.KindVote, s.run, instance, wire.Marshal(v))}
}

// A voter that names known tips under other round numbers, and many that do not
// exist, neither spoils what the others say nor keeps them from deciding.
func TestLyingTipsAreHarmless(t *testing.T) {
	s := newSwarm(t, []uint32{1, 1, 1, 1}, time.Millisecond, time.Millisecond)
	liar := s.nodes[3]
	liar.dead = true
	base, next := tip(0, "A"), tip(1, "A")
	for i := range 3 {
		wrong, wrongNext := base, next
		wrong.Round, wrongNext.Round = 99, 98
		for k := range 400 { // again and again, for what the honest votes set right
			s.push(s.now.Add(time.Duration(k)*100*time.Microsecond), i, s.lie(liar, 0, 0, wrong, wrongNext), 0)
		}
		for k := range 100 {
			s.push(s.now, i, s.lie(liar, 0, 0, base, tip(1, string(rune('B'+k)))), 0)
		}
	}
	for _, c := range s.decide(0, base, func(int) *wire.Tip { return &next }) {
		if err := Verify(s.run, &c, s.nodes[0].table); err != nil {
			t.Fatal(err)
		}
		if c.Value != next.Record {
			t.Fatal("three honest voters with one proposal did not decide it")
		}
	}
}

// A lie never takes the place of the tip that this voter signs over.
func TestKnownTipsStay(t *testing.T) {
	s := newSwarm(t, []uint32{1, 1, 1, 1}, time.Millisecond, time.Millisecond)
	n, base, next := s.nodes[0], tip(0, "A"), tip(1, "A")
	n.step(wire.EngineStart{Instance: 0, Base: base, Proposal: &next, Table: n.table})
	wrong, wrongNext := base, next
	wrong.Round, wrongNext.Round = 99, 98
	n.step(s.lie(s.nodes[3], 0, 0, wrong, wrongNext))
	for k := range 300 {
		n.step(s.lie(s.nodes[3], 0, 0, base, tip(1, string(rune('B'+k)))))
	}
	in := n.eng.run
	if got := in.tips[keyOf(tipSet(base))]; got != base {
		t.Fatalf("the base became %+v", got)
	}
	if got := in.tips[keyOf(tipSet(next))]; got != next {
		t.Fatalf("the proposal became %+v", got)
	}
	if len(in.tips) > 2+maxTold {
		t.Fatalf("one sender brought in %d tips, limit %d", len(in.tips)-2, maxTold)
	}
}

// What one sender has said for later instances leaves room for the others.
func TestHeldVotesAreSharedOut(t *testing.T) {
	s := newSwarm(t, []uint32{1, 1, 1, 1}, time.Millisecond, time.Millisecond)
	e, base := s.nodes[0].eng, tip(0, "A")
	for round := range uint64(wire.MaxVoteRound) {
		for i := range uint64(consensus.Lookback) {
			e.Step(s.now, s.lie(s.nodes[3], i, round, base))
		}
	}
	if got := len(e.hold); got > maxHeld/wire.MaxVoters {
		t.Fatalf("%d votes of one sender are held, limit %d", got, maxHeld/wire.MaxVoters)
	}
	e.Step(s.now, s.lie(s.nodes[1], 1, 0, base))
	if e.Held(1, s.nodes[0].table) != 2 {
		t.Fatal("an honest voter's vote found no room")
	}
}
