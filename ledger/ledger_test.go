package ledger

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/apiary-net/hived/wire"
)

const childEnv = "HIVED_LEDGER_CHILD"

func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		crashChild(name)
		return
	}
	code := m.Run()
	if f := flag.Lookup("test.fuzz"); f != nil && f.Value.String() != "" {
		os.Exit(code) // the fuzzing engine leaves a goroutine behind
	}
	for deadline := time.Now().Add(5 * time.Second); code == 0; runtime.Gosched() {
		left := leaked()
		if left == "" {
			break
		}
		if time.Now().After(deadline) {
			fmt.Fprintln(os.Stderr, "leaked goroutines:\n"+left)
			code = 1
		}
	}
	os.Exit(code)
}

// leaked returns the stacks of this package's goroutines but the one that asks.
func leaked() string {
	buf := make([]byte, 1<<20)
	var left []string
	for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(g, "hived/ledger.") && !strings.Contains(g, "ledger.TestMain") {
			left = append(left, g)
		}
	}
	return strings.Join(left, "\n\n")
}

var testRun = wire.Sum([]byte("run"))

func testKey(i byte) wire.Key {
	k, err := wire.KeyFromSeed(bytes.Repeat([]byte{i}, 32))
	if err != nil {
		panic(err)
	}
	return k
}

