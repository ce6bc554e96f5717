package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/apiary-net/hived/daemon"
	"github.com/apiary-net/hived/daemon/exit"
)

// limit is the context of one command.
func (a *app) limit(c *cobra.Command) (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.Context(), time.Duration(a.timeout*float64(time.Second)))
}

func printJSON(c *cobra.Command, v any) error {
	enc := json.NewEncoder(c.OutOrStdout())
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func table(c *cobra.Command) *tabwriter.Writer {
	return tabwriter.NewWriter(c.OutOrStdout(), 0, 8, 2, ' ', 0)
}

// peerCmds are the verbs about this peer and its daemon.
func (a *app) peerCmds() []*cobra.Command {
	return []*cobra.Command{a.initCmd(), a.daemonCmd(), a.joinCmd(), a.statusCmd(), a.peersCmd(), a.idCmd()}
}

func (a *app) initCmd() *cobra.Command {
	var name string
	cmd := &cobra.Command{Use: "init", Short: "Make an identity and a configuration file", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.load(false)
			if err != nil {
				return err
			}
			if cfg.Node.Name = name; name == "" {
				cfg.Node.Name, _ = os.Hostname()
			}
			if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
				return exit.Fail(exit.Resource, err, "make data directory")
			}
			key, err := daemon.LoadIdentity(cfg.DataDir)
			made := "Kept the identity"
			if errors.Is(err, fs.ErrNotExist) {
				made = "Made a new identity"
				key, err = daemon.MakeIdentity(cfg.DataDir)
			}
			if err != nil {
				return err
			}
			path := a.configPath()
			if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
				b, err := daemon.EncodeConfig(cfg)
				if err == nil {
					err = os.MkdirAll(filepath.Dir(path), 0o700)
				}
				if err == nil {
					err = renameio.WriteFile(path, b, 0o600)
				}
				if err != nil {
					return exit.Fail(exit.Resource, err, "write configuration")
				}
				fmt.Fprintln(c.ErrOrStderr(), "Wrote", path)
			}
			fmt.Fprintf(c.ErrOrStderr(), "%s %s\nNext: hived daemon\n", made, key.Peer())
			return nil
		}}
	cmd.Flags().StringVar(&name, "name", "", "what people call this peer (default: the host name)")
	return cmd
}

func (a *app) daemonCmd() *cobra.Command {
	var listen, bootstrap []string
	var threads int
	var http, name string
	cmd := &cobra.Command{Use: "daemon", Short: "Run the peer until it is stopped", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.settings()
			if err != nil {
				return err
			}
			flags := c.Flags()
			if flags.Changed("listen") {
				cfg.Network.Listen = listen
			}
			cfg.Network.Bootstrap = append(cfg.Network.Bootstrap, bootstrap...)
			if flags.Changed("threads") {
				cfg.Train.Threads = threads
			}
			if flags.Changed("http") {
				cfg.API.HTTP = http
			}
			if name != "" {
				cfg.Node.Name = name
			}
			if path, ok := strings.CutPrefix(a.api, "unix://"); ok {
				cfg.API.Socket = path
			}
			return runDaemon(c, cfg)
		}}
	f := cmd.Flags()
	f.StringSliceVar(&listen, "listen", nil, "multiaddr to listen on; may be given again")
	f.StringSliceVar(&bootstrap, "bootstrap", nil, "multiaddr with /p2p/ID of a peer to join by; may be given again")
	f.IntVar(&threads, "threads", 0, "threads of local training; 0: one per core")
	f.StringVar(&http, "http", "", "loopback address of the API beside the unix socket")
	f.StringVar(&name, "name", "", "what people call this peer")
	return cmd
}

func runDaemon(c *cobra.Command, cfg daemon.Config) error {
	d, err := daemon.Open(cfg)
	if err != nil {
		return err
	}
	err = d.Run(c.Context())
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

func (a *app) joinCmd() *cobra.Command {
	return &cobra.Command{Use: "join ADDRESS", Short: "Join a swarm by one address", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			cl, err := a.client()
			if err != nil {
				return err
			}
			ctx, cancel := a.limit(c)
			defer cancel()
			var out struct {
				Peer  string `json:"peer"`
				Peers int    `json:"peers"`
			}
			fmt.Fprintf(c.ErrOrStderr(), "Dialling %s (gives up after %.0f s)\n", args[0], a.timeout)
			if err := cl.Post(ctx, "/api/v1/join", map[string]any{"address": args[0], "seconds": max(1, a.timeout-1)}, &out); err != nil {
				return err
			}
			if a.json {
				return printJSON(c, out)
			}
			fmt.Fprintf(c.ErrOrStderr(), "Joined: connected to %s, %d peers in all. Next: hived run start NAME\n", out.Peer, out.Peers)
			return nil
		}}
}

