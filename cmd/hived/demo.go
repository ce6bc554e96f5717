package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/netsim/proc"
	"github.com/apiary-net/hived/train"
	"github.com/apiary-net/hived/wire"
)

func (a *app) demoCmd() *cobra.Command {
	cfg := proc.DemoConfig{Deadline: 15 * time.Minute}
	var kill string
	cmd := &cobra.Command{Use: "demo", Short: "Train one model with several real peers on this machine, and verify it", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if kill != "" {
				if n, err := fmt.Sscanf(kill, "%d@%d", &cfg.Kill, &cfg.KillAt); n != 2 || err != nil || cfg.Kill < 1 {
					return exit.Fail(exit.Usage, nil, "--kill %q, want PEER@ROUND such as 2@5", kill)
				}
			}
			exe, err := os.Executable()
			if err != nil {
				return err
			}
			cfg.Exe = exe
			done := a.demoOutput(c, &cfg)
			r, err := proc.Demo(c.Context(), cfg)
			done()
			if err != nil {
				return err
			}
			if a.json {
				return printJSON(c, r)
			}
			printDemo(c, r)
			return nil
		}}
	f := cmd.Flags()
	f.StringVar(&cfg.Task, "task", "mnist", strings.Join(train.Tasks(), ", "))
	f.IntVar(&cfg.Peers, "peers", 4, "peers")
	f.Uint64Var(&cfg.Rounds, "rounds", 0, "rounds (default: the preset's)")
	f.Uint32Var(&cfg.Steps, "steps", 0, "local steps of a round (default: the preset's)")
	f.StringVar(&cfg.Preset, "preset", "diloco", "see hived run presets")
	f.Uint32Var(&cfg.Group, "group", 0, "most peers that average as one group, 2 to 32 (default 32)")
	f.StringVar(&cfg.Topology, "topology", "", strings.Join(wire.Topologies(), ", ")+" (default: the preset's)")
	f.StringVar(&kill, "kill", "", "PEER@ROUND: kill -9 a peer after a round, restart it two rounds later")
	f.IntVar(&cfg.Lose, "lose", 0, "after half the rounds, lose this many peers with their disks and join as many fresh ones")
	f.StringVar(&cfg.Keep, "keep", "", "keep everything in this directory")
	f.Uint64Var(&cfg.Seed, "seed", 1, "seed")
	return cmd
}

// demoOutput sends lines and a bar to standard error; the bar only to a
// terminal.
func (a *app) demoOutput(c *cobra.Command, cfg *proc.DemoConfig) (done func()) {
	errOut := c.ErrOrStderr()
	cfg.Line = func(s string) { fmt.Fprintln(errOut, s) }
	if !isatty.IsTerminal(os.Stderr.Fd()) || os.Getenv("TERM") == "dumb" {
		return func() {}
	}
	p := mpb.New(mpb.WithOutput(os.Stderr), mpb.WithWidth(40))
	bar := p.AddBar(0, mpb.PrependDecorators(decor.CountersNoUnit("rounds %d/%d")), mpb.AppendDecorators(decor.EwmaETA(decor.ET_STYLE_GO, 4)))
	cfg.Line = func(s string) { _, _ = p.Write([]byte(s + "\n")) }
	last := time.Now()
	cfg.Progress = func(n, total uint64) {
		bar.SetTotal(int64(total), false)
		bar.EwmaSetCurrent(int64(n), time.Since(last))
		last = time.Now()
	}
	return func() {
		bar.Abort(true)
		p.Wait()
	}
}

func printDemo(c *cobra.Command, r *proc.DemoResult) {
	out := c.OutOrStdout()
	if r.Accuracy != nil {
		fmt.Fprintf(out, "accuracy     %.4f on the test split\n", *r.Accuracy)
	}
	fmt.Fprintf(out, "loss         %.4f on the test split (%.4f better than the start)\n", r.Loss, r.Gain)
	fmt.Fprintf(out, "peers        %d, all at version %s\n", r.Peers, tail(r.Versions[0]))
	fmt.Fprintf(out, "counted      %d of %d contributions\n", r.Counted, r.Expected)
	fmt.Fprintf(out, "ledger       %d entries, %d certificates, verified and replayed from the export alone\n", r.Ledger.Entries, r.Ledger.Certificates)
	fmt.Fprintf(out, "bytes        %.1f MB payload, %.1f MB over the sockets\n", float64(r.Bytes.Payload)/1e6, float64(r.Bytes.Socket)/1e6)
	fmt.Fprintf(out, "time         %.1f s, %.0f %% of the CPU time was training, a decision took %.0f ms\n", r.Seconds, 100*r.TrainShare, r.DecideMs)
	if len(r.Killed) > 0 {
		fmt.Fprintf(out, "killed       %s\n", strings.Join(r.Killed, ", "))
	}
	if r.Kept != nil {
		fmt.Fprintf(out, "kept         %s\n", *r.Kept)
	}
}
