//go:build invariants || race

package decide

import (
	"strings"
	"testing"
	"time"

	"github.com/apiary-net/hived/wire"
)

// A machine whose books differ panics in the next Step, and says what differs.
func TestInvariantsOfAMachine(t *testing.T) {
	one, two := &offer{item: wire.HaveItem{Header: wire.Digest{1}, State: wire.HaveWhole}}, &offer{item: wire.HaveItem{Header: wire.Digest{2}, State: wire.HaveSeen}}
	for want, spoil := range map[string]func(*Machine){
		"decide: 0 links are down, 3 are listed":                      func(m *Machine) { m.links.down = make([]wire.PeerID, 3) },
		"decide: version 4, and a plan <nil>, before the start":       func(m *Machine) { m.applied = 4 },
		"decide: record 7 (last: false) is the head, the plan of":     func(m *Machine) { m.h = append(m.h, &wire.Record{Round: 7}) },
		"decide: record 7 follows record 5 in the history":            func(m *Machine) { m.h = append(m.h, &wire.Record{Round: 5}, &wire.Record{Round: 7}) },
		"decide: 2 offers of a have are listed (in order: false), 2":  func(m *Machine) { m.round.voters = levelOf(two, one) },
		"of a have falls from state 2 to 1":                           func(m *Machine) { m.round.voters = levelOf(one); m.check(); one.item.State = wire.HaveSeen },
		"of a have is listed, and not found by digest or source":      func(m *Machine) { m.round.voters = levelOf(one); clear(m.round.voters.of) },
		"decide: 0 offers of a have are listed (in order: true), 1 a": func(m *Machine) { m.round.voters = levelOf(one); m.round.voters.order = nil },
	} {
		t.Run(want, func(t *testing.T) {
			m := NewMachine(MachineConfig{Genesis: &wire.Genesis{}})
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, want) {
					t.Errorf("panicked with %q", text)
				}
			}()
			spoil(m)
			m.Step(time.Time{}, Leaving{})
		})
	}
}

func levelOf(offers ...*offer) *level {
	l := newLevel(wire.KindHave, nil)
	for _, o := range offers {
		l.add(o)
	}
	l.order = offers
	return l
}