func (a *app) statusOf(c *cobra.Command) (daemon.Status, error) {
	var s daemon.Status
	cl, err := a.client()
	if err != nil {
		return s, err
	}
	ctx, cancel := a.limit(c)
	defer cancel()
	return s, cl.Get(ctx, "/api/v1/status", &s)
}

func (a *app) statusCmd() *cobra.Command {
	var exitCode bool
	cmd := &cobra.Command{Use: "status", Aliases: []string{"st"}, Short: "Say how the peer and its runs are", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := a.statusOf(c)
			if err != nil {
				return err
			}
			if a.json {
				err = printJSON(c, s)
			} else {
				err = printStatus(c, s)
			}
			if err == nil && exitCode && (!s.Ready || len(s.Reasons) > 0) {
				return exit.Fail(exit.Degraded, nil, "degraded: %s", strings.Join(s.Reasons, "; "))
			}
			return err
		}}
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "exit with 6 if something is degraded")
	return cmd
}

func printStatus(c *cobra.Command, s daemon.Status) error {
	out := c.OutOrStdout()
	for _, r := range s.Reasons {
		fmt.Fprintln(out, "warning:", r)
	}
	for _, r := range s.Runs {
		for _, p := range r.Convicted {
			fmt.Fprintf(out, "warning: run %s: %s signed two histories; hived ledger witness %s\n", r.Name, p, r.Name)
		}
	}
	for _, b := range s.Bootstrap {
		if !b.Connected && b.LastErr != "" {
			fmt.Fprintf(out, "warning: bootstrap %s: %s (%d tries)\n", b.Addr, b.LastErr, b.Tries)
		}
	}
	fmt.Fprintf(out, "%s %s  hived %s  up %s  %d peers\n", s.Name, s.ID, s.Version, time.Duration(s.Seconds*float64(time.Second)).Round(time.Second), s.Peers)
	for _, addr := range s.Addrs {
		fmt.Fprintln(out, " ", addr)
	}
	if len(s.Runs) == 0 {
		fmt.Fprintln(out, "no runs. Next: hived run new NAME, or hived run start NAME")
		return nil
	}
	w := table(c)
	fmt.Fprintln(w, "RUN\tSTATE\tROUND\tACTIVE\tVOTERS\tLOSS\tVERSION\tNOTE")
	for _, r := range s.Runs {
		note := r.Waiting
		if r.Error != "" {
			note = r.Error
		}
		fmt.Fprintf(w, "%s\t%s\t%d/%d\t%d/%d\t%d\t%.3f\t%s\t%s\n", r.Name, r.State, r.Round, r.Rounds, r.Active, r.Members, r.Voters, r.Loss, tail(r.Version), note)
	}
	return w.Flush()
}

func tail(s string) string { return s[max(0, len(s)-8):] }

func (a *app) idCmd() *cobra.Command {
	return &cobra.Command{Use: "id", Short: "Print the peer's id", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		k, err := daemon.LoadIdentity(a.home())
		if errors.Is(err, fs.ErrNotExist) {
			return exit.Fail(exit.Failed, nil, "no identity in %s; make one with hived init", a.home())
		}
		if err != nil {
			return err
		}
		if a.json {
			return printJSON(c, map[string]string{"id": k.Peer().String()})
		}
		fmt.Fprintln(c.OutOrStdout(), k.Peer())
		return nil
	}}
}

func (a *app) peersCmd() *cobra.Command {
	return &cobra.Command{Use: "peers", Short: "List connected peers", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		cl, err := a.client()
		if err != nil {
			return err
		}
		ctx, cancel := a.limit(c)
		defer cancel()
		var ps []daemon.PeerStatus
		if err := cl.Get(ctx, "/api/v1/peers", &ps); err != nil {
			return err
		}
		if a.json {
			return printJSON(c, ps)
		}
		w := table(c)
		fmt.Fprintln(w, "PEER\tTRANSPORT\tADDRESS\tSINCE\tAGENT")
		for _, p := range ps {
			fmt.Fprintf(w, "%s\t%s\t%s\t%.0f s\t%s\n", p.ID, p.Transport, p.Addr, p.Seconds, p.Agent)
		}
		return w.Flush()
	}}
}
