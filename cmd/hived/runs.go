package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/apiary-net/hived/daemon"
	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/tensorops/codec"
	"github.com/apiary-net/hived/train"
	"github.com/apiary-net/hived/wire"
)

func (a *app) runCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "run", Short: "Make, start, watch and stop training runs"}
	cmd.AddCommand(a.runNew(), a.runStart(), a.runLs(), a.runShow(), a.runLog(), a.runStop(), a.runPresets(), a.runExport())
	return cmd
}

func (a *app) runNew() *cobra.Command {
	var s daemon.RunSpec
	cmd := &cobra.Command{Use: "new NAME", Short: "Make a run and take part in it", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			s.Name = args[0]
			cl, err := a.client()
			if err != nil {
				return err
			}
			ctx, cancel := a.limit(c)
			defer cancel()
			var out struct {
				ID string `json:"id"`
			}
			if err := cl.Post(ctx, "/api/v1/runs", s, &out); err != nil {
				return err
			}
			if a.json {
				return printJSON(c, out)
			}
			fmt.Fprintf(c.ErrOrStderr(), "Run %s %s, waiting for %d peers. On the others: hived run start %s\n", s.Name, out.ID[:8], max(1, s.MinPeers), s.Name)
			return nil
		}}
	f := cmd.Flags()
	f.StringVar(&s.Task, "task", "mnist", strings.Join(train.Tasks(), ", "))
	f.StringVar(&s.Preset, "preset", "diloco", "see hived run presets")
	f.Uint64Var(&s.Rounds, "rounds", 0, "rounds (default: the preset's)")
	f.Uint32Var(&s.Steps, "steps", 0, "local steps of a round (default: the preset's)")
	f.Uint32Var(&s.Batch, "batch", 0, "samples of a local step (default: the task's)")
	f.Uint32Var(&s.MinPeers, "min-peers", 1, "peers that must be ready before the first round")
	f.Uint64Var(&s.Seed, "seed", 1, "seed of start weights and of the order of samples")
	f.StringVar(&s.Codec, "codec", "", strings.Join(codec.Names(), ", ")+" (default: the preset's)")
	f.Uint32Var(&s.Snapshot, "snapshot", 0, "versions from one striped snapshot to the next (default 8)")
	f.Uint32Var(&s.Group, "group", 0, "most peers that average as one group, 2 to 32 (default 32)")
	f.StringVar(&s.Topology, "topology", "", strings.Join(wire.Topologies(), ", ")+" (default: the preset's)")
	f.StringSliceVar(&s.Allow, "allow", nil, "peer id that may become a member; may be given again; none: everybody")
	return cmd
}

func (a *app) runStart() *cobra.Command {
	return &cobra.Command{Use: "start NAME|ID", Short: "Take part in a run that a peer knows, or go on with one", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			cl, err := a.client()
			if err != nil {
				return err
			}
			ctx, cancel := a.limit(c)
			defer cancel()
			var out struct {
				ID string `json:"id"`
			}
			fmt.Fprintf(c.ErrOrStderr(), "Looking for run %s (gives up after %.0f s)\n", args[0], a.timeout)
			if err := cl.Post(ctx, "/api/v1/runs/"+args[0]+"/start", map[string]any{"seconds": max(1, a.timeout-1)}, &out); err != nil {
				return err
			}
			if a.json {
				return printJSON(c, out)
			}
			fmt.Fprintf(c.ErrOrStderr(), "Taking part in run %s. Next: hived run log -f %s\n", out.ID[:8], args[0])
			return nil
		}}
}

func (a *app) runLs() *cobra.Command {
	return &cobra.Command{Use: "ls", Short: "List the runs of this peer", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		s, err := a.statusOf(c)
		if err != nil {
			return err
		}
		if a.json {
			return printJSON(c, s.Runs)
		}
		w := table(c)
		fmt.Fprintln(w, "ID\tNAME\tTASK\tPRESET\tSTATE\tROUND\tLOSS")
		for _, r := range s.Runs {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d/%d\t%.3f\n", r.ID[:8], r.Name, r.Task, r.Preset, r.State, r.Round, r.Rounds, r.Loss)
		}
		return w.Flush()
	}}
}

