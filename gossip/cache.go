package gossip

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	ma "github.com/multiformats/go-multiaddr"

	"github.com/apiary-net/hived/wire"
)

const (
	maxCacheBytes = 1 << 20
	cacheEvery    = time.Minute
)

// cached is one line of the peer cache.
type cached struct {
	ID    string   `json:"id"`
	Addrs []string `json:"addrs"`
	Seen  int64    `json:"seen"` // seconds since 1970
}

type cacheFile struct {
	Schema string   `json:"schema"` // hived.peers/v1
	Peers  []cached `json:"peers"`
}

// parseCache reads a cache file; entries that make no sense are left out.
func parseCache(b []byte) (map[wire.PeerID][]ma.Multiaddr, error) {
	if len(b) > maxCacheBytes {
		return nil, fmt.Errorf("peer cache of %d bytes, limit %d", len(b), maxCacheBytes)
	}
	var f cacheFile
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, err
	}
	if f.Schema != "hived.peers/v1" {
		return nil, fmt.Errorf("schema %q, want hived.peers/v1", f.Schema)
	}
	out := map[wire.PeerID][]ma.Multiaddr{}
	for _, c := range f.Peers[:min(len(f.Peers), maxBook)] {
		id, err := wire.ParsePeer(c.ID)
		if err != nil {
			continue
		}
		if addrs := parseAddrs(c.Addrs); len(addrs) > 0 {
			out[id] = addrs
		}
	}
	return out, nil
}

// parseAddrs reads at most maxAddrs addresses, leaving out what is none.
func parseAddrs(ss []string) []ma.Multiaddr {
	var out []ma.Multiaddr
	for _, s := range ss[:min(len(ss), maxAddrs)] {
		if len(s) > maxAddrBytes {
			continue
		}
		if a, err := ma.NewMultiaddr(s); err == nil && kind(a) != "relay" {
			out = append(out, a)
		}
	}
	return out
}

func (b *book) load(name string) error {
	raw, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	peers, err := parseCache(raw)
	if err != nil {
		return err
	}
	for id, addrs := range peers {
		b.learn(id, addrs, time.Time{})
	}
	return nil
}

// snapshot returns the cache's content, those seen last first.
func (b *book) snapshot() []byte {
	b.mu.Lock()
	var cs []*contact
	for _, c := range b.peers {
		if !c.seen.IsZero() || len(c.boot) == 0 {
			cs = append(cs, c)
		}
	}
	slices.SortFunc(cs, byNeed)
	f := cacheFile{Schema: "hived.peers/v1", Peers: []cached{}}
	for _, c := range cs {
		e := cached{ID: c.id.String(), Seen: max(0, c.seen.Unix())}
		for _, a := range c.addrs[:min(len(c.addrs), maxAddrs)] {
			e.Addrs = append(e.Addrs, a.String())
		}
		f.Peers = append(f.Peers, e)
	}
	b.mu.Unlock()
	raw, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("gossip: encode peer cache: %v", err))
	}
	return append(raw, '\n')
}

// cacheLoop writes the cache now and then, and at the end.
func (n *Node) cacheLoop(ctx context.Context) error {
	tick := time.NewTicker(cacheEvery)
	defer tick.Stop()
	last := ""
	for {
		done := false
		select {
		case <-ctx.Done():
			done = true
		case <-tick.C:
		}
		n.refreshBook()
		if b := n.book.snapshot(); string(b) != last {
			if err := writeAtomic(n.cfg.CacheFile, b); err != nil {
				n.log.Warn("peer cache is not written", "file", n.cfg.CacheFile, "err", err)
			} else {
				last = string(b)
			}
		}
		if done {
			return ctx.Err()
		}
	}
}

// writeAtomic replaces a file whole: temporary file, fsync, rename, fsync of the
// folder.
func writeAtomic(name string, b []byte) (err error) {
	dir := filepath.Dir(name)
	f, err := os.CreateTemp(dir, filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	if _, err := f.Write(b); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return f.Close()
	}
	return errors.Join(d.Sync(), d.Close(), f.Close())
}
