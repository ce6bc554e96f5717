package elastic

import (
	"strings"
	"testing"

	"github.com/apiary-net/hived/elastic/rules/rulestest"
	"github.com/apiary-net/hived/wire"
)

// A chain on a disk that mixed up its records is an error, and no other chain.
func TestChainReadsWhatFollows(t *testing.T) {
	kv := mapKV{}
	put := func(at uint64, rec *wire.Record) {
		kv[string(recordKey(at))] = string(wire.Marshal(wire.ChainItem{Record: rec.Bytes()}))
	}
	a, b := rulestest.New(2, nil), rulestest.New(2, func(g *wire.Genesis) { g.Seed = 7 })
	start := a.History.Head()
	put(0, start)
	put(1, a.Drive(t, 1))
	walk := func() error {
		n := 0
		err := (&chain{kv: kv}).walk(0, func(*wire.OpenedItem) error { n++; return nil })
		if err == nil && n != 2 {
			t.Errorf("%d records", n)
		}
		return err
	}
	if err := walk(); err != nil {
		t.Fatal(err)
	}
	put(1, b.Drive(t, 1))
	if err := walk(); err == nil || !strings.Contains(err.Error(), "record 1: it does not follow") {
		t.Errorf("a record of another run: %v", err)
	}
	put(1, start)
	if err := walk(); err == nil || !strings.Contains(err.Error(), "kept as record 1 is record 0") {
		t.Errorf("the start record twice: %v", err)
	}
}
