// Command hived trains one model together with other machines.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/apiary-net/hived/daemon"
	"github.com/apiary-net/hived/daemon/exit"
)

func main() { os.Exit(run(os.Args[1:])) }

// run executes one command line and returns its exit code.
func run(args []string) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go catchSignals(cancel)
	a := &app{args: args}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var sig signalled
	if errors.As(context.Cause(ctx), &sig) { // whatever failed, this is why
		if exit.CodeOf(err) == sig.code() { // and this is what was saved
			fmt.Fprintf(os.Stderr, "hived: %v\n", err)
		}
		return int(sig.code())
	}
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "hived: %v\n", err)
	return int(exit.CodeOf(err))
}

// signalled is why a context was cancelled.
type signalled struct{ s os.Signal }

func (s signalled) Error() string { return "received " + s.s.String() }

func (s signalled) code() exit.Code {
	if s.s == syscall.SIGTERM {
		return exit.Terminated
	}
	return exit.Interrupted
}

// catchSignals cancels on the first signal and ends the process on the second.
func catchSignals(cancel context.CancelCauseFunc) {
	c := make(chan os.Signal, 2)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	s := signalled{<-c}
	cancel(s)
	<-c
	os.Exit(int(s.code()))
}

// app holds the global flags.
type app struct {
	args     []string // of the command line
	config   string
	dataDir  string
	api      string
	json     bool
	logLevel string
	logForm  string
	timeout  float64
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "hived",
		Short: "Train one model together with other machines: no coordinator, no chain, no bucket",
		Long: `hived joins a swarm by one address and trains one model together with the
other peers. What every peer contributed is in a signed ledger that anyone can
check and replay.

Start with:  hived demo
On two hosts:  hived init && hived daemon   (first host, prints its address)
               hived init && hived daemon --bootstrap ADDRESS   (second host)`,
		SilenceUsage: true, SilenceErrors: true, Version: daemon.Version,
	}
	f := root.PersistentFlags()
	f.StringVar(&a.config, "config", "", "configuration file (default: the user's config.toml)")
	f.StringVar(&a.dataDir, "data-dir", "", "data directory (default: the user's data directory)")
	f.StringVar(&a.api, "api", "", "daemon to talk to: unix:///path or http://127.0.0.1:port")
	f.BoolVar(&a.json, "json", false, "print JSON")
	f.StringVar(&a.logLevel, "log-level", "", "debug, info, warn or error")
	f.StringVar(&a.logForm, "log-format", "", "auto, text or json")
	f.Float64Var(&a.timeout, "timeout", 60, "seconds to wait at most")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return exit.Fail(exit.Usage, err, "wrong flag") })
	root.AddCommand(a.peerCmds()...)
	root.AddCommand(a.runCmd(), a.demoCmd(), a.modelCmd(), a.ledgerCmd(), a.shardCmd(), a.trainCmd(), a.generateCmd(), a.netsimCmd(), a.doctorCmd(), a.versionCmd(), helpTopic())
	root.Args = cobra.ArbitraryArgs // usageErrors refuses them with a hint and code 2
	usageErrors(root)
	return root
}

// usageErrors gives wrong arguments and unknown subcommands exit code 2.
func usageErrors(c *cobra.Command) {
	if c.HasSubCommands() && c.RunE == nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			hint := ""
			c.SuggestionsMinimumDistance = 2
			if s := c.SuggestionsFor(args[0]); len(s) > 0 {
				hint = "; did you mean " + strings.Join(s, " or ") + "?"
			}
			return exit.Fail(exit.Usage, nil, "unknown command %q for %q%s", args[0], c.CommandPath(), hint)
		}
	}
	if args := c.Args; args != nil {
		c.Args = func(c *cobra.Command, a []string) error {
			if err := args(c, a); err != nil {
				return exit.Fail(exit.Usage, err, "%s", c.CommandPath())
			}
			return nil
		}
	}
	for _, s := range c.Commands() {
		usageErrors(s)
	}
}

// commandLine is the command that was given, for a shell.
func (a *app) commandLine() string {
	out := "hived"
	for _, w := range a.args {
		if w == "" || strings.ContainsAny(w, " \t\n'\"`$&|;<>()[]{}*?!~#\\") {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		out += " " + w
	}
	return out
}

func (a *app) versionCmd() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		fmt.Fprintln(c.OutOrStdout(), "hived", daemon.Version)
		return nil
	}}
}

func helpTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString("Exit codes:\n")
	for _, e := range exit.Codes {
		fmt.Fprintf(&b, "  %-4d %s\n", e.Code, e.Meaning)
	}
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: b.String()}
}
