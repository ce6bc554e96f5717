package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/apiary-net/hived/daemon"
	"github.com/apiary-net/hived/netsim"
	"github.com/apiary-net/hived/netsim/live"
	"github.com/apiary-net/hived/wire"
)

// box is a Peer as live.Machine.
type box struct {
	*Peer
	exe string
	key wire.Key
}

// ID implements live.Machine.
func (b *box) ID() wire.PeerID { return b.Peer.ID }

// Addr implements live.Machine.
func (b *box) Addr() string { return b.Peer.Addr }

// Client implements live.Machine.
func (b *box) Client() *daemon.Client { return b.Peer.Client }

// Start implements live.Machine.
func (b *box) Start(ctx context.Context, bootstrap []string) error {
	return b.start(ctx, b.exe, bootstrap...)
}

// Kill implements live.Machine.
func (b *box) Kill(context.Context) error {
	b.Peer.Kill()
	return nil
}

// Leave implements live.Machine.
func (b *box) Leave(context.Context) error {
	if !b.Stop() {
		return fmt.Errorf("peer %s did not leave by itself; its log ends with: %s", b.ID().Short(), b.logTail())
	}
	return nil
}

// Wipe implements live.Machine.
func (b *box) Wipe() error {
	if err := os.RemoveAll(b.Dir); err != nil {
		return err
	}
	if err := os.MkdirAll(b.Dir, 0o700); err != nil {
		return err
	}
	return daemon.SaveIdentity(b.Dir, b.key)
}

// procPatience bounds the wait at the end of a play.
const procPatience = 2 * time.Minute

// Play returns what runs a scenario as real processes of exe. Everything that they
// wrote is removed, but for the exports where Options names a directory.
func Play(exe string) func(context.Context, *netsim.Scenario, netsim.Options) (*netsim.Result, error) {
	return func(ctx context.Context, s *netsim.Scenario, o netsim.Options) (_ *netsim.Result, err error) {
		root, err := os.MkdirTemp("", "hived-netsim-")
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
		cfg := live.Config{Scenario: s, Tier: netsim.TierProc, Dir: filepath.Join(root, "exports"), Data: filepath.Join(root, "data"), Patience: procPatience, Options: o}
		if o.Dir != "" {
			cfg.Dir = filepath.Join(o.Dir, "exports")
		}
		if err := errors.Join(os.RemoveAll(cfg.Dir), live.Digits(cfg.Data)); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
			return nil, err
		}
		if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
			return nil, err
		}
		links, steps := s.Access(s.Swarm.Peers + s.Swarm.Spare)
		var nets *spaces
		if why := needsSpaces(s); why != "" {
			if nets, err = newSpaces(why, links, shaped(s)); err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, nets.Close()) }()
			cfg.Network = nets
		}
		for i, step := range steps {
			b, err := newBox(root, exe, s.Swarm.Seed, i, cfg.Data, step)
			if err != nil {
				return nil, err
			}
			if nets != nil {
				b.space = nets.all[i]
			}
			cfg.Machines = append(cfg.Machines, b)
		}
		return live.Play(ctx, cfg)
	}
}

// newBox makes machine i of a scenario; its local steps take at least step.
func newBox(root, exe string, seed uint64, i int, data string, step time.Duration) (*box, error) {
	key, err := netsim.KeyOf(seed, i)
	if err != nil {
		return nil, err
	}
	p, err := newPeer(filepath.Join(root, fmt.Sprintf("peer-%d", i)), key)
	if err != nil {
		return nil, err
	}
	p.env = []string{"HIVED_TRAIN__DATA=" + data, "HIVED_TRAIN__STEP_MS=" + strconv.FormatInt(step.Milliseconds(), 10)}
	return &box{p, exe, key}, nil
}
