package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// group is one invocation of go test.
type group struct {
	env  []string
	args []string
}

func main() { os.Exit(run()) }

func run() int {
	name := flag.String("name", "tests", "what the last line calls the tier")
	fuzz := flag.Int("fuzz", 0, "run every fuzz target on this many inputs")
	flag.Parse()
	groups, err := groupsOf(flag.Args(), *fuzz)
	if err != nil {
		fmt.Fprintln(os.Stderr, "tier:", err)
		return 2
	}
	c := newCount(os.Stdout)
	for _, g := range groups {
		if err := c.runGroup(g); err != nil {
			fmt.Fprintln(os.Stderr, "tier:", err)
			return 2
		}
	}
	return c.report(*name, os.Getenv("HIVED_REQUIRE") == "all")
}

func groupsOf(args []string, fuzz int) ([]group, error) {
	if fuzz > 0 {
		return fuzzGroups(args, fuzz)
	}
	var out []group
	var g group
	for _, a := range append(args, "::") {
		switch {
		case a == "::":
			if len(g.args) == 0 {
				return nil, fmt.Errorf("a group of no arguments")
			}
			out = append(out, g)
			g = group{}
		case len(g.args) == 0 && !strings.HasPrefix(a, "-") && strings.Contains(a, "="):
			g.env = append(g.env, a)
		default:
			g.args = append(g.args, a)
		}
	}
	return out, nil
}

// runGroup runs one go test and counts its events. That go test exits with 1
// needs no error here: its events say why.
func (c *count) runGroup(g group) error {
	cmd := exec.Command("go", append([]string{"test", "-json"}, g.args...)...)
	cmd.Env = append(os.Environ(), g.env...)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	fmt.Fprintln(c.out, "+", strings.Join(append(append([]string{}, g.env...), cmd.Args...), " "))
	if err := cmd.Start(); err != nil {
		return err
	}
	before := c.failed
	rerr := c.read(pipe)
	werr := cmd.Wait()
	if rerr != nil {
		return rerr
	}
	if werr != nil && c.failed == before {
		c.fail(strings.Join(g.args, " "), "go test: "+werr.Error())
	}
	return nil
}
