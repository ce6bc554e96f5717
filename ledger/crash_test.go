package ledger

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"

	"github.com/apiary-net/hived/wire"
)

// fileKV is memKV with a log on disk: length, batch, SHA-256, synced.
type fileKV struct {
	*memKV
	f *os.File
}

func openFileKV(name string) (fileKV, error) {
	k := fileKV{memKV: newMemKV()}
	raw, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	good := 0
	for len(raw)-good >= 8 {
		n := binary.BigEndian.Uint64(raw[good:])
		rest := raw[good+8:]
		if uint64(len(rest)) < n+32 || wire.Sum(rest[:n]) != wire.Digest(rest[n:n+32]) {
			break
		}
		var puts [][2][]byte
		if err := wire.Unmarshal(rest[:n], &puts, 1<<30); err != nil {
			return k, err
		}
		if err := k.memKV.Apply(puts, nil, true); err != nil {
			return k, err
		}
		good += 8 + int(n) + 32
	}
	if k.f, err = os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return k, err
	}
	if err := k.f.Truncate(int64(good)); err != nil {
		return k, err
	}
	_, err = k.f.Seek(0, io.SeekEnd)
	return k, err
}

func (k fileKV) Apply(puts [][2][]byte, dels [][]byte, sync bool) error {
	b := wire.Marshal(puts)
	sum := wire.Sum(b)
	line := append(binary.BigEndian.AppendUint64(nil, uint64(len(b))), b...)
	if _, err := k.f.Write(append(line, sum[:]...)); err != nil {
		return err
	}
	if err := k.f.Sync(); err != nil {
		return err
	}
	return k.memKV.Apply(puts, dels, sync)
}

func crashChild(name string) {
	kv, err := openFileKV(name)
	if err != nil {
		fmt.Println("ERR", err)
		os.Exit(3)
	}
	l, err := Open(Config{KV: kv, Key: testKey(1), Run: testRun})
	if err != nil {
		fmt.Println("ERR", err)
		os.Exit(3)
	}
	for i := int(l.Head().Size); ; {
		var bs []wire.EntryBody
		for range 1 + rand.IntN(16) {
			bs = append(bs, body(i))
			i++
		}
		h, err := l.Append(context.Background(), bs)
		if err != nil {
			fmt.Println("ERR", err)
			os.Exit(3)
		}
		fmt.Println("ACK", h.Size, h.Root)
	}
}

// TestCrash kills a child that appends, ten times, at a random moment; every
// head that was acknowledged is that of the first entries found afterwards.
func TestCrash(t *testing.T) {
	name := t.TempDir() + "/log"
	acked := map[uint64]string{}
	rng := rand.New(rand.NewPCG(11, 12))
	for range 10 {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), childEnv+"="+name)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		killAt, seen := 3+rng.IntN(20), 0
		for sc := bufio.NewScanner(out); sc.Scan(); {
			var size uint64
			var root string
			if _, err := fmt.Sscanf(sc.Text(), "ACK %d %s", &size, &root); err != nil {
				t.Fatalf("child says %q", sc.Text())
			}
			acked[size] = root
			if seen++; seen == killAt {
				c.Process.Kill()
			}
		}
		if err := c.Wait(); err == nil {
			t.Fatal("child ended by itself")
		}
		kv, err := openFileKV(name)
		if err != nil {
			t.Fatal(err)
		}
		l := open(t, kv, testKey(1))
		ls := leaves(t, l)
		for size, root := range acked {
			if size > uint64(len(ls)) {
				t.Fatalf("acknowledged size %d, found %d", size, len(ls))
			}
			if got, err := l.RootAt(size); err != nil || got.String() != root {
				t.Fatalf("root of size %d is %s, acknowledged %s, %v", size, got, root, err)
			}
		}
		if got := slowRoot(ls); got != l.Head().Root {
			t.Fatal("head is not that of the entries")
		}
		kv.f.Close()
	}
	t.Logf("%d acknowledged heads survived 10 kills", len(acked))
}