func open(t testing.TB, kv KV, key wire.Key) *Log {
	t.Helper()
	l, err := Open(Config{KV: kv, Key: key, Run: testRun, Now: func() time.Time { return time.Unix(1700000000, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func body(i int) wire.EntryBody {
	return wire.EntryBody{Kind: wire.EntryRecord, Ref: wire.RawCID([]byte{byte(i), byte(i >> 8)}), Round: uint64(i)}
}

// grow appends n entries in batches of random size and returns all heads.
func grow(t testing.TB, l *Log, n int, rng *rand.Rand) []wire.Head {
	t.Helper()
	var heads []wire.Head
	for n > 0 {
		k := 1 + rng.IntN(min(n, 40))
		var bs []wire.EntryBody
		for i := range k {
			bs = append(bs, body(int(l.Head().Size)+i))
		}
		h, err := l.Append(t.Context(), bs)
		if err != nil {
			t.Fatal(err)
		}
		heads = append(heads, h)
		n -= k
	}
	return heads
}

// leaves returns all leaves of the log.
func leaves(t testing.TB, l *Log) [][]byte {
	t.Helper()
	var out [][]byte
	err := l.Read(0, 1<<62, func(raw []byte, e wire.EntryBody) error {
		out = append(out, bytes.Clone(raw))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// slowRoot is RFC 6962 section 2.1 word for word.
func slowRoot(ls [][]byte) wire.Digest {
	switch n := len(ls); n {
	case 0:
		return wire.Sum(nil)
	case 1:
		return wire.Sum(append([]byte{0}, ls[0]...))
	default:
		k := 1
		for 2*k < n {
			k *= 2
		}
		a, b := slowRoot(ls[:k]), slowRoot(ls[k:])
		return wire.Sum(append(append([]byte{1}, a[:]...), b[:]...))
	}
}

// TestLog checks heads, links and proofs of all sizes against the plain
// definition, and again after a reopen.
func TestLog(t *testing.T) {
	kv := newMemKV()
	l := open(t, kv, testKey(1))
	if h := l.Head(); h.Size != 0 || h.Root != slowRoot(nil) || CheckHead(h, testRun, testKey(1).Peer()) != nil {
		t.Fatalf("empty head %+v", h)
	}
	heads := grow(t, l, 150, rand.New(rand.NewPCG(1, 1)))
	l = open(t, kv, testKey(1))
	heads = append(heads, grow(t, l, 60, rand.New(rand.NewPCG(2, 1)))...)
	ls := leaves(t, l)
	for _, h := range heads {
		if err := CheckHead(h, testRun, testKey(1).Peer()); err != nil {
			t.Fatal(err)
		}
		if h.Root != slowRoot(ls[:h.Size]) {
			t.Fatalf("root of size %d is not the definition's", h.Size)
		}
		for i := uint64(0); i < h.Size; i += 7 {
			p, err := l.ProveRecord(i, h.Size)
			if err != nil {
				t.Fatal(err)
			}
			if err := CheckRecord(h, i, ls[i], p); err != nil {
				t.Fatal(err)
			}
			if CheckRecord(h, i, ls[(i+1)%h.Size], p) == nil && h.Size > 1 {
				t.Fatal("another leaf was proved")
			}
		}
		for old := range h.Size + 1 {
			p, err := l.ProveTree(old, h.Size)
			if err != nil {
				t.Fatal(err)
			}
			if err := CheckTree(h, old, slowRoot(ls[:old]), p); err != nil {
				t.Fatalf("%d in %d: %v", old, h.Size, err)
			}
			if old > 0 && CheckTree(h, old, wire.Sum([]byte("x")), p) == nil {
				t.Fatal("another history was proved")
			}
		}
	}
	prev := wire.Digest{}
	err := l.Read(0, l.Head().Size, func(raw []byte, e wire.EntryBody) error {
		if e.Prev != prev || e.Time != 1700000000000 || e.Ref != body(int(e.Seq)).Ref {
			return fmt.Errorf("entry %+v", e)
		}
		prev = wire.Sum(raw)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range [][2]uint64{{5, 5}, {0, l.Head().Size + 1}} {
		if _, err := l.ProveRecord(bad[0], bad[1]); err == nil {
			t.Errorf("proof of %v", bad)
		}
	}
}

func TestAppendRefuses(t *testing.T) {
	l := open(t, newMemKV(), testKey(1))
	if _, err := l.Append(t.Context(), make([]wire.EntryBody, MaxAppend+1)); err == nil {
		t.Error("too many entries were taken")
	}
	if _, err := l.Append(t.Context(), []wire.EntryBody{{Kind: 1, Extra: make([]byte, wire.MaxEntry)}}); err == nil {
		t.Error("too long an entry was taken")
	}
	if h, err := l.Append(t.Context(), nil); err != nil || h.Size != 0 {
		t.Errorf("no entries: %v", err)
	}
	if h, err := l.Append(t.Context(), []wire.EntryBody{body(0)}); err != nil || h.Size != 1 {
		t.Errorf("after refusals: size %d, %v", h.Size, err)
	}
	l.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Append(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	<-l.turn
	l.Stop(ErrBehind)
	if _, err := l.Append(t.Context(), []wire.EntryBody{body(1)}); !errors.Is(err, ErrStopped) || !errors.Is(err, ErrBehind) || strings.Contains(err.Error(), "write") {
		t.Errorf("stopped: %v", err)
	}
	if _, err := Open(Config{}); err == nil {
		t.Error("an empty config was taken")
	}
}

// TestFailedWrite: after a failed write nothing more is signed until the log is
// opened again, whether the write had its effect or not.
func TestFailedWrite(t *testing.T) {
	for _, when := range []string{"before", "after"} {
		kv := newMemKV()
		l := open(t, kv, testKey(1))
		grow(t, l, 3, rand.New(rand.NewPCG(1, 1)))
		kv.fail = func() string { return when }
		if _, err := l.Append(t.Context(), []wire.EntryBody{body(3)}); !errors.Is(err, errDisk) || !errors.Is(err, ErrStopped) {
			t.Fatalf("%s: %v", when, err)
		}
		kv.fail = nil
		l.Stop(ErrBehind) // the first cause stays
		if _, err := l.Append(t.Context(), []wire.EntryBody{body(4)}); !errors.Is(err, ErrStopped) || !errors.Is(err, errDisk) {
			t.Fatalf("%s: appended after a failed write: %v", when, err)
		}
		want := map[string]uint64{"before": 3, "after": 4}[when]
		l = open(t, kv, testKey(1))
		if h := l.Head(); h.Size != want {
			t.Fatalf("%s: size %d, want %d", when, h.Size, want)
		}
		grow(t, l, 3, rand.New(rand.NewPCG(1, 2)))
		if got := slowRoot(leaves(t, l)); got != l.Head().Root {
			t.Fatalf("%s: root differs", when)
		}
	}
}

// TestDamage changes one stored byte at a time of what Open reads.
func TestDamage(t *testing.T) {
	kv := newMemKV()
	grow(t, open(t, kv, testKey(1)), 13, rand.New(rand.NewPCG(1, 1)))
	cfg := Config{Key: testKey(1), Run: testRun}
	touched := 0
	for _, key := range [][]byte{[]byte(stateKey), numbered(entryKey, 12), numbered(nodeKey, 14)} {
		raw, err := kv.Get(key)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(raw); i += 5 {
			c := kv.clone()
			c.m[string(key)][i] ^= 4
			cfg.KV = c
			if _, err := Open(cfg); !errors.Is(err, ErrDamaged) {
				t.Fatalf("byte %d of %q changed: %v", i, key, err)
			}
			touched++
		}
		c := kv.clone()
		delete(c.m, string(key))
		cfg.KV = c
		if _, err := Open(cfg); string(key) != stateKey && !errors.Is(err, ErrDamaged) {
			t.Fatalf("%q missing: %v", key, err)
		}
	}
	if touched < 50 {
		t.Fatalf("only %d bytes were changed", touched)
	}
	cfg.KV, cfg.Key = kv, testKey(2)
	if _, err := Open(cfg); !errors.Is(err, ErrDamaged) {
		t.Errorf("another key opened the log: %v", err)
	}
}
