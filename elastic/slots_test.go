package elastic

import (
	"encoding/binary"
	"io/fs"
	"strings"
	"testing"

	"github.com/apiary-net/hived/elastic/decide"
)

// mapKV is the least KV.
type mapKV map[string]string

func (m mapKV) Get(k []byte) ([]byte, error) {
	v, ok := m[string(k)]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return []byte(v), nil
}

func (m mapKV) Apply(puts [][2][]byte, dels [][]byte, _ bool) error {
	for _, p := range puts {
		m[string(p[0])] = string(p[1])
	}
	for _, d := range dels {
		delete(m, string(d))
	}
	return nil
}

func (m mapKV) Scan(prefix []byte, f func(k, v []byte) error) error {
	for k, v := range m {
		if strings.HasPrefix(k, string(prefix)) {
			if err := f([]byte(k), []byte(v)); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestOnlySlotsLongDecidedArePruned(t *testing.T) {
	kv := mapKV{"slot/start/0": "", "rec/x": ""}
	for n := range uint64(200) {
		kv["slot/"+decide.Slot("header", n)] = ""
		kv["slot/vote/"+string(binary.BigEndian.AppendUint64(nil, n))+"phase"] = ""
	}
	if err := pruneSlots(kv, 191); err != nil || len(kv) != 402 {
		t.Fatalf("round 191 prunes: %d left (%v)", len(kv), err)
	}
	if err := pruneSlots(kv, 192); err != nil {
		t.Fatal(err)
	}
	for n := range uint64(200) {
		_, header := kv["slot/"+decide.Slot("header", n)]
		_, vote := kv["slot/vote/"+string(binary.BigEndian.AppendUint64(nil, n))+"phase"]
		if want := n+slotsKept >= 192; header != want || vote != want {
			t.Fatalf("slots of %d: header %v, vote %v", n, header, vote)
		}
	}
	if _, ok := kv["slot/start/0"]; !ok || len(kv["rec/x"]) != 0 {
		t.Fatal("more than slots was pruned")
	}
}
