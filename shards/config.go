package shards

import (
	"errors"
	"fmt"
	"log/slog"
	"syscall"
)

// Config is how a Store behaves.
type Config struct {
	// FloorBytes is the free space that Put leaves on the disk; zero means no
	// floor. The daemon gives its store.free_floor.
	FloorBytes uint64
	// Free tells the bytes that are free for this user in the file system of
	// dir; nil asks the system.
	Free func(dir string) (uint64, error)
	// MaxEpochs bounds the epochs that are open at once, each about 1 MiB of
	// memory and 10 goroutines: 1 to 256, default 16.
	MaxEpochs int
	// Sync makes each Put durable before it returns. Without it a power cut may
	// lose the blocks since the last call of Store.Sync; a crash of the process
	// loses nothing.
	Sync bool
	// Logger may be nil.
	Logger *slog.Logger
}

// Validate reports the first bad field.
func (c Config) Validate() error {
	if c.MaxEpochs < 0 || c.MaxEpochs > 256 {
		return fmt.Errorf("max epochs %d, want 1 to 256", c.MaxEpochs)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.MaxEpochs == 0 {
		c.MaxEpochs = 16
	}
	if c.Free == nil {
		c.Free = FreeBytes
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// FreeBytes returns what an ordinary user may still write in dir's file system.
func FreeBytes(dir string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("ask free space of %s: %w", dir, err)
	}
	return s.Bavail * uint64(s.Bsize), nil
}

// Errors of a Store.
var (
	// ErrNoSpace is returned by Put when the write would go below the floor.
	ErrNoSpace = errors.New("not enough free space")
	// ErrCorrupt is returned by Get when all copies of the block here failed
	// their hash; they are removed, so the next Get says fs.ErrNotExist.
	ErrCorrupt = errors.New("block is corrupt")
	// ErrDropped is returned by Put for an epoch that was dropped.
	ErrDropped = errors.New("epoch was dropped")
	// ErrTooManyEpochs is returned by Put when it would open one more epoch than
	// Config allows.
	ErrTooManyEpochs = errors.New("too many epochs are open")
)
