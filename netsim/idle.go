package netsim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// idleFault returns the key for which a fault would do nothing, and why. The fault is
// one that can be.
func (s *Scenario) idleFault(f *FaultSpec) (string, error) {
	switch {
	case f.For.Said && f.For.D == 0:
		return "for", errors.New("for: it would last no time; without the key it lasts for good")
	case f.By.Said && f.By.D == 0 && slices.Contains([]string{"slow", "skew"}, f.What):
		return "by", errors.New("by: no time is no change")
	case f.Until.Said && f.Until.D == 0:
		return "until", errors.New("until: it would be over at the beginning; without the key it goes on to the end")
	}
	if key, err := s.neverComes(f); err != nil {
		return key, err
	}
	return s.befallsNobody(f)
}

// neverComes finds a fault whose first time is after the run's end, or its own.
func (s *Scenario) neverComes(f *FaultSpec) (string, error) {
	key := "at"
	if !f.At.Said {
		key = "every"
	}
	if r := f.FirstRound(); r > 0 {
		if last := s.Swarm.Rounds; last > 0 && r > last {
			return key, fmt.Errorf("%s: it would happen in round %d, the run has %d", key, r, last)
		}
		return "", nil
	}
	at := f.FirstTime()
	switch end := s.Swarm.Time.D; {
	case end > 0 && at >= end:
		return key, fmt.Errorf("%s: it would happen at %v, the run ends at %v", key, at, end)
	case f.Until.Said && at > f.Until.D:
		return "until", fmt.Errorf("until: it would be over at %v, before it happens at %v", f.Until.D, at)
	}
	return "", nil
}

// befallsNobody finds a fault that picks no machine to which it can happen.
func (s *Scenario) befallsNobody(f *FaultSpec) (string, error) {
	has := func(whats ...string) bool {
		return slices.ContainsFunc(s.Faults, func(o FaultSpec) bool { return slices.Contains(whats, o.What) })
	}
	undoes := map[string][]string{"heal": {"cut", "partition"}, "free": {"full"}, "continue": {"stop"}}[f.What]
	if len(undoes) > 0 && !has(undoes...) {
		return "what", fmt.Errorf("what: nothing is there to %s without a fault %s", f.What, strings.Join(undoes, " or "))
	}
	ofDown := f.What == "start" || f.What == "wipe"
	running := slices.Contains([]string{"", "random", "voter", "leader"}, f.Who)
	switch {
	case ofDown && running:
		return "who", fmt.Errorf("who: %s is for machines that do not run; say down or indexes", f.What)
	case f.Who == "down" && slices.Contains([]string{"kill", "leave", "stop", "continue"}, f.What):
		return "who", fmt.Errorf("who: %s is for machines that run", f.What)
	case (ofDown || f.Who == "down") && s.Swarm.Spare == 0 && !has("kill", "leave"):
		return "who", errors.New("who: no machine is ever down: there are no spare ones, and no fault kill or leave")
	}
	all := s.Swarm.Peers + s.Swarm.Spare
	n, some := s.among(f.Who), f.Count
	if f.Share > 0 {
		if some = int(f.Share*float64(n) + 0.5); some == 0 {
			return "share", fmt.Errorf("share: %v of at most %d machines is nobody", f.Share, n)
		}
	} else if some == 0 && !running && f.Who != "down" {
		some = n
	}
	if f.What == "partition" && min(n, some) >= all {
		return "who", fmt.Errorf("who: all %d machines are on one side", all)
	}
	return "", nil
}

// among returns how many machines a fault picks from at most.
func (s *Scenario) among(who string) int {
	if g, ok := strings.CutPrefix(who, "group:"); ok {
		i := slices.IndexFunc(s.Groups, func(x GroupSpec) bool { return x.Name == g })
		return s.Groups[i].Count // badWho has seen it
	}
	if who == "leader" || who == "bootstrap" {
		return 1
	}
	if ix, err := Indexes(who); err == nil {
		slices.Sort(ix)
		return len(slices.Compact(ix))
	}
	return s.Swarm.Peers + s.Swarm.Spare
}
