package elastic

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/apiary-net/hived/elastic/decide"
	"github.com/apiary-net/hived/wire"
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

// brokenKV is a KV that cannot be read.
type brokenKV struct{ mapKV }

var errBroken = errors.New("input/output error")

func (brokenKV) Get([]byte) ([]byte, error) { return nil, errBroken }

// A read that fails is told apart from an empty slot wherever something is signed
// after it.
func TestUnreadableSlotsAreNotEmpty(t *testing.T) {
	if b, err := Slots(mapKV{})([]byte("vote/x")); b != nil || err != nil {
		t.Errorf("an empty slot gives %q, %v", b, err)
	}
	if b, err := Slots(mapKV{"slot/vote/x": "v"})([]byte("vote/x")); string(b) != "v" || err != nil {
		t.Errorf("a slot gives %q, %v", b, err)
	}
	if _, err := Slots(brokenKV{})([]byte("vote/x")); !errors.Is(err, errBroken) {
		t.Errorf("a vote's slot that cannot be read: %v", err)
	}
	r := &Runner{cfg: Config{KV: brokenKV{}}}
	if _, held, err := r.slotHeld("header/1"); held || !errors.Is(err, errBroken) {
		t.Errorf("a header's slot that cannot be read: held %v, %v", held, err)
	}
	if r.lastHave(wire.KindHave, 1); !errors.Is(r.unread, errBroken) {
		t.Errorf("a HAVE's slot that cannot be read: %v", r.unread)
	}
	if _, err := (&chain{kv: brokenKV{}}).base(); !errors.Is(err, errBroken) {
		t.Errorf("a base decision that cannot be read: %v", err)
	}
}
