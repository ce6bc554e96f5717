package live

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/apiary-net/hived/ledger"
	"github.com/apiary-net/hived/ledger/proof"
	"github.com/apiary-net/hived/netsim"
	"github.com/apiary-net/hived/wire"
)

// exporters is how many daemons give an export.
const exporters = 2

// result takes exports, ends the daemons, verifies and sums up.
func (p *player) result(ctx context.Context) (*netsim.Result, error) {
	r := &netsim.Result{Schema: "hived.netsim/v1", Scenario: p.s.Name, Tier: p.cfg.Tier, Seed: p.s.Swarm.Seed, Commit: netsim.Commit(), Peers: p.s.Swarm.Peers, Kills: p.kills, Hung: p.hung}
	var ups []*machine
	for _, m := range p.machines {
		if m.up && !m.busy {
			ups = append(ups, m)
		}
	}
	dirs, err := p.exports(ctx, ups)
	if err != nil {
		p.trouble(err)
	}
	finished := p.allFinished(ctx)
	r.Virtual = p.since().Seconds()
	newest, cids := uint64(0), map[string]bool{}
	for _, m := range ups {
		p.book(ctx, m)
		newest = max(newest, m.status.Applied)
	}
	for _, m := range ups {
		if m.status.Applied == newest {
			cids[m.status.Version] = true
		}
	}
	r.CIDs, r.Control, r.Payload = len(cids), p.control, p.payload
	if err := p.close(ctx); err != nil {
		return nil, err
	}
	if err := p.verify(ctx, r, dirs, ups); err != nil {
		return nil, err
	}
	r.Tally(r.Counted, p.dones, p.uptime)
	r.Failure = p.stuck
	p.s.Expect.Judge(r, finished, "")
	if p.found != nil {
		p.found.Trail = p.cfg.Trail.Newest()
	}
	r.Violates = p.found
	r.Seconds = time.Since(p.origin).Seconds()
	return r, p.cfg.Trail.Flush()
}

// exports takes the run from the first and the last of the daemons that run, and
// of others if one of these does not give it.
func (p *player) exports(ctx context.Context, ups []*machine) (dirs []string, err error) {
	if p.head == 0 {
		return nil, nil
	}
	order := slices.Clone(ups)
	slices.Reverse(order)
	if len(ups) > 1 {
		order = append([]*machine{ups[0]}, order[:len(order)-1]...)
	}
	var errs []error
	for len(order) > 0 && len(dirs) < exporters {
		n := min(len(order), exporters-len(dirs))
		got, failed := make([]string, n), make([]error, n)
		var wg sync.WaitGroup
		for i, m := range order[:n] {
			wg.Go(func() {
				dir := filepath.Join(p.cfg.Dir, fmt.Sprintf("export-%d", m.index))
				if err := m.Client().Post(ctx, "/api/v1/runs/"+p.run+"/export", map[string]string{"dir": dir}, nil); err != nil {
					failed[i] = fmt.Errorf("peer %d gives no export: %w", m.index, err)
					return
				}
				got[i] = dir
			})
		}
		wg.Wait()
		dirs = append(dirs, slices.DeleteFunc(got, func(dir string) bool { return dir == "" })...)
		errs, order = append(errs, failed...), order[n:]
	}
	if len(dirs) == 0 {
		return nil, errors.Join(errs...)
	}
	return dirs, nil
}

