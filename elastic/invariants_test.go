//go:build invariants || race

package elastic

import (
	"strings"
	"testing"

	"github.com/apiary-net/hived/elastic/decide"
	"github.com/apiary-net/hived/wire"
)

// What would be written wrongly, or was counted wrongly, is a panic.
func TestInvariantsOfChainAndCache(t *testing.T) {
	for want, f := range map[string]func(){
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
