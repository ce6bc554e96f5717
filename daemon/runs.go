package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/renameio/v2"

	"github.com/apiary-net/hived/consensus/gpbft"
	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/elastic"
	"github.com/apiary-net/hived/elastic/decide"
	"github.com/apiary-net/hived/elastic/version"
	"github.com/apiary-net/hived/gossip"
	"github.com/apiary-net/hived/ledger"
	"github.com/apiary-net/hived/train"
	"github.com/apiary-net/hived/wire"
)

// run is one run in progress at this peer.
type run struct {
	d       *Daemon
	id      wire.RunID
	genesis wire.Genesis
	sealed  []byte
	runner  *elastic.Runner
	trainer *trainer
	log     *ledger.Log
	witness *ledger.Witness
	snaps   *snapshots
	bodies  Blocks
	states  Blocks
	net     *runNet
	cancel  context.CancelFunc
	done    chan struct{}
	links   *linkQueue
	err     error // of the runner; valid when done is closed

	progress progress
}

// runKV is the part of the daemon's store that belongs to a run.
type runKV struct {
	kv     KV
	prefix []byte
}

func (k runKV) key(b []byte) []byte { return append(append([]byte{}, k.prefix...), b...) }

func (k runKV) Get(key []byte) ([]byte, error) { return k.kv.Get(k.key(key)) }

func (k runKV) Apply(puts [][2][]byte, dels [][]byte, sync bool) error {
	p := make([][2][]byte, len(puts))
	for i, kv := range puts {
		p[i] = [2][]byte{k.key(kv[0]), kv[1]}
	}
	q := make([][]byte, len(dels))
	for i, b := range dels {
		q[i] = k.key(b)
	}
	return k.kv.Apply(p, q, sync)
}

func (k runKV) Scan(prefix []byte, f func(key, value []byte) error) error {
	return k.kv.Scan(k.key(prefix), func(key, value []byte) error { return f(key[len(k.prefix):], value) })
}

func (k runKV) Close() error { return nil }

// bodyStore keeps bodies of many rounds in one epoch, and reads snapshots too.
type bodyStore struct{ bodies, snaps Blocks }

func (b bodyStore) Put(round uint64, data []byte) (wire.CID, error) {
	return b.bodies.Put(round/1024, data)
}

func (b bodyStore) Sync() error { return b.bodies.Sync() }

func (b bodyStore) Get(id wire.CID) ([]byte, error) {
	if data, err := b.bodies.Get(id); err == nil {
		return data, nil
	}
	return b.snaps.Get(id)
}

func (d *Daemon) runDir(id wire.RunID) string {
	return filepath.Join(d.cfg.DataDir, "runs", id.String())
}

// StartRun takes part in the run of a sealed genesis. A run that is in progress
// here, or that a start is just resuming, is no error; one that has stopped with an
// error is opened anew.
func (d *Daemon) StartRun(sealed []byte) (wire.RunID, error) {
	g, id, err := version.OpenGenesis(sealed)
	if err == nil {
		err = train.KnownOptimizer(g.Preset.Inner.Optimizer)
	}
	if err != nil {
		return id, exit.Fail(exit.Integrity, err, "run refused")
	}
	d.starting.Lock() // a run's stores can be opened once
	defer d.starting.Unlock()
	if d.inProgress(id) {
		return id, nil
	}
	r, err := d.openRun(g, id, sealed)
	if err != nil {
		return id, err
	}
	if err := d.setRunState(id, "started"); err != nil {
		r.close()
		return id, err
	}
	d.mu.Lock()
	if d.ctx == nil {
		d.mu.Unlock()
		r.close()
		return id, nil
	}
	d.runs[id] = r
	ctx, cancel := context.WithCancel(d.ctx)
	r.cancel = cancel
	group := d.group
	d.mu.Unlock()
	group.Go(func() error {
		r.main(ctx)
		return nil
	})
	return id, nil
}

// inProgress reports whether a run is in progress here, and forgets one that has
// stopped. The caller holds d.starting.
func (d *Daemon) inProgress(id wire.RunID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.runs[id]
	if r == nil {
		return false
	}
	select {
	case <-r.done:
		delete(d.runs, id)
		return false
	default:
		return true
	}
}

