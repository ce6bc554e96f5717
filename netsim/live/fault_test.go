package live

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/apiary-net/hived/daemon"
	"github.com/apiary-net/hived/netsim"
	"github.com/apiary-net/hived/wire"
)

// talker is a machine whose daemon says what status is.
type talker struct {
	Machine
	id     wire.PeerID
	client *daemon.Client
}

func (m talker) ID() wire.PeerID        { return m.id }
func (m talker) Client() *daemon.Client { return m.client }

// Who votes and who leads is what the daemon says that is farthest ahead.
func TestCandidatesAreWhomDaemonsName(t *testing.T) {
	ids := []wire.PeerID{{1}, {2}, {3}, {4}}
	name := func(i int) string { return ids[i].String() }
	status := []daemon.RunStatus{
		{Round: 4, Table: []string{name(0), name(1)}, Leader: name(0)},
		{Round: 5, Table: []string{name(1), name(2), name(3)}, Leader: name(2)},
		{Round: 3, Table: []string{name(0)}, Leader: name(0)},
		{Round: 9, Table: []string{name(0)}, Leader: name(0)}, // is not asked
	}
	p := &player{run: "r"}
	for i, s := range status {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(s) }))
		t.Cleanup(srv.Close)
		c, err := daemon.NewClient(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		p.machines = append(p.machines, &machine{Machine: talker{id: ids[i], client: c}, index: i, up: i != 3})
	}
	for who, want := range map[string][]netsim.Candidate{
		"voter":  {{Index: 0, Up: true}, {Index: 1, Up: true, Voter: true}, {Index: 2, Up: true, Voter: true, Leader: true}, {Index: 3, Voter: true}},
		"random": {{Index: 0, Up: true}, {Index: 1, Up: true}, {Index: 2, Up: true}, {Index: 3}},
	} {
		for i, c := range p.candidates(t.Context(), who) {
			if c != want[i] {
				t.Errorf("%s: machine %d is %+v, want %+v", who, i, c, want[i])
			}
		}
	}
}
