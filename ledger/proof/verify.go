package proof

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/apiary-net/hived/consensus"
	"github.com/apiary-net/hived/consensus/gpbft"
	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/elastic/version"
	"github.com/apiary-net/hived/train"
	"github.com/apiary-net/hived/train/nets"
	"github.com/apiary-net/hived/wire"
)

// Witnessed is how much of a log others have cosigned.
type Witnessed struct {
	Log       string `json:"log"`       // whose it is
	Witnesses int    `json:"witnesses"` // who cosigned a head of it
	Seen      uint64 `json:"seen"`      // entries of the biggest of those heads
	Of        uint64 `json:"of"`        // entries of the log in the export
}

// Total counts what a verification found good.
type Total struct {
	Entries      uint64      `json:"entries"`
	Verified     bool        `json:"verified"`
	Certificates uint64      `json:"certificates"`
	Evidence     uint64      `json:"evidence"`
	Cosigned     uint64      `json:"cosigned"`               // heads of logs that a witness saw
	Witnessed    []Witnessed `json:"witnessed"`              // the logs of these heads
	Seen         uint64      `json:"seen"`                   // heads that logs say they saw of logs here
	Disputed     []string    `json:"disputed,omitempty"`     // "W saw another log of P": one of them lies
	Convicted    []string    `json:"convicted,omitempty"`    // peers that signed two histories
	Logs         []string    `json:"logs,omitempty"`         // peers whose log was checked
	MissingLogs  []string    `json:"missing_logs,omitempty"` // members whose log is not in the export
}

// Result is what `hived model verify` finds.
type Result struct {
	Schema    string   `json:"schema"` // hived.verify/v1
	Run       string   `json:"run"`
	Name      string   `json:"name"`
	Exporter  string   `json:"exporter"`
	Rounds    uint64   `json:"rounds"`
	Version   string   `json:"version"`  // CID of the last version
	Replayed  uint64   `json:"replayed"` // versions recomputed from contributions or merged updates
	From      string   `json:"from"`     // contributions or merges
	Certified uint64   `json:"certified"`
	Accuracy  *float64 `json:"accuracy,omitempty"`
	Loss      float64  `json:"loss"`
	StartLoss float64  `json:"start_loss"`
	Samples   int      `json:"samples"`
	Ledger    Total    `json:"ledger"`
}

// exported is an export that is being verified. Nothing in it is believed before
// it is checked.
type exported struct {
	dir      fs.FS
	exporter wire.PeerID
	run      wire.RunID
	g        wire.Genesis
	recs     []*wire.Record
	attested []wire.Certified // by round: what two thirds of the weight computed; zero if nobody did
	total    Total
}

func badExport(err error) error { return exit.Fail(exit.Integrity, err, "verification failed") }

// Ledger checks an export: sums, genesis, every record and certificate in
// order, attestations, and every log with the headers that it must hold.
func Ledger(dir fs.FS) (*Result, error) {
	e, err := openExport(dir)
	if err != nil {
		return nil, badExport(err)
	}
	return e.result(), nil
}

func (e *exported) result() *Result {
	v := &Result{Schema: "hived.verify/v1", Run: e.run.String(), Name: e.g.Name, Exporter: e.exporter.String(),
		Rounds: uint64(len(e.recs) - 1), From: "none", Ledger: e.total}
	for _, a := range e.attested {
		if !a.Version.IsZero() {
			v.Certified++
			v.Version = a.Version.String()
		}
	}
	v.Ledger.Verified = true
	return v
}