// verify checks the exports one by one and against each other and what was seen.
func (p *player) verify(ctx context.Context, r *netsim.Result, dirs []string, ups []*machine) error {
	var books *netsim.Books
	logs := map[wire.PeerID]bool{}
	for i, dir := range dirs {
		name := filepath.Base(dir)
		tree := os.DirFS(dir)
		var v *proof.Result
		var err error
		if i == 0 {
			v, err = proof.Model(ctx, tree, p.cfg.Data)
		} else {
			v, err = proof.Ledger(tree)
		}
		if err != nil {
			p.fail(netsim.CheckRecords, "%s does not verify: %v", name, err)
			return p.writeTrail()
		}
		if i == 0 {
			r.Loss, r.Rounds = netsim.Round6(v.Loss), v.Rounds
		}
		if books, err = p.readExport(tree, name, books, logs); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if books == nil {
		return p.writeTrail()
	}
	r.Counted = books.Counted
	for _, m := range ups {
		if m.status.Applied > 0 {
			id, err := wire.ParseCID(m.status.Version)
			if err != nil {
				return fmt.Errorf("peer %d says its version is %q: %w", m.index, m.status.Version, err)
			}
			_, f := books.Version(fmt.Sprintf("peer %d", m.index), m.status.Applied, id)
			p.heed(f)
		}
		if !logs[m.ID()] {
			p.fail(netsim.CheckLogs, "no export holds the log of peer %d, which runs", m.index)
		}
	}
	return p.writeTrail()
}

// readExport enters what a verified export proves into the books.
func (p *player) readExport(tree fs.FS, name string, books *netsim.Books, logs map[wire.PeerID]bool) (*netsim.Books, error) {
	raw, err := fs.ReadFile(tree, "genesis")
	if err != nil {
		return books, err
	}
	g, run, err := wire.OpenGenesis(raw)
	if err != nil {
		return books, err
	}
	if run.String() != p.run {
		return books, fmt.Errorf("it is of run %s", run.Short())
	}
	if books == nil {
		books = netsim.NewBooks(&g, p.who, p.block)
	}
	for round := uint64(0); ; round++ {
		b, err := fs.ReadFile(tree, wire.RecordFile(round))
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return books, err
		}
		proven, err := wire.OpenProven(b)
		if err != nil {
			return books, err
		}
		fresh, f := books.Record(name, proven.Record)
		p.heed(f)
		if fresh {
			p.show(books, proven.Record)
		}
	}
	for _, m := range p.machines {
		sub, err := fs.Sub(tree, "logs/"+m.ID().String())
		if err != nil {
			return books, err
		}
		if _, err := fs.Stat(sub, "."); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		logs[m.ID()] = true
		if err := p.readLog(sub, run, m, books); err != nil {
			return books, err
		}
	}
	return books, nil
}

// block reads a block of an export.
func (p *player) block(id wire.CID) []byte {
	dirs, err := filepath.Glob(filepath.Join(p.cfg.Dir, "export-*"))
	if err != nil {
		return nil
	}
	for _, dir := range dirs {
		if b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(wire.BlockFile(id)))); err == nil {
			return b
		}
	}
	return nil
}

func (p *player) who(id wire.PeerID) (index int, honest, ok bool) {
	for _, m := range p.machines {
		if m.ID() == id {
			return m.index, true, true
		}
	}
	return 0, false, false
}

// readLog enters the versions of a log, and holds the log against its heads that
// were seen.
func (p *player) readLog(log fs.FS, run wire.RunID, m *machine, books *netsim.Books) error {
	var t prefixes
	seen := 0
	check := func() {
		for ; seen < len(m.heads) && m.heads[seen].size == t.size; seen++ {
			if root := fmt.Sprintf("%x", t.root()); root != m.heads[seen].root {
				p.fail(netsim.CheckLogs, "the log of peer %d had root %.8s at %d entries and has %.8s", m.index, m.heads[seen].root, t.size, root)
			}
		}
	}
	_, err := ledger.VerifyLog(log, run, m.ID(), func(raw []byte, e wire.EntryBody) error {
		t.add(raw)
		check()
		if e.Kind == wire.EntryVersion {
			_, f := books.Version(fmt.Sprintf("the log of peer %d", m.index), e.Round, e.Ref)
			p.heed(f)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if seen < len(m.heads) {
		p.fail(netsim.CheckLogs, "the log of peer %d has %d entries, %d were seen", m.index, t.size, m.heads[seen].size)
	}
	return nil
}

// show completes the event of a record from the record itself.
func (p *player) show(books *netsim.Books, r *wire.Record) {
	for i := range p.events {
		if e := &p.events[i]; e.Kind == "decided" && e.Round == r.Round {
			e.Record = r.Digest().String()
			books.Show(r, e)
		}
	}
}

// writeTrail gives the events to the trail, in their order.
func (p *player) writeTrail() error {
	slices.SortStableFunc(p.events, func(a, b netsim.Event) int { return int(a.Ms - b.Ms) })
	for _, e := range p.events {
		p.cfg.Trail.Add(e)
	}
	return nil
}

// prefixes computes the RFC 6962 root of every prefix of a list of leaves.
type prefixes struct {
	size uint64
	full []([sha256.Size]byte) // roots of perfect subtrees, the largest first
}

func (t *prefixes) add(leaf []byte) {
	h := sha256.Sum256(append([]byte{0}, leaf...))
	for n := t.size; n&1 == 1; n >>= 1 {
		last := len(t.full) - 1
		h, t.full = node(t.full[last], h), t.full[:last]
	}
	t.full = append(t.full, h)
	t.size++
}

func (t *prefixes) root() [sha256.Size]byte {
	if t.size == 0 {
		return sha256.Sum256(nil)
	}
	h := t.full[len(t.full)-1]
	for i := len(t.full) - 2; i >= 0; i-- {
		h = node(t.full[i], h)
	}
	return h
}

func node(l, r [sha256.Size]byte) [sha256.Size]byte {
	return sha256.Sum256(slices.Concat([]byte{1}, l[:], r[:]))
}
