package gossip

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/apiary-net/hived/wire"
)

func FuzzWant(f *testing.F) {
	_, ids := someBlocks(3, 10)
	f.Add(encodeWant(ids))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		ids, err := parseWant(b)
		if err != nil {
			if !errors.Is(err, errAbuse) {
				t.Fatal(err)
			}
			return
		}
		if len(ids) > fetchWindow || !bytes.Equal(encodeWant(ids), b) {
			t.Fatalf("%d ids from %d bytes", len(ids), len(b))
		}
	})
}

func FuzzTold(f *testing.F) {
	f.Add(wire.Marshal(wire.PeerList{{Peer: wire.PeerID{1}, Addrs: []string{"/ip4/10.0.0.1/tcp/1", "junk"}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		peers, err := parseTold(b)
		if err == nil && len(peers) > wire.MaxTold {
			t.Fatalf("%d peers", len(peers))
		}
		for _, addrs := range peers {
			if len(addrs) == 0 || len(addrs) > maxAddrs {
				t.Fatalf("%d addresses", len(addrs))
			}
		}
	})
}

func FuzzCache(f *testing.F) {
	b := newBook(Config{Key: wire.NewKey(), Degree: 1, RedialMax: time.Second})
	b.learn(wire.NewKey().Peer(), parseAddrs([]string{"/ip4/10.0.0.1/tcp/1"}), time.Unix(1, 0))
	f.Add(b.snapshot())
	f.Fuzz(func(t *testing.T, b []byte) {
		peers, err := parseCache(b)
		if err == nil && len(peers) > maxBook {
			t.Fatalf("%d peers", len(peers))
		}
	})
}

// byteStream is a stream whose other end sent b and hung up.
type byteStream struct {
	network.Stream
	r *bytes.Reader
}

func (s byteStream) Read(p []byte) (int, error)      { return s.r.Read(p) }
func (s byteStream) SetReadDeadline(time.Time) error { return nil }
func (s byteStream) Scope() network.StreamScope      { return &network.NullScope{} }

func FuzzFrame(f *testing.F) {
	f.Add(appendFrame(nil, []byte("hello")))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		const limit = 1000
		s := byteStream{r: bytes.NewReader(in)}
		var again []byte
		for {
			b, release, err := readFrame(s, limit, time.Second, time.Second)
			if err != nil {
				if err == io.EOF && !bytes.Equal(again, in) {
					t.Fatal("frames are not what was sent")
				}
				return
			}
			if len(b) > limit {
				t.Fatalf("frame of %d bytes", len(b))
			}
			release()
			again = appendFrame(again, b)
		}
	})
}
