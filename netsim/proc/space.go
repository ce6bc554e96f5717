package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/netsim"
)

// space is the network namespace of one machine; nil is the machine's own network.
type space struct {
	name string // of the namespace
	dev  string // its end of the cable
	addr string // IPv4
}

// command runs a program in the namespace. It replaces the one that enters it, so
// that signals reach it.
func (s *space) command(exe string, args ...string) *exec.Cmd {
	if s == nil {
		return exec.Command(exe, args...)
	}
	return exec.Command("ip", append([]string{"netns", "exec", s.name, exe}, args...)...)
}

// spaces are namespaces whose machines hang on one bridge. It implements
// live.Network.
type spaces struct {
	bridge string
	all    []*space
}

// needsSpaces says what of a scenario loopback cannot do, or nothing.
func needsSpaces(s *netsim.Scenario) string {
	for _, f := range s.Faults {
		if f.What == "cut" || f.What == "partition" {
			return "the fault " + f.What
		}
	}
	if shaped(s) {
		return "a link that is not loopback's"
	}
	return ""
}

// shaped reports whether any link of the scenario is said.
func shaped(s *netsim.Scenario) bool {
	said := func(l netsim.LinkSpec) bool {
		return l.Latency.Said || l.Jitter.Said || l.Up != "" || l.Down != "" || l.Loss != 0
	}
	for _, g := range s.Groups {
		if said(g.Link) {
			return true
		}
	}
	return said(s.Link)
}

func ip(args ...string) error { return tool("ip", args...) }

func tool(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

// newSpaces makes a namespace for each link. Without the rights, or on a kernel
// that cannot, it refuses and leaves nothing behind.
func newSpaces(why string, links []netsim.Link, shape bool) (_ *spaces, err error) {
	refuse := func(err error) error {
		return exit.Fail(exit.Resource, err, "%s needs network namespaces of one's own; run as root on Linux with iproute2, or use the tier event or net", why)
	}
	if os.Geteuid() != 0 {
		return nil, refuse(errors.New("this user is not root"))
	}
	n := &spaces{bridge: fmt.Sprintf("hived-%d-b", os.Getpid())}
	defer func() {
		if err != nil {
			err = refuse(errors.Join(err, n.Close()))
		}
	}()
	if err := ip("netns", "add", n.bridge); err != nil {
		return nil, err
	}
	if err := errors.Join(ip("-n", n.bridge, "link", "add", "br0", "type", "bridge"), ip("-n", n.bridge, "link", "set", "br0", "up")); err != nil {
		return nil, err
	}
	for i, l := range links {
		s := &space{name: fmt.Sprintf("hived-%d-%d", os.Getpid(), i), dev: "eth0", addr: fmt.Sprintf("10.77.%d.%d", i/250, 1+i%250)}
		if err := ip("netns", "add", s.name); err != nil {
			return nil, err
		}
		n.all = append(n.all, s)
		port := fmt.Sprintf("p%d", i)
		for _, args := range [][]string{
			{"link", "add", s.dev, "netns", s.name, "type", "veth", "peer", "name", port, "netns", n.bridge},
			{"-n", n.bridge, "link", "set", port, "master", "br0", "up"},
			{"-n", s.name, "addr", "add", s.addr + "/16", "dev", s.dev},
			{"-n", s.name, "link", "set", "lo", "up"},
			{"-n", s.name, "link", "set", s.dev, "up"},
		} {
			if err := ip(args...); err != nil {
				return nil, err
			}
		}
		if !shape {
			continue
		}
		if err := errors.Join(netem(s.name, s.dev, l, l.Up), netem(n.bridge, port, l, l.Down)); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// netem shapes what leaves by a device: half of the link, one of its directions.
func netem(space, dev string, l netsim.Link, bytesPerSecond float64) error {
	args := []string{"-n", space, "qdisc", "add", "dev", dev, "root", "netem", "delay", micros(l.Latency)}
	if l.Jitter > 0 {
		args = append(args, micros(l.Jitter/2))
	}
	if l.Loss > 0 {
		args = append(args, "loss", fmt.Sprintf("%g%%", 100*l.Loss))
	}
	if bytesPerSecond > 0 {
		args = append(args, "rate", fmt.Sprintf("%.0fbit", 8*bytesPerSecond))
	}
	return tool("tc", args...)
}

func micros(d time.Duration) string { return fmt.Sprintf("%dus", d.Microseconds()) }

// Cut implements live.Network: neither has a route to the other.
func (n *spaces) Cut(a, b int, cut bool) error {
	verb := "del"
	if cut {
		verb = "add"
	}
	x, y := n.all[a], n.all[b]
	return errors.Join(ip("-n", x.name, "route", verb, "blackhole", y.addr+"/32"), ip("-n", y.name, "route", verb, "blackhole", x.addr+"/32"))
}

// Close removes all namespaces. Nothing may run in them any more.
func (n *spaces) Close() error {
	var errs []error
	for _, s := range n.all {
		errs = append(errs, ip("netns", "del", s.name))
	}
	if _, err := os.Stat("/var/run/netns/" + n.bridge); err == nil {
		errs = append(errs, ip("netns", "del", n.bridge))
	}
	return errors.Join(errs...)
}
