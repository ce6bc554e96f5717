package gossip

import (
	"errors"
	"net"
	"sync/atomic"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/p2p/transport/quicreuse"
)

// ownSockets is a host whose QUIC sockets Config.ListenUDP opens. Its connection
// manager is not libp2p's own, which then leaves it to us to close.
type ownSockets struct {
	host.Host // nil until it is open
	listen    func(*net.UDPAddr) (net.PacketConn, error)
	manager   *quicreuse.ConnManager
	ip        atomic.Pointer[net.IP] // of the newest socket
}

func (o *ownSockets) options() []quicreuse.Option {
	return []quicreuse.Option{
		func(m *quicreuse.ConnManager) error {
			o.manager = m
			return nil
		},
		quicreuse.OverrideSourceIPSelector(func() (quicreuse.SourceIPSelector, error) { return o, nil }),
		quicreuse.OverrideListenUDP(func(_ string, local *net.UDPAddr) (net.PacketConn, error) {
			c, err := o.listen(local)
			if err == nil {
				o.ip.Store(&local.IP)
			}
			return c, err
		}),
	}
}

// PreferredSourceIPForDestination implements quicreuse.SourceIPSelector.
func (o *ownSockets) PreferredSourceIPForDestination(*net.UDPAddr) (net.IP, error) {
	if ip := o.ip.Load(); ip != nil {
		return *ip, nil
	}
	return nil, errors.New("no socket is open")
}

// Close closes the host, if it was opened, and the sockets. nil closes nothing.
func (o *ownSockets) Close() error {
	if o == nil {
		return nil
	}
	var errs []error
	if o.Host != nil {
		errs = append(errs, o.Host.Close())
	}
	if o.manager != nil {
		errs = append(errs, o.manager.Close())
	}
	return errors.Join(errs...)
}
