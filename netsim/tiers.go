package netsim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apiary-net/hived/daemon/exit"
)

// The tiers that a scenario may run in.
const (
	TierEvent = "event" // the deciders on one event loop, virtual time
	TierNet   = "net"   // whole daemons on a simulated network, virtual time
	TierProc  = "proc"  // real processes
)

var tiers = []string{TierEvent, TierNet, TierProc}

// tiers returns where the scenario runs.
func (s *Scenario) tiers() []string {
	if len(s.Tiers) == 0 {
		return []string{TierEvent}
	}
	return s.Tiers
}

// In reports whether the scenario names a tier.
func (s *Scenario) In(tier string) bool { return slices.Contains(s.tiers(), tier) }

// ForTier refuses a scenario that does not name a tier. file and text are those of
// the scenario, for the message.
func (s *Scenario) ForTier(file string, text []byte, tier string) error {
	if !slices.Contains(tiers, tier) {
		return exit.Fail(exit.Usage, nil, "tier %q is not one of %s", tier, strings.Join(tiers, ", "))
	}
	if s.In(tier) {
		return nil
	}
	r := refusal{key: "tiers", line: max(1, lineOf(text, "tiers")), err: fmt.Errorf("tiers: the scenario is for %s, not for %s: it must name the tier, as tiers = [%q]", strings.Join(s.tiers(), ", "), tier, tier)}
	return refused(file, []refusal{r})
}

// badTiers finds what a named tier cannot do.
func (s *Scenario) badTiers() (out []refusal) {
	for _, tier := range s.tiers() {
		if !slices.Contains(tiers, tier) {
			out = append(out, refusal{key: "tiers", err: fmt.Errorf("tiers: %q is not one of %s", tier, strings.Join(tiers, ", "))})
			continue
		}
		bad := func(key, format string, args ...any) {
			out = append(out, refusal{key: key, err: fmt.Errorf("the tier %s has "+format, append([]any{tier}, args...)...)})
		}
		for i, f := range s.Faults {
			for _, k := range faults {
				if k.what == f.What && !strings.Contains(k.tiers, tier[:1]) {
					bad(fmt.Sprintf("fault.%d.what", i+1), "no fault %s", f.What)
				}
			}
			if tier != TierEvent && f.Power {
				bad(fmt.Sprintf("fault.%d.power", i+1), "no power cut")
			}
		}
		for i, g := range s.Groups {
			if tier != TierEvent && (g.Lie != "" || g.Skew.Said || g.Slow.Said) {
				bad(fmt.Sprintf("group.%d", i+1), "no lies, skewed clocks or slow disks: its daemons are whole")
			}
		}
	}
	for _, k := range []struct{ key, tiers string }{{"model.args", "np"}, {"swarm.detect", "e"}} {
		used := k.key == "model.args" && len(s.Model.Args) > 0 || k.key == "swarm.detect" && s.Swarm.Detect.Said
		if used && !slices.ContainsFunc(tiers, func(t string) bool { return s.In(t) && strings.Contains(k.tiers, t[:1]) }) {
			out = append(out, refusal{key: k.key, err: fmt.Errorf("%s: no tier of the scenario looks at it", k.key)})
		}
	}
	return out
}

// FirstRound is the round at which the fault happens first, 0 if a time says when.
func (f *FaultSpec) FirstRound() uint64 {
	if f.At.Round > 0 || f.At.At == 0 && f.Every.Round > 0 {
		return max(1, f.At.Round)
	}
	return 0
}

// FirstTime is when the fault happens first, if no round says it.
func (f *FaultSpec) FirstTime() time.Duration {
	if f.At.Said {
		return f.At.At
	}
	return f.Every.At
}
