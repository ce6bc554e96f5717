package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/gossip"
	"github.com/apiary-net/hived/shards"
	"github.com/apiary-net/hived/wire"
)

// Version of the program; the linker sets it in releases.
var Version = "0.1.0"

// Daemon is one peer.
type Daemon struct {
	cfg   Config
	key   wire.Key
	log   *slog.Logger
	lock  *exit.Lock
	kv    KV
	node  *gossip.Node
	began time.Time

	starting sync.Mutex // held while a run is opened; taken before mu

	mu      sync.RWMutex
	runs    map[wire.RunID]*run // guarded by mu
	ready   bool                // guarded by mu
	stop    context.CancelFunc  // of Run; guarded by mu
	metrics *metrics

	group *errgroup.Group // of Run
	ctx   context.Context // of Run; for goroutines of the group
}

// Open takes the data directory and opens identity, store and network. A missing
// identity is made. Close pairs with it.
func Open(cfg Config) (*Daemon, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, exit.Fail(exit.Resource, err, "make data directory %s", cfg.DataDir)
	}
	l, err := exit.LockDir(cfg.DataDir, "data directory", "stop it or choose another --data-dir")
	if err != nil {
		return nil, err
	}
	d := &Daemon{cfg: cfg, log: cfg.Logger, lock: l, runs: map[wire.RunID]*run{}, began: time.Now()}
	if err := d.open(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *Daemon) open() error {
	key, err := LoadIdentity(d.cfg.DataDir)
	if errors.Is(err, fs.ErrNotExist) {
		key, err = MakeIdentity(d.cfg.DataDir)
	}
	if err != nil {
		return err
	}
	d.key = key
	d.log = d.log.With("peer", key.Peer().Short())
	if d.kv, err = d.openKV(); err != nil {
		d.kv = nil
		return exit.Fail(exit.Resource, err, "open the store")
	}
	d.node, err = gossip.New(gossip.Config{Key: key, Listen: d.cfg.Network.Listen, Bootstrap: d.cfg.Network.Bootstrap,
		MDNS: d.cfg.Network.MDNS, CacheFile: filepath.Join(d.cfg.DataDir, "peers.cache"), Allow: d.cfg.allow(),
		MaxPeers: d.cfg.Network.MaxPeers, NAT: d.cfg.Network.NAT, Agent: "hived/" + Version, Serve: d, Pull: d.answer,
		ListenUDP: d.cfg.World.ListenUDP, Logger: d.log})
	if err != nil {
		return exit.Fail(exit.Resource, err, "open the network")
	}
	d.metrics = newMetrics(d)
	d.node.Handle(protoVote, 16<<10, d.toRun(func(r *run, from wire.PeerID, b []byte) { r.runner.Vote(from, b) }))
	d.node.Handle(protoSlice, wire.MaxSlice, d.toRun(func(r *run, from wire.PeerID, b []byte) { r.runner.Slice(from, b) }))
	d.node.Handle(protoSay, wire.MaxSaid, d.toRun((*run).said))
	d.node.Notify(func(p wire.PeerID, up bool) {
		d.eachRun(func(r *run) { r.links.put(p, up) })
	})
	return nil
}

// Close gives everything back. It is called after Run has returned.
func (d *Daemon) Close() error {
	var errs []error
	if d.node != nil {
		errs = append(errs, d.node.Close())
	}
	if d.kv != nil {
		errs = append(errs, d.kv.Close())
	}
	return errors.Join(append(errs, d.lock.Release())...)
}

// ID returns the peer's id.
func (d *Daemon) ID() wire.PeerID { return d.key.Peer() }

// ErrAbrupt as the cause of a context's end makes Run return without a good-bye,
// as far as others can see like a process that was killed.
var ErrAbrupt = errors.New("the daemon ends abruptly")

// Run serves until ctx ends, then leaves cleanly.
func (d *Daemon) Run(ctx context.Context) error {
	nodeCtx, stopNode := context.WithCancel(context.WithoutCancel(ctx))
	defer stopNode()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	listeners, err := d.listen()
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(nodeCtx)
	d.mu.Lock()
	d.group, d.ctx, d.stop = g, gctx, stop
	d.mu.Unlock()
	srv := d.server()
	for _, l := range listeners {
		g.Go(func() error {
			if err := srv.Serve(l); !errors.Is(err, net.ErrClosed) && !isServerClosed(err) {
				return fmt.Errorf("serve the API: %w", err)
			}
			return nil
		})
	}
	g.Go(func() error { return d.node.Run(gctx) })
	g.Go(func() error { return d.tidy(gctx) })
	g.Go(func() error {
		if err := d.resume(); err != nil {
			d.log.Error("a run could not be resumed", "err", err)
		}
		return nil
	})
	d.mu.Lock()
	d.ready = true
	d.mu.Unlock()
	d.log.Info("ready", "id", d.ID().String(), "addrs", d.node.Addrs(), "api", d.cfg.API.Socket)
	select {
	case <-ctx.Done():
	case <-gctx.Done():
	}
	d.mu.Lock()
	d.ready = false
	d.mu.Unlock()
	d.leave(!errors.Is(context.Cause(ctx), ErrAbrupt))
	sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = srv.Shutdown(sctx) // open event streams are cut below
	_ = srv.Close()
	stopNode()
	err = g.Wait()
	_ = os.Remove(d.cfg.API.Socket)
	if err != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

const tidyEvery = 10 * time.Minute

// tidy gives back disk space of overwritten values now and then.
func (d *Daemon) tidy(ctx context.Context) error {
	t := time.NewTicker(tidyEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
			if err := d.kv.Reclaim(); err != nil && !errors.Is(err, shards.ErrBusy) {
				d.log.Warn("disk space was not reclaimed", "err", err)
			}
		}
	}
}

// Stop asks Run to return.
func (d *Daemon) Stop() {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.stop != nil {
		d.stop()
	}
}

const leaveTime = 5 * time.Second

// leave stops every run; politely it says good-bye first.
func (d *Daemon) leave(politely bool) {
	var wg sync.WaitGroup
	for _, r := range d.allRuns() {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if politely {
				ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
				defer cancel()
				r.leave(ctx)
			}
			r.stop()
		}()
	}
	wg.Wait()
}

// Block implements gossip.BlockSource over all runs.
func (d *Daemon) Block(asker wire.PeerID, id wire.CID) ([]byte, error) {
	worst := error(fs.ErrNotExist)
	for _, r := range d.allRuns() {
		b, err := r.runner.Block(asker, id)
		if err == nil {
			return b, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			worst = err
		}
	}
	return nil, worst
}

func (d *Daemon) allRuns() []*run {
	d.mu.RLock()
	defer d.mu.RUnlock()
	out := make([]*run, 0, len(d.runs))
	for _, r := range d.runs {
		out = append(out, r)
	}
	return out
}

// toRun hands a message to the run that it names, if that is in progress here.
func (d *Daemon) toRun(take func(r *run, from wire.PeerID, b []byte)) func(wire.PeerID, []byte) {
	return func(from wire.PeerID, b []byte) {
		id, ok := wire.RunOf(b)
		if !ok {
			d.node.Blame(from) // it is nothing that anybody may say
			return
		}
		if r, err := d.runOf(id); err == nil {
			take(r, from, b)
		}
	}
}

func (d *Daemon) eachRun(f func(*run)) {
	for _, r := range d.allRuns() {
		f(r)
	}
}
