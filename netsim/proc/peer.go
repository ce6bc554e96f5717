package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/apiary-net/hived/daemon"
	"github.com/apiary-net/hived/wire"
)

// Peer is one hived process.
type Peer struct {
	Dir    string
	ID     wire.PeerID
	Client *daemon.Client
	Addr   string // that others join by; known once it is ready

	env   []string // for the daemon, beside what all have
	space *space   // network namespace; nil: the machine's own network
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has ended
	err   error         // of the process; valid when ended is closed
	cpu   time.Duration // of processes of this peer that ended before
}

// newPeer makes a directory with an identity.
func newPeer(dir string, key wire.Key) (*Peer, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := daemon.SaveIdentity(dir, key); err != nil {
		return nil, err
	}
	c, err := daemon.NewClient("unix://" + filepath.Join(dir, "hived.sock"))
	return &Peer{Dir: dir, ID: key.Peer(), Client: c}, err
}

// start runs `hived daemon` and waits until it is ready.
func (p *Peer) start(ctx context.Context, exe string, bootstrap ...string) error {
	args := []string{"daemon", "--data-dir", p.Dir, "--config", os.DevNull, "--threads", "1", "--log-format", "text"}
	listen := "/ip4/" + p.host() + "/tcp/0"
	if p.Addr != "" { // a restart keeps the address, so that others find it
		listen, _, _ = strings.Cut(p.Addr, "/p2p/")
	}
	args = append(args, "--listen", listen)
	for _, b := range bootstrap {
		args = append(args, "--bootstrap", b)
	}
	log, err := os.OpenFile(filepath.Join(p.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own handle
	p.cmd = p.space.command(exe, args...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = append(os.Environ(), "HIVED_NETWORK__MDNS=false", "HIVED_NETWORK__NAT=false", "HIVED_STORE__FREE_FLOOR=0")
	p.cmd.Env = append(p.cmd.Env, p.env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", exe, err)
	}
	p.ended = make(chan struct{})
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p.ready(ctx)
}

func (p *Peer) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	go func() {
		select {
		case <-p.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := p.Client.WaitReady(ctx); err != nil {
		return fmt.Errorf("peer %s: %w; its log ends with: %s", p.ID.Short(), err, p.logTail())
	}
	var s daemon.Status
	if err := p.Client.Get(ctx, "/api/v1/status", &s); err != nil {
		return err
	}
	for _, a := range s.Addrs {
		if strings.Contains(a, "/ip4/"+p.host()+"/tcp/") {
			p.Addr = a
		}
	}
	if p.Addr == "" {
		return fmt.Errorf("peer %s listens nowhere on %s: %v", p.ID.Short(), p.host(), s.Addrs)
	}
	return nil
}

// host is the address that the daemon listens on.
func (p *Peer) host() string {
	if p.space != nil {
		return p.space.addr
	}
	return "127.0.0.1"
}

// logTail returns the last lines of the peer's log.
func (p *Peer) logTail() string {
	b, err := os.ReadFile(filepath.Join(p.Dir, "log"))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(0, len(b)-800):]))
}

// Running reports whether the process runs.
func (p *Peer) Running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Pause stops the process in its tracks, or lets it go on. A process that has
// ended stays so.
func (p *Peer) Pause(stop bool) error {
	if !p.Running() {
		return nil
	}
	s := syscall.SIGCONT
	if stop {
		s = syscall.SIGSTOP
	}
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("pause peer %s: %w", p.ID.Short(), err)
	}
	return nil
}

// Kill ends the process with SIGKILL and waits for its end.
func (p *Peer) Kill() { p.signal(syscall.SIGKILL, time.Minute) }

// Stop ends the process with SIGTERM, after ten seconds with SIGKILL. It returns
// whether the process left by itself.
func (p *Peer) Stop() bool { return p.signal(syscall.SIGTERM, 10*time.Second) }

func (p *Peer) signal(s syscall.Signal, limit time.Duration) bool {
	if !p.Running() {
		return true
	}
	_ = p.cmd.Process.Signal(s) // it may just have ended
	clean := true
	select {
	case <-p.ended:
	case <-time.After(limit):
		clean = false
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	p.cpu += p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
	return clean
}

// CPU returns the processor time of the peer's processes that have ended.
func (p *Peer) CPU() time.Duration { return p.cpu }