func openExport(dir fs.FS) (*exported, error) {
	e := &exported{dir: dir}
	b, err := readFile(dir, "genesis")
	if err != nil {
		return nil, err
	}
	if e.g, e.run, err = version.OpenGenesis(b); err != nil {
		return nil, fmt.Errorf("genesis: %w", err)
	}
	if e.exporter, err = openSums(dir, e.run); err != nil {
		return nil, err
	}
	for _, f := range []func() error{e.chain, e.attestations, e.evidence, e.logs, e.blocks} {
		if err := f(); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// blocks checks that every block is what its name says, also those that no replay
// reads, such as the last version's.
func (e *exported) blocks() error {
	es, err := fs.ReadDir(e.dir, "blocks")
	if err != nil {
		return err
	}
	for _, f := range es {
		name := "blocks/" + f.Name()
		id, err := wire.ParseCID(f.Name())
		if err != nil {
			return fmt.Errorf("%s: the name is not that of a block: %w", name, err)
		}
		if wire.BlockFile(id) != name {
			return fmt.Errorf("%s: the block's name is %s", name, wire.BlockFile(id))
		}
		b, err := readFile(e.dir, name)
		if err != nil {
			return err
		}
		if !id.Names(b) {
			return fmt.Errorf("%s: bytes do not match the name", name)
		}
	}
	return nil
}

// chain checks records and certificates in order.
func (e *exported) chain() error {
	var book consensus.Tables
	var h rules.History
	for r := uint64(0); ; r++ {
		name := wire.RecordFile(r)
		b, err := readFile(e.dir, name)
		if errors.Is(err, fs.ErrNotExist) && r > 0 {
			return e.complete()
		}
		if err != nil {
			return err
		}
		p, err := wire.OpenProven(b)
		if err == nil {
			err = e.link(&book, h, p, r)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		e.recs = append(e.recs, p.Record)
		if r == 0 {
			h = rules.History{p.Record}
		} else {
			h = h.With(p.Record)
		}
	}
}

// link checks one record against those before it.
func (e *exported) link(book *consensus.Tables, h rules.History, p *wire.Proven, r uint64) error {
	rec := p.Record
	if rec.Round != r || rec.Run != e.run {
		return fmt.Errorf("it is record %d of run %s", rec.Round, rec.Run.Short())
	}
	for _, v := range rec.Cut {
		if v.Status == wire.Equivocated {
			e.total.Evidence++
		}
	}
	if r == 0 {
		if p.Start == nil || p.Start.Kind != wire.KindProposal || p.Start.Run != e.run || p.Start.Sender != e.g.Creator || !bytes.Equal(p.Start.Body, p.Raw) {
			return errors.New("the start record is not signed by the creator")
		}
		book.Start(rec.Table)
		return rules.ValidateStart(&e.g, e.run, rec.Certified.Version, rec)
	}
	c := p.Cert
	if c == nil || p.Start != nil || c.Value != rec.Digest() || c.Round != r || c.Base != h.Head().Digest() || c.BaseRound != r-1 {
		return errors.New("its certificate is for another record")
	}
	if c.ValTable != wire.Sum(wire.Marshal(rec.Table)) || c.BaseTable != wire.Sum(wire.Marshal(h.Head().Table)) {
		return errors.New("its certificate is for another table")
	}
	if err := gpbft.Verify(e.run, c, book.At(c.Instance)); err != nil {
		return err
	}
	if err := rules.Validate(&e.g, e.run, h, rec); err != nil {
		return err
	}
	book.Decided(c.Instance, rec.Table)
	e.total.Certificates++
	return nil
}

// complete reports records behind a gap.
func (e *exported) complete() error {
	names, err := fs.ReadDir(e.dir, "records")
	if err == nil && len(names) != len(e.recs) {
		err = fmt.Errorf("records/: %d files, %d records in a row", len(names), len(e.recs))
	}
	return err
}

// attestations checks who computed which version, and what records say of it.
func (e *exported) attestations() error {
	e.attested = make([]wire.Certified, len(e.recs))
	e.attested[0] = e.recs[0].Certified
	for r := 1; r < len(e.recs); r++ {
		name := wire.AttestFile(uint64(r))
		b, err := readFile(e.dir, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		envs, err := wire.OpenAttestList(b)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		weight := map[wire.Certified]uint64{}
		voted := map[wire.PeerID]bool{}
		for _, env := range envs {
			var a wire.Attest
			if err := env.Decode(&a); err != nil {
				return fmt.Errorf("%s: an attestation of %s: %w", name, env.Sender.Short(), err)
			}
			if env.Kind != wire.KindAttest || env.Run != e.run || env.Round != uint64(r) || voted[env.Sender] {
				return fmt.Errorf("%s: an attestation of %s does not belong here", name, env.Sender.Short())
			}
			voted[env.Sender] = true
			k := wire.Certified{Round: uint64(r), Version: a.Version, Merged: a.Merged}
			weight[k] += e.recs[r].Table.Of(env.Sender)
			if e.recs[r].Table.Quorum(weight[k]) {
				e.attested[r] = k
			}
		}
	}
	for _, rec := range e.recs[1:] {
		c := rec.Certified
		if a := e.attested[c.Round]; !a.Version.IsZero() && a.Version != c.Version {
			return fmt.Errorf("%s: certifies version %s of round %d, two thirds computed %s", wire.RecordFile(rec.Round), c.Version.Short(), c.Round, a.Version.Short())
		}
	}
	return nil
}

// Model checks an export like Ledger, recomputes every version from
// the start weights, compares each with what was attested, and evaluates the last
// one on the test split where the data is at hand. dataDir is searched for it.
func Model(ctx context.Context, dir fs.FS, dataDir string) (*Result, error) {
	e, err := openExport(dir)
	if err != nil {
		return nil, badExport(err)
	}
	v := e.result()
	last, start, err := e.replay(ctx, v)
	if err != nil {
		return nil, badExport(err)
	}
	return v, e.evaluate(ctx, v, start, last, dataDir)
}

// start returns the schema of the run's model and the values that the seed gives.
func (e *exported) start() (wire.Schema, []float32, []float32, error) {
	m, err := train.ModelOf(e.g.Model)
	if err != nil {
		return nil, nil, nil, err
	}
	return nets.Start(m, e.g.Seed)
}

// replay recomputes all versions.
func (e *exported) replay(ctx context.Context, v *Result) (last, start *version.State, err error) {
	schema, params, buffers, err := e.start()
	if err != nil {
		return nil, nil, err
	}
	m, err := version.NewModel(&e.g, schema)
	if err != nil {
		return nil, nil, err
	}
	if start, err = m.StartState(params, buffers); err != nil {
		return nil, nil, err
	}
	if start.ID != e.recs[0].Certified.Version {
		return nil, nil, fmt.Errorf("%s: start version %s, the seed gives %s", wire.RecordFile(0), e.recs[0].Certified.Version.Short(), start.ID.Short())
	}
	v.From = "contributions"
	if e.g.Replay == wire.ReplayMerges {
		v.From = "merges"
	}
	last, err = m.Replay(ctx, start, e.recs, e.block, func(s *version.State, merged wire.CID) error {
		if a := e.attested[s.Round]; !a.Version.IsZero() && (a.Version != s.ID || a.Merged != merged) {
			return fmt.Errorf("recomputed version %s, two thirds attested %s", s.ID.Short(), a.Version.Short())
		}
		v.Replayed++
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	v.Version = last.ID.String()
	return last, start, nil
}

// block reads blocks of the export; their hashes are checked by whoever asked.
func (e *exported) block(_ context.Context, ids []wire.CID, got func(wire.CID, []byte) error) error {
	for _, id := range ids {
		b, err := readFile(e.dir, wire.BlockFile(id))
		if err != nil {
			return err
		}
		if !id.Names(b) {
			return fmt.Errorf("%s: bytes do not match the name", wire.BlockFile(id))
		}
		if err := got(id, b); err != nil {
			return err
		}
	}
	return nil
}

// evaluate measures the first and the last version on the test split.
func (e *exported) evaluate(ctx context.Context, v *Result, start, last *version.State, dataDir string) error {
	data, err := train.OpenDataOf(e.g.Data[0], dataDir)
	if err != nil {
		return exit.Fail(exit.Degraded, err, "verified and replayed, but not evaluated: the data is not here")
	}
	root, err := data.Digest()
	if err != nil || root != e.g.Data[0].Root {
		return exit.Fail(exit.Degraded, err, "verified and replayed, but not evaluated: data %q here is other data", e.g.Data[0].Name)
	}
	cfg, err := train.ConfigOf(&e.g, data, 0)
	if err != nil {
		return err
	}
	t, err := train.New(cfg)
	if err != nil {
		return err
	}
	defer t.Close()
	before, err := t.Eval(ctx, start.Params, start.Buffers, "test", evalSamples)
	if err != nil {
		return err
	}
	after, err := t.Eval(ctx, last.Params, last.Buffers, "test", evalSamples)
	if err != nil {
		return err
	}
	v.Loss, v.StartLoss, v.Samples = after.Loss, before.Loss, after.Samples
	if data.Form().Kind == "image" {
		v.Accuracy = &after.Accuracy
	}
	return nil
}

// evalSamples bounds an evaluation: all of MNIST's test split, and as many
// windows of text.
const evalSamples = 10_000

// Summary says in words what was found.
func (v *Result) Summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "run %s %s: %d records, %d certificates, %d log entries of %d peers: every signature good\n",
		v.Name, v.Run[:8], v.Rounds, v.Ledger.Certificates, v.Ledger.Entries, len(v.Ledger.Logs))
	if len(v.Ledger.MissingLogs) > 0 {
		fmt.Fprintf(&b, "not in the export: the logs of %s\n", strings.Join(v.Ledger.MissingLogs, ", "))
	}
	fmt.Fprintf(&b, "%d versions certified by two thirds of the voters", v.Certified)
	if v.Replayed > 0 {
		fmt.Fprintf(&b, ", %d replayed from %s to %s", v.Replayed, v.From, v.Version)
	}
	b.WriteString("\n")
	for _, w := range v.Ledger.Witnessed {
		fmt.Fprintf(&b, "witnesses of the log of %s: %d, who saw the first %d of its %d entries\n", w.Log, w.Witnesses, w.Seen, w.Of)
	}
	if len(v.Ledger.Witnessed) == 0 {
		b.WriteString("no witness vouches for a log of this export\n")
	}
	for _, d := range v.Ledger.Disputed {
		fmt.Fprintf(&b, "DISPUTED: %s\n", d)
	}
	for _, p := range v.Ledger.Convicted {
		fmt.Fprintf(&b, "CONVICTED of signing two histories of its log: %s\n", p)
	}
	if v.Samples > 0 {
		fmt.Fprintf(&b, "test split: loss %.4f (start %.4f)", v.Loss, v.StartLoss)
		if v.Accuracy != nil {
			fmt.Fprintf(&b, ", accuracy %.4f", *v.Accuracy)
		}
		fmt.Fprintf(&b, " on %d samples\n", v.Samples)
	}
	return b.String()
}
