package live

import (
	"context"
	"time"

	"github.com/apiary-net/hived/daemon"
	"github.com/apiary-net/hived/netsim"
	"github.com/apiary-net/hived/wire"
)

// Machine is one machine: its disk outlives the daemon that runs on it. The player
// calls a machine's methods one at a time.
type Machine interface {
	ID() wire.PeerID
	// Start starts a daemon on what the disk holds and returns when its API answers.
	// bootstrap are addresses of daemons that run.
	Start(ctx context.Context, bootstrap []string) error
	// Addr is where others reach the daemon; a restart keeps it.
	Addr() string
	// Client asks the daemon that runs.
	Client() *daemon.Client
	// Kill ends the daemon at once, as kill -9 does. It may be called when none
	// runs.
	Kill(ctx context.Context) error
	// Leave ends it politely.
	Leave(ctx context.Context) error
	// Wipe empties the disk of a machine without a daemon, but for its identity.
	Wipe() error
	// Pause stops the daemon in its tracks, or lets it go on.
	Pause(stop bool) error
}

// Network cuts paths between machines.
type Network interface {
	// Cut makes the path between two machines carry nothing, or heals it.
	Cut(a, b int, cut bool) error
}

// Config of Play.
type Config struct {
	Scenario *netsim.Scenario
	Tier     string
	Machines []Machine // one for each peer and spare, by index
	Network  Network   // nil where no scenario may cut
	// Dir is an empty directory for exports.
	Dir string
	// Data is where the daemons find what they train on; see Digits.
	Data string
	// Tick is how often the player looks; default 250 ms.
	Tick time.Duration
	// Patience bounds the wait at the end, until all have the newest version;
	// default 10 min.
	Patience time.Duration
	// Running, if set, is called once in the middle of the run.
	Running func()
	netsim.Options
}