// setRunState writes down whether a run is resumed by the next life.
func (d *Daemon) setRunState(id wire.RunID, state string) error {
	if err := d.kv.Apply([][2][]byte{{runStateKey(id), []byte(state)}}, nil, true); err != nil {
		return exit.Fail(exit.Resource, err, "write down that run %s is %s", id.Short(), state)
	}
	return nil
}

func runStateKey(id wire.RunID) []byte { return append([]byte("daemon/run/"), id[:]...) }

// openRun opens what a run needs: data, model, stores, log, topic.
func (d *Daemon) openRun(g wire.Genesis, id wire.RunID, sealed []byte) (*run, error) {
	dir := d.runDir(id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, exit.Fail(exit.Resource, err, "make run directory")
	}
	data, err := train.OpenDataOf(g.Data[0], d.cfg.Data)
	if err != nil {
		return nil, exit.Fail(exit.Incompatible, err, "run %s needs data %q", g.Name, g.Data[0].Name)
	}
	root, err := data.Digest()
	if err != nil {
		return nil, exit.Fail(exit.Incompatible, err, "read data %q", g.Data[0].Name)
	}
	if root != g.Data[0].Root {
		return nil, exit.Fail(exit.Incompatible, nil, "data %q here has root %s, run %s wants %s", g.Data[0].Name, root.Short(), g.Name, g.Data[0].Root.Short())
	}
	t, err := d.newTrainer(&g, data)
	if err != nil {
		return nil, exit.Fail(exit.Incompatible, err, "run %s needs model %q", g.Name, g.Model.Name)
	}
	if s := t.Schema(); s.Digest() != g.Schema {
		_ = t.Close() // the first error says why
		return nil, exit.Fail(exit.Incompatible, nil, "model %q here has schema %s, run %s wants %s", g.Model.Name, s.Digest().Short(), g.Name, g.Schema.Short())
	}
	r := &run{d: d, id: id, genesis: g, sealed: sealed, trainer: t, done: make(chan struct{}), links: newLinkQueue()}
	if err := renameio.WriteFile(filepath.Join(dir, "genesis"), sealed, 0o600); err != nil {
		r.close()
		return nil, exit.Fail(exit.Resource, err, "keep genesis")
	}
	if err := r.openStores(dir, root); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *run) openStores(dir string, root wire.Digest) (err error) {
	d := r.d
	if r.bodies, err = d.openBlocks(filepath.Join(dir, "bodies")); err != nil {
		r.bodies = nil
		return exit.Fail(exit.Resource, err, "open bodies")
	}
	if r.states, err = d.openBlocks(filepath.Join(dir, "states")); err != nil {
		r.states = nil
		return exit.Fail(exit.Resource, err, "open states")
	}
	kv := runKV{d.kv, append([]byte("run/"), r.id[:]...)}
	r.snaps = &snapshots{r: r, kv: kv}
	if r.snaps.store, err = d.openBlocks(filepath.Join(dir, "snapshots")); err != nil {
		r.snaps.store = nil
		return exit.Fail(exit.Resource, err, "open snapshots")
	}
	lcfg := ledger.Config{KV: kv, Key: d.key, Run: r.id, Logger: d.log}
	if r.log, err = ledger.Open(lcfg); err != nil {
		return exit.Fail(exit.Integrity, err, "open the ledger")
	}
	heads, err := ledger.OpenHeads(lcfg)
	if err != nil {
		return exit.Fail(exit.Integrity, err, "open the heads of others' logs")
	}
	r.net = &runNet{Members: gossip.NewMembers(d.node, protoSay), node: d.node}
	r.witness = ledger.NewWitness(heads, r.log, witnessPeers{r})
	agree := gpbft.NewAgreement(gpbft.Config{Key: d.key, Run: r.id, Logger: d.log, Slot: elastic.Slots(kv)})
	r.runner, err = elastic.New(elastic.Config{Genesis: &r.genesis, Run: r.id, Key: d.key, Trainer: r.trainer, Net: r.net, KV: kv,
		Bodies: bodyStore{r.bodies, r.snaps.store}, States: r.states, Snapshots: r.snaps, Log: r.witness, Agree: agree, DataRoot: root, Observe: r.observe, Logger: d.log})
	if err != nil {
		return exit.Fail(exit.Incompatible, err, "take part in run %s", r.genesis.Name)
	}
	topic, err := d.node.Join("/hived/"+r.id.String()+"/1", func(_ wire.PeerID, b []byte) (any, gossip.Verdict) {
		e, v := r.runner.Judge(b)
		return e, verdict(v)
	})
	if err != nil {
		return exit.Fail(exit.Failed, err, "join the run's topic")
	}
	r.net.Subscribe(topic)
	return nil
}

