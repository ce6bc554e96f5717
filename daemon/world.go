package daemon

import (
	"net"
	"os"
	"path/filepath"

	"github.com/apiary-net/hived/shards"
	"github.com/apiary-net/hived/wire"
)

// KV is the small durable store of a daemon; see shards.BadgerKV, the real one.
type KV interface {
	Get(key []byte) ([]byte, error)
	Apply(puts [][2][]byte, dels [][]byte, sync bool) error
	Scan(prefix []byte, f func(key, value []byte) error) error
	Reclaim() error
	Close() error
}

// Blocks is a store of blocks; see shards.Store, the real one.
type Blocks interface {
	Put(epoch uint64, b []byte) (wire.CID, error)
	Get(id wire.CID) ([]byte, error)
	DropBefore(epoch uint64) error
	Sync() error
	Close() error
}

// World is what a daemon takes from its machine beside the files of its directory.
// A nil field asks the real machine; a simulation gives another one. All functions
// may be called again after what they returned was closed, in the same life or in
// a later one, and find what was stored.
type World struct {
	// KV opens the store in dir.
	KV func(dir string) (KV, error)
	// Blocks opens the block store in dir.
	Blocks func(dir string) (Blocks, error)
	// ListenUDP opens the sockets of QUIC; see gossip.Config.
	ListenUDP func(local *net.UDPAddr) (net.PacketConn, error)
	// ListenAPI listens where the API is served, network unix or tcp.
	ListenAPI func(network, address string) (net.Listener, error)
}

func (d *Daemon) openKV() (KV, error) {
	dir := filepath.Join(d.cfg.DataDir, "kv")
	if open := d.cfg.World.KV; open != nil {
		return open(dir)
	}
	return shards.OpenKV(dir, shards.KVOptions{Logger: d.log})
}

func (d *Daemon) openBlocks(dir string) (Blocks, error) {
	if open := d.cfg.World.Blocks; open != nil {
		return open(dir)
	}
	return shards.Open(dir, shards.Config{FloorBytes: d.cfg.Store.FreeFloor, Logger: d.log})
}

// listenAPI listens for one of the API's addresses. A unix socket is for this
// user alone.
func (d *Daemon) listenAPI(network, address string) (net.Listener, error) {
	if listen := d.cfg.World.ListenAPI; listen != nil {
		return listen(network, address)
	}
	if network == "unix" {
		_ = os.Remove(address) // the directory's lock is ours: nobody listens
	}
	l, err := net.Listen(network, address)
	if err != nil || network != "unix" {
		return l, err
	}
	if err := os.Chmod(address, 0o600); err != nil {
		_ = l.Close() // the first error says why
		return nil, err
	}
	return l, nil
}
