package nettier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/apiary-net/hived/daemon"
	"github.com/apiary-net/hived/wire"
)

// machine is a machine of the simulated network. It implements live.Machine.
type machine struct {
	index int
	key   wire.Key
	dir   string // identity, lock, genesis: what is not in the stores
	data  string
	step  time.Duration
	net   *network
	disk  *disk // nil: real stores in dir
	log   *slog.Logger

	now *running // nil while no daemon runs
}

// running is one life of a daemon.
type running struct {
	life   *life
	d      *daemon.Daemon
	api    *apiListener
	client *daemon.Client
	cancel context.CancelCauseFunc
	ended  chan error
}

// ID implements live.Machine.
func (m *machine) ID() wire.PeerID { return m.key.Peer() }

func (m *machine) listen() string {
	return fmt.Sprintf("/ip4/%s/udp/%d/quic-v1", address(m.index), port)
}

// Addr implements live.Machine.
func (m *machine) Addr() string { return m.listen() + "/p2p/" + m.ID().String() }

// Client implements live.Machine.
func (m *machine) Client() *daemon.Client {
	if m.now == nil {
		return daemon.NewClientOn(func(context.Context) (net.Conn, error) { return nil, net.ErrClosed })
	}
	return m.now.client
}

// Start implements live.Machine.
func (m *machine) Start(ctx context.Context, bootstrap []string) error {
	if err := m.identity(); err != nil {
		return err
	}
	c := daemon.DefaultConfig()
	c.DataDir, c.Data, c.Logger = m.dir, m.data, m.log.With("machine", m.index)
	c.Store.FreeFloor, c.Train.Threads, c.Train.StepMs = 0, 1, int(m.step.Milliseconds())
	c.Network.Listen, c.Network.Bootstrap, c.Network.MDNS, c.Network.NAT = []string{m.listen()}, bootstrap, false, false
	c.API.Socket = "api" // a name: the listener is not one of this system
	r := &running{life: &life{}, api: newAPIListener(), ended: make(chan error, 1)}
	c.World.ListenUDP = func(local *net.UDPAddr) (net.PacketConn, error) { return m.net.listen(m.index, local) }
	c.World.ListenAPI = func(string, string) (net.Listener, error) { return r.api, nil }
	if m.disk != nil {
		m.disk.open(&c.World, r.life)
	}
	m.net.plug(m.index, true)
	var err error
	if r.d, err = daemon.Open(c); err != nil {
		return err
	}
	rctx, cancel := context.WithCancelCause(context.Background())
	r.cancel, r.client = cancel, daemon.NewClientOn(r.api.dial)
	go func() { r.ended <- r.d.Run(rctx) }()
	m.now = r
	return r.client.WaitReady(ctx)
}

func (m *machine) identity() error {
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return err
	}
	err := daemon.SaveIdentity(m.dir, m.key)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// Kill implements live.Machine: no packet leaves any more and nothing is written.
func (m *machine) Kill(context.Context) error {
	if m.now == nil {
		return nil
	}
	m.net.plug(m.index, false)
	m.now.life.dead.Store(true)
	return m.end(daemon.ErrAbrupt)
}

// Leave implements live.Machine.
func (m *machine) Leave(context.Context) error {
	if m.now == nil {
		return nil
	}
	return m.end(nil)
}

func (m *machine) end(cause error) error {
	r := m.now
	r.cancel(cause)
	err := <-r.ended
	m.now = nil
	r.client.Close()
	if errors.Is(cause, daemon.ErrAbrupt) {
		err = nil // the dead cannot write
	}
	return errors.Join(err, r.d.Close(), r.api.Close())
}

// Wipe implements live.Machine.
func (m *machine) Wipe() error {
	if m.disk != nil {
		m.disk.wipe()
	}
	return os.RemoveAll(m.dir)
}

// Pause implements live.Machine: a goroutine cannot be stopped from outside.
func (m *machine) Pause(stop bool) error {
	if stop {
		return errors.ErrUnsupported
	}
	return nil
}

// apiListener is a listener inside the process.
type apiListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newAPIListener() *apiListener {
	return &apiListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *apiListener) dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (l *apiListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *apiListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr implements net.Listener.
func (l *apiListener) Addr() net.Addr { return &net.UnixAddr{Name: "api", Net: "unix"} }

func machineDir(root string, i int) string { return filepath.Join(root, fmt.Sprintf("peer-%d", i)) }
