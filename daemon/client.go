package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/apiary-net/hived/daemon/exit"
)

// Client talks to a daemon's API.
type Client struct {
	http *http.Client
	base string
	at   string
}

// NewClientOn returns a client of a daemon that dial connects to.
func NewClientOn(dial func(context.Context) (net.Conn, error)) *Client {
	t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
	return &Client{&http.Client{Transport: t}, "http://hived", "its own listener"}
}

// Close closes connections that wait for the next request.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// NewClient returns a client of the daemon at unix:///path or
// http://127.0.0.1:port.
func NewClient(api string) (*Client, error) {
	if path, ok := strings.CutPrefix(api, "unix://"); ok {
		t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}}
		return &Client{&http.Client{Transport: t}, "http://hived", api}, nil
	}
	if !strings.HasPrefix(api, "http://") {
		return nil, exit.Fail(exit.Usage, nil, "api address %q, want unix:///path or http://127.0.0.1:port", api)
	}
	return &Client{&http.Client{}, strings.TrimSuffix(api, "/"), api}, nil
}

// Get reads path into out.
func (c *Client) Get(ctx context.Context, path string, out any) error {
	return c.do(ctx, http.MethodGet, path, nil, out)
}

// Post sends in and reads the answer into out; both may be nil.
func (c *Client) Post(ctx context.Context, path string, in, out any) error {
	if in == nil {
		in = struct{}{}
	}
	b, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return c.do(ctx, http.MethodPost, path, b, out)
}

func (c *Client) open(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	q.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(q)
	if err != nil {
		if ctx.Err() != nil {
			return nil, exit.Fail(exit.Timeout, ctx.Err(), "the daemon did not answer %s in time", path)
		}
		return nil, exit.Fail(exit.NoDaemon, errors.Unwrap(err), "no daemon at %s; start one with hived daemon", c.at)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	var e ErrorBody
	if json.Unmarshal(b, &e) == nil && e.Error != "" {
		return nil, exit.Fail(e.Code, nil, "%s", e.Error)
	}
	return nil, exit.Fail(exit.Failed, nil, "%s %s: %s: %s", method, path, resp.Status, bytes.TrimSpace(b))
}

func (c *Client) do(ctx context.Context, method, path string, body []byte, out any) error {
	resp, err := c.open(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 64<<20)).Decode(out); err != nil {
		return fmt.Errorf("read answer of %s: %w", path, err)
	}
	return nil
}

// Rounds calls f for each decided round of a run from number from on; with
// follow set until the run ends.
func (c *Client) Rounds(ctx context.Context, run string, from uint64, follow bool, f func(RoundLine)) error {
	path := fmt.Sprintf("/api/v1/runs/%s/rounds?from=%d", run, from)
	if follow {
		path += "&follow=1"
	}
	resp, err := c.open(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	dec := json.NewDecoder(resp.Body)
	for {
		var l RoundLine
		switch err := dec.Decode(&l); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read rounds: %w", err)
		}
		f(l)
	}
}

// WaitReady waits until the daemon is ready, or ctx ends.
func (c *Client) WaitReady(ctx context.Context) error {
	for {
		var s Status
		err := c.Get(ctx, "/api/v1/status", &s)
		if err == nil && s.Ready {
			return nil
		}
		select {
		case <-ctx.Done():
			return exit.Fail(exit.Timeout, err, "the daemon at %s is not ready", c.at)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