func (a *app) runShow() *cobra.Command {
	return &cobra.Command{Use: "show RUN", Short: "Print everything that the genesis fixes", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			cl, err := a.client()
			if err != nil {
				return err
			}
			ctx, cancel := a.limit(c)
			defer cancel()
			var g json.RawMessage
			if err := cl.Get(ctx, "/api/v1/runs/"+args[0]+"/genesis", &g); err != nil {
				return err
			}
			var full wire.Genesis
			if err := json.Unmarshal(g, &full); err != nil || a.json {
				return printJSON(c, g)
			}
			printGenesis(c, &full)
			return nil
		}}
}

func printGenesis(c *cobra.Command, g *wire.Genesis) {
	p := g.Preset
	w := table(c)
	defer w.Flush()
	row := func(k, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", k, fmt.Sprintf(format, args...)) }
	row("name", "%s", g.Name)
	row("creator", "%s", g.Creator)
	row("model", "%s %v", g.Model.Name, g.Model.Args)
	row("data", "%s, %d training samples, root %s", g.Data[0].Name, g.Data[0].Train, g.Data[0].Root.Short())
	row("preset", "%s: %d steps a round, window %v, %s", p.Label, p.Cadence.Steps, p.Cadence.Window, p.Topology)
	row("local", "%s, rate %v, batch %d", p.Inner.Optimizer, p.Inner.LR, p.Inner.Batch)
	row("aggregator", "%s, codec %s, merged %s", p.Aggregator, p.Codec, p.Merged)
	row("outer", "%s, rate %v, momentum %v", p.Outer.Rule, p.Outer.LR, p.Outer.Momentum)
	row("rounds", "%d, starts with %d peers", g.Rounds, g.MinPeers)
	row("admission", "%s, %d keys", g.Admission.Mode, len(g.Admission.Allow))
	row("replay", "%s", g.Replay)
}

func (a *app) runLog() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{Use: "log RUN", Short: "Print one line a round", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			cl, err := a.client()
			if err != nil {
				return err
			}
			enc := json.NewEncoder(c.OutOrStdout())
			return cl.Rounds(c.Context(), args[0], 1, follow, func(l daemon.RoundLine) {
				if a.json {
					_ = enc.Encode(l) // a closed pipe ends the program
					return
				}
				fmt.Fprintln(c.OutOrStdout(), l.Text)
			})
		}}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the run ends")
	return cmd
}

func (a *app) runStop() *cobra.Command {
	return &cobra.Command{Use: "stop RUN", Short: "Leave a run", Args: cobra.ExactArgs(1), RunE: func(c *cobra.Command, args []string) error {
		cl, err := a.client()
		if err != nil {
			return err
		}
		ctx, cancel := a.limit(c)
		defer cancel()
		if err := cl.Post(ctx, "/api/v1/runs/"+args[0]+"/stop", nil, nil); err != nil {
			return err
		}
		fmt.Fprintf(c.ErrOrStderr(), "Left run %s\n", args[0])
		return nil
	}}
}

func (a *app) runPresets() *cobra.Command {
	return &cobra.Command{Use: "presets", Short: "List the synchronisation methods", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		if a.json {
			return printJSON(c, rules.Presets)
		}
		w := table(c)
		fmt.Fprintln(w, "PRESET\tWHAT IT DOES\tSOURCE")
		for _, p := range rules.Presets {
			fmt.Fprintf(w, "%s\t%s\t%s\n", p.Name, p.About, p.Source)
		}
		return w.Flush()
	}}
}

func (a *app) runExport() *cobra.Command {
	return &cobra.Command{Use: "export RUN DIR", Short: "Write records, logs and blocks for anyone to check", Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error { return a.export(c, args[0], args[1]) }}
}
