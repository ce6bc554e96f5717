package shards

import (
	"bytes"
	"errors"
	"math/bits"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/apiary-net/hived/wire"
)

func somePeers(n int) []wire.PeerID {
	ps := make([]wire.PeerID, n)
	for i := range ps {
		d := wire.Sum([]byte{byte(i), byte(i >> 8)})
		ps[i] = wire.PeerID(d)
	}
	return ps
}

func TestLayout(t *testing.T) {
	want := map[int][2]int{0: {1, 0}, 1: {1, 0}, 2: {1, 1}, 3: {1, 2}, 4: {2, 2}, 5: {3, 2}, 8: {6, 2}, 11: {9, 2}, 12: {10, 2}, 13: {10, 2}, 500: {10, 2}}
	for n, w := range want {
		if k, m := Layout(n); k != w[0] || m != w[1] {
			t.Errorf("%d holders: %d+%d, want %d+%d", n, k, m, w[0], w[1])
		}
	}
	for n := 2; n < 40; n++ {
		if k, m := Layout(n); k+m > n {
			t.Errorf("%d holders: %d+%d", n, k, m)
		}
	}
}

// TestRestoreAfterAnyLoss loses every set of m holders of every stripe, for
// every size of swarm, and wants equal bytes back.
func TestRestoreAfterAnyLoss(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	for n := 2; n <= 14; n++ {
		blocks := make([][]byte, 13)
		for i := range blocks {
			blocks[i] = noise(100*n+i, 1+rng.IntN(700))
		}
		blocks[3] = bytes.Clone(blocks[2]) // equal blocks are two blocks
		snap, parity, err := NewSnapshot(9, wire.ManifestCID([]byte{byte(n)}), blocks, somePeers(n))
		if err != nil {
			t.Fatal(err)
		}
		if err := reopen(snap); err != nil {
			t.Fatal(err)
		}
		at, pat := 0, 0
		for _, st := range snap.Stripes {
			k, m := len(st.Data), len(st.Parity)
			whole := append(append([][]byte{}, blocks[at:at+k]...), parity[pat:pat+m]...)
			at, pat = at+k, pat+m
			for lost := range uint(1) << (k + m) {
				if bits.OnesCount(lost) != m {
					continue
				}
				have := make([][]byte, k+m)
				for i := range have {
					if lost>>i&1 == 0 {
						have[i] = whole[i]
					} else if i%2 == 0 {
						have[i] = []byte("a lie in place of the block")
					}
				}
				got, err := Restore(st, have)
				if err != nil {
					t.Fatalf("%d holders, lost %b: %v", n, lost, err)
				}
				for i := range got {
					if !bytes.Equal(got[i], whole[i]) {
						t.Fatalf("%d holders, lost %b: block %d differs", n, lost, i)
					}
				}
			}
			have := append([][]byte{}, whole...)
			for i := range m + 1 {
				have[i] = nil
			}
			if _, err := Restore(st, have); !errors.Is(err, ErrTooFewBlocks) {
				t.Fatalf("%d holders, one loss too many: %v", n, err)
			}
		}
		if at != len(blocks) || pat != len(parity) {
			t.Fatalf("%d holders: stripes cover %d blocks and %d parity", n, at, pat)
		}
	}
}

