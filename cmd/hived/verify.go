package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/apiary-net/hived/daemon"
	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/ledger/proof"
)

func (a *app) modelCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "model", Short: "Verify and export models"}
	cmd.AddCommand(&cobra.Command{Use: "verify DIR", Short: "Check an export and replay it from genesis to the last version", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := exportDir(args[0])
			if err != nil {
				return err
			}
			v, err := proof.Model(c.Context(), os.DirFS(dir), os.Getenv("HIVED_DATA"))
			if v == nil {
				return err
			}
			if perr := a.printVerified(c, v); perr != nil {
				return perr
			}
			return err
		}})
	cmd.AddCommand(&cobra.Command{Use: "export DIR FILE", Short: "Write the last version of an export as safetensors", Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error { return a.exportModel(c, args[0], args[1]) }}, hfCmd())
	return cmd
}

// exportModel writes a safetensors file; it appears whole or not at all.
func (a *app) exportModel(c *cobra.Command, from, to string) error {
	dir, err := exportDir(from)
	if err != nil {
		return err
	}
	f, err := renameio.NewPendingFile(to)
	if err != nil {
		return exit.Fail(exit.Resource, err, "write %s", to)
	}
	defer f.Cleanup() // does nothing after the rename
	id, err := proof.ExportModel(c.Context(), os.DirFS(dir), f)
	if err != nil {
		return err
	}
	if err := f.CloseAtomicallyReplace(); err != nil {
		return exit.Fail(exit.Resource, err, "write %s", to)
	}
	if a.json {
		return printJSON(c, map[string]string{"version": id.String(), "file": to})
	}
	fmt.Fprintf(c.ErrOrStderr(), "Wrote %s, version %s\n", to, id)
	return nil
}

func (a *app) printVerified(c *cobra.Command, v *proof.Result) error {
	if a.json {
		return printJSON(c, v)
	}
	fmt.Fprint(c.OutOrStdout(), v.Summary())
	return nil
}

// exportDir accepts the export or the directory that holds it.
func exportDir(dir string) (string, error) {
	for _, d := range []string{dir, filepath.Join(dir, "export")} {
		if _, err := os.Stat(filepath.Join(d, "genesis")); err == nil {
			return d, nil
		}
	}
	return "", exit.Fail(exit.Usage, nil, "%s holds no export; make one with hived run export RUN DIR", dir)
}

func (a *app) ledgerCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "ledger", Short: "Look at, verify and export the ledger of a run"}
	cmd.AddCommand(
		&cobra.Command{Use: "head RUN", Short: "Print the signed head of this peer's log", Args: cobra.ExactArgs(1),
			RunE: func(c *cobra.Command, args []string) error {
				h, err := a.ledgerHead(c, args[0])
				if err != nil {
					return err
				}
				if a.json {
					h.Entries = nil
					return printJSON(c, h)
				}
				fmt.Fprint(c.OutOrStdout(), h.Note)
				return nil
			}},
		&cobra.Command{Use: "tail RUN", Short: "Print the last entries of this peer's log", Args: cobra.ExactArgs(1),
			RunE: func(c *cobra.Command, args []string) error {
				h, err := a.ledgerHead(c, args[0])
				if err != nil {
					return err
				}
				if a.json {
					return printJSON(c, h.Entries)
				}
				w := table(c)
				fmt.Fprintln(w, "SEQ\tKIND\tROUND\tREF\tTIME")
				for _, e := range h.Entries {
					fmt.Fprintf(w, "%d\t%s\t%d\t%s\t%s\n", e.Seq, e.Kind, e.Round, tail(e.Ref), e.Time)
				}
				return w.Flush()
			}},
		&cobra.Command{Use: "witness RUN", Short: "Print who saw this peer's log, and who signed two histories", Args: cobra.ExactArgs(1),
			RunE: func(c *cobra.Command, args []string) error {
				h, err := a.ledgerHead(c, args[0])
				if err != nil {
					return err
				}
				if a.json {
					h.Entries = nil
					return printJSON(c, h)
				}
				w := table(c)
				fmt.Fprintln(w, "WITNESS\tSIZE\tTIME")
				for _, s := range h.Cosigned {
					fmt.Fprintf(w, "%s\t%d of %d\t%s\n", s.Witness, s.Size, h.Size, s.Time)
				}
				for _, e := range h.Convicted {
					fmt.Fprintf(w, "CONVICTED %s\t%s\t%s\n", e.Peer, e.Kind, e.Evidence)
				}
				return w.Flush()
			}},
		&cobra.Command{Use: "export RUN DIR", Short: "Write records, logs and blocks for anyone to check", Args: cobra.ExactArgs(2),
			RunE: func(c *cobra.Command, args []string) error { return a.export(c, args[0], args[1]) }},
		&cobra.Command{Use: "verify DIR", Short: "Check every signature, certificate and log of an export", Args: cobra.ExactArgs(1),
			RunE: func(c *cobra.Command, args []string) error {
				dir, err := exportDir(args[0])
				if err != nil {
					return err
				}
				v, err := proof.Ledger(os.DirFS(dir))
				if err != nil {
					return err
				}
				return a.printVerified(c, v)
			}})
	return cmd
}

func (a *app) ledgerHead(c *cobra.Command, run string) (daemon.LedgerHead, error) {
	var h daemon.LedgerHead
	cl, err := a.client()
	if err != nil {
		return h, err
	}
	ctx, cancel := a.limit(c)
	defer cancel()
	return h, cl.Get(ctx, "/api/v1/runs/"+run+"/ledger", &h)
}

// export asks the daemon to write an export.
func (a *app) export(c *cobra.Command, run, dir string) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	cl, err := a.client()
	if err != nil {
		return err
	}
	if err := cl.Post(c.Context(), "/api/v1/runs/"+run+"/export", map[string]string{"dir": abs}, nil); err != nil {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "Wrote %s. Next, anywhere: hived model verify %s\n", abs, dir)
	return nil
}