// main runs the runner and feeds it announcements until ctx ends.
func (r *run) main(ctx context.Context) {
	defer close(r.done)
	defer r.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		for {
			select {
			case m, ok := <-r.net.Topic().Inbox():
				if !ok {
					return
				}
				if e := m.Checked.(wire.Envelope); !r.takeStatement(e) {
					r.runner.Hear(ctx, e)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	wg.Add(1)
	go func() {
		defer wg.Done()
		r.witness.Run(ctx)
	}()
	wg.Add(1)
	go func() {
		defer wg.Done()
		r.links.run(ctx, r.runner.Connected)
	}()
	r.err = r.runner.Run(ctx)
	if r.err != nil {
		r.d.log.Error("run stopped", "run", r.id.Short(), "err", r.err)
	}
	cancel()
	wg.Wait()
}

// said takes an announcement that came directly; whoever sends what is provably
// bad is blamed, as on the topic.
func (r *run) said(from wire.PeerID, b []byte) {
	switch e, v := r.runner.Judge(b); v {
	case decide.Accept:
		if !r.takeStatement(e) {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			r.runner.Hear(ctx, e)
		}
	case decide.Reject:
		r.d.node.Blame(from)
	}
}

func (r *run) close() {
	var errs []error
	if r.net != nil && r.net.Topic() != nil {
		errs = append(errs, r.net.Topic().Leave())
	}
	if r.bodies != nil {
		errs = append(errs, r.bodies.Close())
	}
	if r.states != nil {
		errs = append(errs, r.states.Close())
	}
	if r.snaps != nil && r.snaps.store != nil {
		errs = append(errs, r.snaps.store.Close())
	}
	errs = append(errs, r.trainer.Close())
	if err := errors.Join(errs...); err != nil {
		r.d.log.Warn("close run", "run", r.id.Short(), "err", err)
	}
}

// leave says good-bye and waits until a record knows it, or ctx ends.
func (r *run) leave(ctx context.Context) { r.runner.Leave(ctx) }

func (r *run) stop() {
	if r.cancel != nil {
		r.cancel()
	}
	<-r.done
}

// resume starts the runs that an earlier life took part in.
func (d *Daemon) resume() error {
	var ids []wire.RunID
	err := d.kv.Scan([]byte("daemon/run/"), func(k, v []byte) error {
		var id wire.RunID
		if copy(id[:], k[len("daemon/run/"):]) == len(id) && string(v) == "started" {
			ids = append(ids, id)
		}
		return nil
	})
	errs := []error{err}
	for _, id := range ids {
		b, err := os.ReadFile(filepath.Join(d.runDir(id), "genesis"))
		if err == nil {
			_, err = d.StartRun(b)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("resume run %s: %w", id.Short(), err))
		}
	}
	return errors.Join(errs...)
}

// StopRun leaves a run; it does not resume by itself any more. Where that cannot be
// written down the run goes on.
func (d *Daemon) StopRun(ctx context.Context, id wire.RunID) error {
	d.starting.Lock()
	defer d.starting.Unlock()
	d.mu.RLock()
	r := d.runs[id]
	d.mu.RUnlock()
	if r == nil {
		return exit.Fail(exit.Usage, nil, "run %s is not in progress here; see hived run ls", id.Short())
	}
	if err := d.setRunState(id, "stopped"); err != nil {
		return err
	}
	r.leave(ctx)
	r.stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.runs, id)
	return nil
}
