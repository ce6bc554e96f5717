package shards

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apiary-net/hived/wire"
)

type kv interface {
	Get(key []byte) ([]byte, error)
	Apply(puts [][2][]byte, dels [][]byte, sync bool) error
	Scan(prefix []byte, f func(key, value []byte) error) error
	Close() error
}

func openKV(t *testing.T, dir string) *BadgerKV {
	t.Helper()
	k, err := OpenKV(dir, KVOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

// dump returns all pairs below prefix, in scan order.
func dump(t *testing.T, k kv, prefix string) []string {
	t.Helper()
	var out []string
	err := k.Scan([]byte(prefix), func(key, v []byte) error {
		out = append(out, fmt.Sprintf("%s=%x", key, wire.Sum(v)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestKVsAgree runs one random history on both stores; after each batch and a
// reopen they must hold the same.
func TestKVsAgree(t *testing.T) {
	dir := t.TempDir()
	b, m := openKV(t, dir), NewMemKV()
	rng := rand.New(rand.NewPCG(1, 2))
	for step := range 60 {
		var puts [][2][]byte
		var dels [][]byte
		for range rng.IntN(8) {
			v := make([]byte, rng.IntN(3000))
			for i := range v {
				v[i] = byte(rng.Uint32())
			}
			puts = append(puts, [2][]byte{[]byte(fmt.Sprintf("%c%d", 'a'+rng.IntN(3), rng.IntN(20))), v})
		}
		for range rng.IntN(4) {
			dels = append(dels, []byte(fmt.Sprintf("%c%d", 'a'+rng.IntN(3), rng.IntN(20))))
		}
		for _, k := range []kv{b, m} {
			if err := k.Apply(puts, dels, step%2 == 0); err != nil {
				t.Fatal(err)
			}
		}
		if step%20 == 19 {
			if err := b.Reclaim(); err != nil {
				t.Fatal(err)
			}
		}
		for _, prefix := range []string{"", "b", "c1", "zz"} {
			if x, y := dump(t, b, prefix), dump(t, m, prefix); !slices.Equal(x, y) {
				t.Fatalf("step %d, prefix %q: badger %v, memory %v", step, prefix, x, y)
			}
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Get([]byte("a1")); !errors.Is(err, fs.ErrClosed) {
		t.Fatalf("get after close: %v", err)
	}
	if x, y := dump(t, openKV(t, dir), ""), dump(t, m, ""); !slices.Equal(x, y) {
		t.Fatalf("after reopen: %v, want %v", x, y)
	}
}

func TestKVErrors(t *testing.T) {
	dir := t.TempDir()
	k := openKV(t, dir)
	for _, s := range []kv{k, NewMemKV()} {
		if _, err := s.Get([]byte("none")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%T: get of nothing: %v", s, err)
		}
		if err := s.Apply([][2][]byte{{[]byte("k"), []byte("v")}}, nil, true); err != nil {
			t.Error(err)
		}
		stop := errors.New("stop")
		if err := s.Scan(nil, func(_, _ []byte) error { return stop }); err != stop {
			t.Errorf("%T: scan returned %v", s, err)
		}
	}
	if _, err := OpenKV(dir, KVOptions{}); !errors.Is(err, ErrInUse) {
		t.Errorf("second open: %v", err)
	}
	var big [][2][]byte
	for i := range 4000 {
		big = append(big, [2][]byte{binary.BigEndian.AppendUint64([]byte("big"), uint64(i)), make([]byte, 900)})
	}
	if err := k.Apply(big, nil, true); !errors.Is(err, ErrTooBig) {
		t.Errorf("huge batch: %v", err)
	}
	if n := len(dump(t, k, "big")); n != 0 {
		t.Errorf("refused batch left %d keys", n)
	}
	if err := k.Apply([][2][]byte{{nil, nil}}, nil, true); err == nil {
		t.Error("empty key was taken")
	}
	if err := k.Scan(nil, func(_, _ []byte) error {
		if err := k.Reclaim(); !errors.Is(err, ErrBusy) {
			return fmt.Errorf("reclaim during a scan: %w", err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	for _, o := range []KVOptions{{MemTableBytes: 1}, {ValueFileBytes: 1}} {
		if _, err := OpenKV(t.TempDir(), o); err == nil {
			t.Errorf("options %+v were taken", o)
		}
	}
}

// TestReclaim overwrites 64 times what is live and wants the space back.
func TestReclaim(t *testing.T) {
	dir := t.TempDir()
	k, err := OpenKV(dir, KVOptions{ValueFileBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	v := make([]byte, 64<<10)
	for i := range 512 {
		binary.BigEndian.PutUint64(v, uint64(i))
		if err := k.Apply([][2][]byte{{[]byte{byte(i % 8)}, v}}, nil, false); err != nil {
			t.Fatal(err)
		}
	}
	before := diskBytes(dir)
	for range 3 {
		if err := k.Reclaim(); err != nil {
			t.Fatal(err)
		}
	}
	after := diskBytes(dir)
	t.Logf("live 0.5 MiB, disk %d KiB before, %d KiB after", before>>10, after>>10)
	if after > 8<<20 || after > before/4 {
		t.Errorf("disk %d bytes, was %d", after, before)
	}
	for i := range 8 {
		got, err := k.Get([]byte{byte(i)})
		if err != nil || binary.BigEndian.Uint64(got) != uint64(504+i) {
			t.Fatalf("key %d: %v", i, err)
		}
	}
}

// TestCompact writes many memtables of small values, as a ledger does, and wants
// few tables to look into, with all that was written.
func TestCompact(t *testing.T) {
	dir := t.TempDir()
	k, err := OpenKV(dir, KVOptions{MemTableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	most := 0
	for i := range 250 {
		var puts [][2][]byte
		for j := range 100 {
			puts = append(puts, [2][]byte{fmt.Appendf(nil, "%05d", (i*100+j)%12500), noise(i*100+j, 500)})
		}
		if err := k.Apply(puts, nil, false); err != nil {
			t.Fatal(err)
		}
		most = max(most, k.db.Levels()[0].NumTables)
	}
	t.Logf("at most %d tables at level 0", most)
	if most > 2*maxLevelZero {
		t.Errorf("%d tables at level 0", most)
	}
	for i := range 12500 {
		got, err := k.Get(fmt.Appendf(nil, "%05d", i))
		if err != nil || !bytes.Equal(got, noise(12500+i, 500)) {
			t.Fatalf("key %d: %v", i, err)
		}
	}
}

func TestMemKVFaults(t *testing.T) {
	put := func(k string) [][2][]byte { return [][2][]byte{{[]byte(k), []byte(k)}} }
	m := NewMemKV()
	m.Inject = func(call int) Fault { return []Fault{NoFault, FailBefore, FailAfter, NoFault, PowerCut}[call] }
	want := func(m *MemKV, keys ...string) {
		t.Helper()
		var got []string
		if err := m.Scan(nil, func(k, _ []byte) error { got = append(got, string(k)); return nil }); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, keys) {
			t.Fatalf("holds %v, want %v", got, keys)
		}
	}
	for i, c := range []struct {
		key  string
		sync bool
		bad  bool
	}{{"a", true, false}, {"b", true, true}, {"c", false, true}, {"d", false, false}} {
		if err := m.Apply(put(c.key), nil, c.sync); (err != nil) != c.bad {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	want(m, "a", "c", "d")
	if n := m.Unsynced(); n != 2 {
		t.Fatalf("%d batches not synced, want 2", n)
	}
	if err := m.Apply(put("e"), nil, true); !errors.Is(err, ErrInjected) {
		t.Fatal(err)
	}
	if _, err := m.Get([]byte("a")); !errors.Is(err, fs.ErrClosed) {
		t.Fatalf("dead store answered: %v", err)
	}
	want(m.Crash(0), "a")
	want(m.Crash(1), "a", "c")
	want(m.Crash(9), "a", "c", "d")
}

// crashChild appends batches and prints each acknowledged one.
func crashChild(dir string) {
	k, err := OpenKV(dir, KVOptions{MemTableBytes: 1 << 20, ValueFileBytes: 1 << 20})
	if err != nil {
		fmt.Println("ERR", err)
		os.Exit(3)
	}
	next := 0
	if err := k.Scan([]byte("k"), func(_, _ []byte) error { next++; return nil }); err != nil {
		fmt.Println("ERR", err)
		os.Exit(3)
	}
	for ; ; next++ {
		key, v := crashPair(next)
		if err := k.Apply([][2][]byte{{key, v}}, nil, true); err != nil {
			fmt.Println("ERR", err)
			os.Exit(3)
		}
		fmt.Println("ACK", next)
	}
}

// crashPair is entry i: mostly small values, some in the value log.
func crashPair(i int) (key, value []byte) {
	rng := rand.New(rand.NewPCG(uint64(i), 7))
	v := make([]byte, 200+rng.IntN(200))
	if i%5 == 0 {
		v = make([]byte, 1000+rng.IntN(20000))
	}
	for j := range v {
		v[j] = byte(rng.Uint32())
	}
	return binary.BigEndian.AppendUint64([]byte("k"), uint64(i)), v
}

// TestCrash is case C1: kill -9 at a random moment, cut the newest file by 1 to
// 64 bytes on every second turn, open unaided; all that was acknowledged is
// there.
func TestCrash(t *testing.T) {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(3, 4))
	acked := -1
	for kill := range 12 {
		acked = max(acked, runChild(t, dir, 5+rng.IntN(150)))
		cut := ""
		if kill%2 == 1 {
			cut = cutNewest(t, dir, 1+rng.Int64N(64))
		}
		start := time.Now()
		k, err := OpenKV(dir, KVOptions{MemTableBytes: 1 << 20, ValueFileBytes: 1 << 20})
		if err != nil {
			t.Fatalf("kill %d, cut %q: %v", kill, cut, err)
		}
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("opening took %v", d)
		}
		for i := 0; i <= acked; i++ {
			key, want := crashPair(i)
			if got, err := k.Get(key); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("kill %d, cut %q: entry %d of %d: %d bytes, %v", kill, cut, i, acked, len(got), err)
			}
		}
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d acknowledged entries survived", acked+1)
}

// runChild starts the child and kills it after it acknowledged n more entries;
// it returns the last acknowledged one.
func runChild(t *testing.T, dir string, n int) int {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childEnv+"="+dir)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	last, seen := -1, 0
	for sc := bufio.NewScanner(out); sc.Scan(); {
		if _, err := fmt.Sscanf(sc.Text(), "ACK %d", &last); err != nil {
			t.Errorf("child says %q", sc.Text())
		}
		if seen++; seen == n {
			if err := c.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := c.Wait(); err == nil || seen < n {
		t.Fatalf("child ended by itself after %d entries: %v", seen, err)
	}
	return last
}

// cutNewest shortens the log file that was written last by n bytes.
func cutNewest(t *testing.T, dir string, n int64) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	newest, at := "", time.Time{}
	for _, name := range names {
		fi, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if fi.ModTime().After(at) && fi.Size() > n {
			newest, at = name, fi.ModTime()
		}
	}
	fi, err := os.Stat(newest)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(newest, fi.Size()-n); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s by %d of %d", filepath.Base(newest), n, fi.Size())
}

// TestCutManifest cuts the list of tables everywhere in its last change, after
// histories that end in a flush, a compaction and a crash.
func TestCutManifest(t *testing.T) {
	for _, history := range []string{"closed", "closed twice", "killed"} {
		base := t.TempDir()
		want := 0
		for range map[string]int{"closed": 1, "closed twice": 2}[history] {
			k := openKV(t, base)
			for ; want%50 != 49; want++ {
				key, v := crashPair(want)
				if err := k.Apply([][2][]byte{{key, v}}, [][]byte{[]byte("none")}, true); err != nil {
					t.Fatal(err)
				}
			}
			want++
			key, v := crashPair(want - 1)
			if err := k.Apply([][2][]byte{{key, v}}, nil, true); err != nil {
				t.Fatal(err)
			}
			if err := k.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if history == "killed" {
			runChild(t, base, 60)
			want = runChild(t, base, 10) + 1
		}
		raw, err := os.ReadFile(filepath.Join(base, "MANIFEST"))
		if err != nil {
			t.Fatal(err)
		}
		for cut := 1; cut <= 64 && len(raw)-cut > manifestMagic; cut += 7 {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(base)); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(filepath.Join(dir, "MANIFEST"), int64(len(raw)-cut)); err != nil {
				t.Fatal(err)
			}
			k, err := OpenKV(dir, KVOptions{})
			if err != nil {
				t.Fatalf("%s, cut by %d: %v", history, cut, err)
			}
			for i := range want {
				key, v := crashPair(i)
				if got, err := k.Get(key); err != nil || !bytes.Equal(got, v) {
					t.Fatalf("%s, cut by %d: entry %d of %d: %v", history, cut, i, want, err)
				}
			}
			if err := k.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// FuzzLogFiles: the measuring of foreign bytes ends and stays in bounds.
func FuzzLogFiles(f *testing.F) {
	f.Add(append(make([]byte, logHeaderBytes), 0x40, 0, 1, 1, 0, 'k', 'v', 1, 2, 3, 4))
	f.Add(changeSet([]uint64{1, 300}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, n := readManifest(b); n < 0 || n > int64(len(b)) {
			t.Fatalf("%d of %d bytes are torn", n, len(b))
		}
		name := filepath.Join(t.TempDir(), "00001.mem")
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if n, err := tornBytes(name); err != nil || n < 0 || n > int64(len(b)) {
			t.Fatalf("%d of %d bytes are torn, %v", n, len(b), err)
		}
	})
}

// TestTornTail writes rubbish behind the last transaction, as a power cut may,
// and wants it dropped and counted.
func TestTornTail(t *testing.T) {
	dir := t.TempDir()
	runChild(t, dir, 20)
	if err := os.WriteFile(filepath.Join(dir, "00099.mem"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mems, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(mems[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	used, err := usedBytes(f)
	if err != nil {
		t.Fatal(err)
	}
	before, err := tornBytes(mems[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(bytes.Repeat([]byte{0xa5}, 37), used+8); err != nil {
		t.Fatal(err)
	}
	f.Close()
	var log bytes.Buffer
	k, err := OpenKV(dir, KVOptions{MemTableBytes: 1 << 20, ValueFileBytes: 1 << 20, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if before == 0 && !strings.Contains(log.String(), "bytes=45") {
		t.Errorf("log does not say that 45 bytes were dropped:\n%s", log.String())
	}
	if !strings.Contains(log.String(), "dropped unacknowledged bytes") {
		t.Errorf("log says nothing of dropped bytes:\n%s", log.String())
	}
	for i := range 20 {
		key, want := crashPair(i)
		if got, err := k.Get(key); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("entry %d: %v", i, err)
		}
	}
}
