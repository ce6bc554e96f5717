package netsim

import (
	"github.com/apiary-net/hived/ledger"
)

// proveLog opens a peer's log from its disk, as a restart would, and checks that
// heads that were acknowledged are of prefixes of it.
func (c *checker) proveLog(n *Node) {
	if len(n.heads) == 0 {
		return
	}
	l, err := ledger.Open(ledger.Config{KV: n.disk.log, Key: n.Key, Run: c.sw.Run, Now: c.sw.Loop.Now})
	if err != nil {
		c.fail(CheckLogs, "the log of peer %d does not open: %v", n.Index, err)
		return
	}
	if got, want := l.Head().Size, n.acknowledged(); got < want {
		c.fail(CheckLogs, "the log of peer %d has %d entries, %d were acknowledged", n.Index, got, want)
		return
	}
	const proved = 16 // heads, spread over the run
	for i := range proved {
		h := n.heads[i*(len(n.heads)-1)/(proved-1)]
		root, err := l.RootAt(h.Size)
		if err != nil || root != h.Root {
			c.fail(CheckLogs, "the log of peer %d had root %s at %d entries and has %s (%v)", n.Index, h.Root.Short(), h.Size, root.Short(), err)
			return
		}
	}
}
