//go:build invariants || race

package elastic

import (
	"strings"
	"testing"

	"github.com/apiary-net/hived/elastic/decide"
	"github.com/apiary-net/hived/elastic/rules/rulestest"
	"github.com/apiary-net/hived/wire"
)

// What would be written wrongly, or was counted wrongly, is a panic.
func TestInvariantsOfChainAndCache(t *testing.T) {
	a, b := rulestest.New(2, nil), rulestest.New(2, func(g *wire.Genesis) { g.Seed = 7 })
	begun := mapKV{string(recordKey(0)): string(wire.Marshal(wire.ChainItem{Record: b.History.Head().Bytes()}))}
	next := a.Drive(t, 1)
	cert := wire.Cert{V: 1, Value: next.Digest(), Signers: []uint32{0}, Sigs: make([]byte, 64)}
	other := cert
	other.Value = wire.Digest{}
	certified := decide.PersistRecord{Record: next, Cert: &cert}
	for want, f := range map[string]func(){
		"elastic: record 1 is written, the one before it is not there": func() { t.Error((&chain{kv: mapKV{}}).put(certified)) },
		"elastic: record 1 follows ":                                   func() { t.Error((&chain{kv: begun}).put(certified)) },
		"with a certificate of 00000000": func() {
			t.Error((&chain{kv: begun}).put(decide.PersistRecord{Record: next, Cert: &other}))
		},
		"elastic: record 3 is written as what cannot be read": func() {
			c := &chain{kv: mapKV{}}
			t.Error(c.put(decide.PersistRecord{Record: &wire.Record{Round: 3}, Item: []byte("a page of another book")}))
		},
		"elastic: record 3 was written in 2 bytes and reads back in 1 others": func() {
			(&chain{kv: mapKV{string(recordKey(3)): "a"}}).checkWritten(3, []byte("ab"))
		},
		"elastic: the cache holds 2 bytes and counts 3": func() {
			c := newCache()
			c.put(1, wire.RawCID([]byte("ab")), []byte("ab"))
			c.size++
			c.turn(&wire.Record{Round: 1})
		},
		"elastic: the cache holds 2 bytes of round 1 under": func() {
			c := newCache()
			c.put(1, wire.RawCID([]byte("abc")), []byte("ab"))
			c.turn(&wire.Record{Round: 1})
		},
	} {
		t.Run(want, func(t *testing.T) {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, want) {
					t.Errorf("panicked with %q", text)
				}
			}()
			f()
		})
	}
}
