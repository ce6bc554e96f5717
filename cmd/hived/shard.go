package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/apiary-net/hived/daemon"
	"github.com/apiary-net/hived/daemon/exit"
)

func (a *app) shardCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "shard", Short: "See and check which peer holds which part of the model"}
	cmd.AddCommand(
		&cobra.Command{Use: "map RUN", Short: "Print the stripes of the newest snapshot", Args: cobra.ExactArgs(1),
			RunE: func(c *cobra.Command, args []string) error { return a.shards(c, args[0], "") }},
		&cobra.Command{Use: "verify RUN", Short: "Read every block here, and fetch every other from its holder", Args: cobra.ExactArgs(1),
			RunE: func(c *cobra.Command, args []string) error { return a.shards(c, args[0], "?check=1") }})
	return cmd
}

func (a *app) shards(c *cobra.Command, run, query string) error {
	cl, err := a.client()
	if err != nil {
		return err
	}
	ctx, cancel := a.limit(c)
	defer cancel()
	var m daemon.ShardMap
	if err := cl.Get(ctx, "/api/v1/runs/"+run+"/shards"+query, &m); err != nil {
		return err
	}
	bad := 0
	for _, s := range m.Stripes {
		for _, b := range s.Blocks {
			if b.State == "missing" || b.State == "corrupt" {
				bad++
			}
		}
	}
	if a.json {
		err = printJSON(c, m)
	} else {
		err = printShards(c, m)
	}
	if err == nil && bad > 0 {
		return exit.Fail(exit.Degraded, nil, "%d blocks are missing or corrupt; a stripe is lost when more than its parity is", bad)
	}
	return err
}

func printShards(c *cobra.Command, m daemon.ShardMap) error {
	fmt.Fprintf(c.OutOrStdout(), "snapshot of version %d, state %s\n", m.Version, tail(m.State))
	w := table(c)
	fmt.Fprintln(w, "STRIPE\tBLOCK\tHOLDER\tSTATE")
	for i, s := range m.Stripes {
		for j, b := range s.Blocks {
			kind := fmt.Sprintf("data %d", j+1)
			if j >= s.Data {
				kind = fmt.Sprintf("parity %d", j-s.Data+1)
			}
			fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", i+1, kind, b.Holder, b.State)
		}
	}
	return w.Flush()
}
