package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/apiary-net/hived/daemon"
	"github.com/apiary-net/hived/daemon/exit"
)

func (a *app) doctorCmd() *cobra.Command {
	return &cobra.Command{Use: "doctor", Short: "Check this machine and the peer, with the next step for each finding", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.settings()
			if err != nil {
				return err
			}
			cl, err := a.client()
			if err != nil {
				return err
			}
			checks := daemon.Doctor(c.Context(), cfg, cl)
			if a.json {
				if err := printJSON(c, checks); err != nil {
					return err
				}
			} else {
				w := table(c)
				for _, k := range checks {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", k.Result, k.ID, k.Value, k.Next)
				}
				if err := w.Flush(); err != nil {
					return err
				}
			}
			return verdictOf(checks)
		}}
}

// verdictOf gives exit code 1 for a failed check and 6 for a warning.
func verdictOf(checks []daemon.Check) error {
	warned, failed := 0, 0
	for _, k := range checks {
		switch k.Result {
		case "warn":
			warned++
		case "fail":
			failed++
		}
	}
	if failed > 0 {
		return exit.Fail(exit.Failed, nil, "%d checks failed, %d warn", failed, warned)
	}
	if warned > 0 {
		return exit.Fail(exit.Degraded, nil, "%d checks warn", warned)
	}
	return nil
}