// TestPlacement: a pure function of the set of holders, spread over them, and
// steady when others come and go.
func TestPlacement(t *testing.T) {
	blocks := make([][]byte, 400)
	for i := range blocks {
		blocks[i] = noise(i, 8)
	}
	holders := somePeers(20)
	a, _, err := Encode(blocks, holders, wire.Sum([]byte("s")))
	if err != nil {
		t.Fatal(err)
	}
	mixed := append([]wire.PeerID{}, holders...)
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	b, _, err := Encode(blocks, mixed, wire.Sum([]byte("s")))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Fatal("placement depends on the order of holders")
	}
	load := map[wire.PeerID]int{}
	for _, st := range a {
		for _, h := range st.Holders {
			load[h]++
		}
	}
	for _, h := range holders {
		if load[h] < 10 || load[h] > 38 { // 40 stripes of 12 over 20: 24 each
			t.Errorf("holder %s has %d blocks", h.Short(), load[h])
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	ps := somePeers(4)
	for name, c := range map[string]struct {
		blocks  [][]byte
		holders []wire.PeerID
	}{
		"twice the same holder": {[][]byte{{1}}, []wire.PeerID{ps[0], ps[1], ps[0]}},
		"nobody":                {[][]byte{{1}}, []wire.PeerID{ps[0], {}}},
		"empty block":           {[][]byte{{}}, ps},
		"big block":             {[][]byte{make([]byte, wire.MaxBlock+1)}, ps},
	} {
		if _, _, err := Encode(c.blocks, c.holders, wire.Digest{}); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if st, p, err := Encode([][]byte{{1}}, ps[:1], wire.Digest{}); err != nil || st != nil || p != nil {
		t.Errorf("swarm of one: %v %v %v", st, p, err)
	}
}

// TestLyingStripe names parity that is not the parity of its data.
func TestLyingStripe(t *testing.T) {
	blocks := [][]byte{noise(1, 50), noise(2, 50)}
	sts, _, err := Encode(blocks, somePeers(4), wire.Digest{})
	if err != nil {
		t.Fatal(err)
	}
	st := sts[0]
	lies := [][]byte{noise(3, 50), noise(4, 50)}
	st.Parity = []wire.CID{wire.RawCID(lies[0]), wire.RawCID(lies[1])}
	if _, err := Restore(st, [][]byte{nil, nil, lies[0], lies[1]}); err == nil {
		t.Fatal("wrong blocks were restored")
	}
}

func testSnapshot(tb testing.TB, n int) wire.Snapshot {
	blocks := [][]byte{noise(1, 50), noise(2, 60), noise(3, 70)}
	s, _, err := NewSnapshot(3, wire.ManifestCID([]byte("m")), blocks, somePeers(n))
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func reopen(s wire.Snapshot) error {
	_, err := wire.OpenSnapshot(wire.Marshal(s))
	return err
}

func TestSnapshotForm(t *testing.T) {
	for _, n := range []int{1, 2, 4, 13} {
		s := testSnapshot(t, n)
		got, err := wire.OpenSnapshot(wire.Marshal(s))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(wire.Marshal(got), wire.Marshal(s)) {
			t.Fatalf("%d holders: another snapshot came back", n)
		}
		held := 0
		for _, p := range somePeers(n) {
			held += len(got.Held(p))
		}
		want := 3
		for _, st := range s.Stripes {
			want += len(st.Parity)
		}
		if held != want {
			t.Errorf("%d holders keep %d blocks, want %d", n, held, want)
		}
	}
	s := testSnapshot(t, 4)
	s.Stripes[0].Data[0], s.Stripes[0].Data[1] = s.Stripes[0].Data[1], s.Stripes[0].Data[0]
	if _, err := wire.OpenSnapshot(wire.Marshal(s)); err == nil {
		t.Error("stripes out of order were taken")
	}
	s = testSnapshot(t, 4)
	s.Stripes[0].Holders[1] = s.Stripes[0].Holders[0]
	if _, err := wire.OpenSnapshot(wire.Marshal(s)); err == nil {
		t.Error("two blocks on one peer were taken")
	}
}

func FuzzSnapshot(f *testing.F) {
	for _, n := range []int{1, 4} {
		f.Add(wire.Marshal(testSnapshot(f, n)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := wire.OpenSnapshot(b)
		if err != nil {
			return
		}
		if !bytes.Equal(wire.Marshal(s), b) {
			t.Fatal("two encodings of one snapshot")
		}
		for _, st := range s.Stripes {
			if _, err := Restore(st, make([][]byte, len(st.Data)+len(st.Parity))); !errors.Is(err, ErrTooFewBlocks) {
				t.Fatal(err)
			}
		}
	})
}
