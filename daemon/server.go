package daemon

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/apiary-net/hived/daemon/exit"
)

// server builds the API. On loopback it answers only to local names, so that no
// web page can reach it through a rebound name, and changes need the header that
// a browser does not send by itself.
func (d *Daemon) server() *http.Server {
	mux := http.NewServeMux()
	for pattern, h := range d.routes() {
		mux.Handle(pattern, h)
	}
	return &http.Server{Handler: guard(mux), ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10}
}

// unixOnly hides h from everybody but those who may open the socket.
func unixOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if a, ok := q.Context().Value(http.LocalAddrContextKey).(net.Addr); !ok || a.Network() != "unix" {
			http.NotFound(w, q)
			return
		}
		h.ServeHTTP(w, q)
	})
}

func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		host := q.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if ip := net.ParseIP(host); host != "localhost" && host != "hived" && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "host is not allowed", http.StatusForbidden)
			return
		}
		if q.Method != http.MethodGet && q.Header.Get("Content-Type") != "application/json" {
			http.Error(w, "changes need Content-Type: application/json", http.StatusUnsupportedMediaType)
			return
		}
		q.Body = http.MaxBytesReader(w, q.Body, 1<<20)
		next.ServeHTTP(w, q)
	})
}

// checkLoopback refuses API addresses that others could reach.
func checkLoopback(addr string) error {
	if addr == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("%s is not a loopback address; the API is for this machine only", addr)
	}
	return nil
}

func (d *Daemon) listen() ([]net.Listener, error) {
	l, err := d.listenAPI("unix", d.cfg.API.Socket)
	if err != nil {
		return nil, exit.Fail(exit.Resource, err, "listen on the API socket")
	}
	out := []net.Listener{l}
	if d.cfg.API.HTTP != "" {
		t, err := d.listenAPI("tcp", d.cfg.API.HTTP)
		if err != nil {
			return nil, errors.Join(exit.Fail(exit.Resource, err, "listen on %s", d.cfg.API.HTTP), l.Close())
		}
		out = append(out, t)
	}
	return out, nil
}

func isServerClosed(err error) bool { return errors.Is(err, http.ErrServerClosed) }
