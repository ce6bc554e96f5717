package ledger

import (
	"errors"
	"log/slog"
	"time"

	"github.com/apiary-net/hived/wire"
)

// Config is what Open and OpenHeads need.
type Config struct {
	// KV holds the log. It stays the caller's to close.
	KV KV
	// Key signs entries and heads.
	Key wire.Key
	// Run is the run that the log belongs to.
	Run wire.RunID
	// Logger may be nil.
	Logger *slog.Logger
	// Now is the clock of the times in entries and cosignatures; nil is
	// time.Now. No rule reads them.
	Now func() time.Time
}

// Validate reports the first bad field.
func (c Config) Validate() error {
	switch {
	case c.KV == nil:
		return errors.New("config has no kv")
	case len(c.Key.Private()) == 0:
		return errors.New("config has no key")
	case c.Run.IsZero():
		return errors.New("config has no run")
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Bounds of a log.
const (
	// MaxAppend bounds the entries of one Append.
	MaxAppend = 1024
	maxSize   = 1 << 40
)

// Errors that callers test for.
var (
	// ErrDamaged is returned by Open when what is stored does not agree with
	// itself. The log must not be appended to.
	ErrDamaged = errors.New("log is damaged")
	// ErrStopped is returned by Append, with the cause, after a write failed or after
	// Stop: what is on disk is known again only after the log was opened again.
	ErrStopped = errors.New("log is stopped")
	// ErrBehind is returned when another peer shows a valid head of this peer's
	// log that is bigger than the log: the state here is an old copy, and
	// appending would sign a second history.
	ErrBehind = errors.New("this log is older than a head that it signed")
	// ErrInconsistent is returned for a head that was not proved to extend the
	// known one. It is suspicion, not evidence.
	ErrInconsistent = errors.New("head is not proved to extend the known one")
	// ErrEquivocation is returned with an Evidence.
	ErrEquivocation = errors.New("two signed statements contradict each other")
	// ErrOld is returned by Cosign for a head that is not the newest known.
	ErrOld = errors.New("head is not the newest known")
)
