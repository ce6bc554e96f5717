package daemon

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/wire"
)

// Config of a daemon, as in config.toml.
type Config struct {
	Schema int `toml:"schema" comment:"version of this file; 1"`
	// DataDir holds identity, store and runs. Not part of the file.
	DataDir string        `toml:"-"`
	Node    NodeConfig    `toml:"node"`
	Network NetworkConfig `toml:"network"`
	Access  AccessConfig  `toml:"access"`
	Train   TrainSection  `toml:"train"`
	Store   StoreConfig   `toml:"store"`
	API     APIConfig     `toml:"api"`
	Log     LogConfig     `toml:"log"`

	Data    string       `toml:"-"` // Train.Data, or the environment's
	Threads int          `toml:"-"`
	Logger  *slog.Logger `toml:"-"`
	World   World        `toml:"-"`
}

// NodeConfig names the peer.
type NodeConfig struct {
	Name string `toml:"name" comment:"what people call this peer; default: the host name"`
}

// NetworkConfig says how the peer meets others.
type NetworkConfig struct {
	Listen    []string `toml:"listen" comment:"multiaddrs; TCP first for bulk"`
	Bootstrap []string `toml:"bootstrap" comment:"multiaddrs with /p2p/ID of peers to join by; more than one is safer"`
	MDNS      bool     `toml:"mdns" comment:"find peers in the local network"`
	NAT       bool     `toml:"nat" comment:"ask the router for a port and punch holes"`
	MaxPeers  int      `toml:"max_peers" comment:"most connections, 1 to 1024"`
}

// AccessConfig says who may connect.
type AccessConfig struct {
	Mode  string   `toml:"mode" comment:"open: everybody may connect; allow-list: only allow"`
	Allow []string `toml:"allow" comment:"peer ids"`
	Deny  []string `toml:"deny" comment:"peer ids; wins over allow"`
}

// TrainSection says what local training may use.
type TrainSection struct {
	Data    string `toml:"data" comment:"directory that datasets are searched in first"`
	Threads int    `toml:"threads" comment:"threads of local training; 0: one per core"`
	StepMs  int    `toml:"step_ms" comment:"milliseconds that a local step takes at least, so that the machine has time for other work; 0: none"`
}

// StoreConfig bounds the disk.
type StoreConfig struct {
	FreeFloor uint64 `toml:"free_floor" comment:"bytes that stay free on the disk; writes that would go below are refused"`
}

// APIConfig says where the local API listens.
type APIConfig struct {
	Socket string `toml:"socket" comment:"unix socket"`
	HTTP   string `toml:"http" comment:"loopback address with port, or empty for none"`
}

// LogConfig says what is logged.
type LogConfig struct {
	Level  string `toml:"level" comment:"debug, info, warn or error"`
	Format string `toml:"format" comment:"auto, text or json"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{Schema: 1,
		Network: NetworkConfig{Listen: []string{"/ip4/0.0.0.0/tcp/4711", "/ip6/::/tcp/4711", "/ip4/0.0.0.0/udp/4711/quic-v1", "/ip6/::/udp/4711/quic-v1"},
			Bootstrap: []string{}, MDNS: true, NAT: true, MaxPeers: 128},
		Access: AccessConfig{Mode: "open", Allow: []string{}, Deny: []string{}},
		Store:  StoreConfig{FreeFloor: 1 << 30},
		API:    APIConfig{HTTP: ""},
		Log:    LogConfig{Level: "info", Format: "auto"},
	}
}

// maxSocketPath is what the kernel allows, less its final zero.
const maxSocketPath = 107

// Validate fills derived values and reports the first field that is wrong.
func (c *Config) Validate() error {
	bad := func(key, format string, args ...any) error {
		return exit.Fail(exit.Config, nil, "config %s: %s", key, fmt.Sprintf(format, args...))
	}
	if c.Schema != 1 {
		return bad("schema", "%d is not known, want 1", c.Schema)
	}
	if c.DataDir == "" {
		return bad("data_dir", "not set")
	}
	if c.Network.MaxPeers < 1 || c.Network.MaxPeers > 1024 {
		return bad("network.max_peers", "%d, want 1 to 1024", c.Network.MaxPeers)
	}
	if c.Access.Mode != "open" && c.Access.Mode != "allow-list" {
		return bad("access.mode", "%q, want open or allow-list", c.Access.Mode)
	}
	for key, list := range map[string][]string{"access.allow": c.Access.Allow, "access.deny": c.Access.Deny} {
		for _, s := range list {
			if _, err := wire.ParsePeer(s); err != nil {
				return bad(key, "%v", err)
			}
		}
	}
	if c.Train.Threads < 0 || c.Train.Threads > 1024 {
		return bad("train.threads", "%d, want 0 to 1024", c.Train.Threads)
	}
	if c.Train.StepMs < 0 || c.Train.StepMs > 3_600_000 {
		return bad("train.step_ms", "%d, want 0 to 3600000", c.Train.StepMs)
	}
	if c.Threads = c.Train.Threads; c.Threads == 0 {
		c.Threads = runtime.NumCPU()
	}
	if c.Data == "" {
		c.Data = c.Train.Data
	}
	if c.API.Socket == "" {
		c.API.Socket = filepath.Join(c.DataDir, "hived.sock")
	}
	if n := len(c.API.Socket); n > maxSocketPath {
		return bad("api.socket", "path of %d bytes, a unix socket's path has at most %d: give a shorter one with --api unix:///PATH", n, maxSocketPath)
	}
	if err := checkLoopback(c.API.HTTP); err != nil {
		return bad("api.http", "%v", err)
	}
	if _, err := ParseLevel(c.Log.Level); err != nil {
		return bad("log.level", "%v", err)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// ParseLevel reads a log level.
func ParseLevel(s string) (slog.Level, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(s)); err != nil {
		return l, fmt.Errorf("%q, want debug, info, warn or error", s)
	}
	return l, nil
}

// allow returns who may connect, nil for everybody.
func (c *Config) allow() func(wire.PeerID) bool {
	allowed, denied := map[wire.PeerID]bool{}, map[wire.PeerID]bool{}
	for _, s := range c.Access.Allow {
		if p, err := wire.ParsePeer(s); err == nil { // Validate has read them all
			allowed[p] = true
		}
	}
	for _, s := range c.Access.Deny {
		if p, err := wire.ParsePeer(s); err == nil {
			denied[p] = true
		}
	}
	if c.Access.Mode == "open" && len(denied) == 0 {
		return nil
	}
	return func(p wire.PeerID) bool { return !denied[p] && (c.Access.Mode == "open" || allowed[p]) }
}
