package daemon

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/apiary-net/hived/ledger"
	"github.com/apiary-net/hived/wire"
)

// LedgerEntry is one entry of the own log, as JSON.
type LedgerEntry struct {
	Seq    uint64 `json:"seq"`
	Kind   string `json:"kind"`
	Round  uint64 `json:"round"`
	Ref    string `json:"ref"`
	Parent string `json:"parent,omitempty"`
	Time   string `json:"time"`
}

// LedgerHead is the head of the own log and its newest entries, as JSON.
type LedgerHead struct {
	Origin  string        `json:"origin"`
	Size    uint64        `json:"size"`
	Root    string        `json:"root"`
	Note    string        `json:"note"`
	Entries []LedgerEntry `json:"entries"`
	// Cosigned is which head each witness saw, newest first known; Convicted are the
	// members that signed two histories.
	Cosigned  []Cosignature `json:"cosigned"`
	Convicted []Conviction  `json:"convicted"`
}

// Cosignature is a witness's word for a head of the own log, as JSON.
type Cosignature struct {
	Witness string `json:"witness"`
	Size    uint64 `json:"size"`
	Time    string `json:"time"`
}

// Conviction is evidence against a peer, as JSON.
type Conviction struct {
	Peer     string `json:"peer"`
	Kind     string `json:"kind"`     // heads, entries or fork
	Evidence string `json:"evidence"` // digest; its name in an export
}

const tailEntries = 100

// getLedger returns the head of the own log and its last entries.
func (d *Daemon) getLedger(w http.ResponseWriter, q *http.Request) {
	r, err := d.find(q.PathValue("run"))
	if err != nil {
		reply(w, nil, err)
		return
	}
	h := r.log.Head()
	out := LedgerHead{Origin: h.Origin, Size: h.Size, Root: h.Root.String(), Note: string(h.Note), Entries: []LedgerEntry{}}
	out.Cosigned, out.Convicted, err = r.witnessed()
	if err != nil {
		reply(w, nil, err)
		return
	}
	err = r.log.Read(h.Size-min(h.Size, tailEntries), h.Size, func(_ []byte, e wire.EntryBody) error {
		out.Entries = append(out.Entries, LedgerEntry{e.Seq, e.Kind.String(), e.Round, e.Ref.String(), e.Parent.String(), time.UnixMilli(int64(e.Time)).UTC().Format(time.RFC3339Nano)})
		return nil
	})
	reply(w, out, err)
}

// witnessed returns who saw the own log, and who is convicted.
func (r *run) witnessed() ([]Cosignature, []Conviction, error) {
	cs, who := []Cosignature{}, []Conviction{}
	seen, err := r.witness.Cosigned()
	if err != nil {
		return cs, who, err
	}
	for _, c := range seen {
		cs = append(cs, Cosignature{c.Witness.String(), c.Head.Size, c.At.UTC().Format(time.RFC3339)})
	}
	kept, err := r.witness.Evidence()
	for _, e := range kept {
		p, _, cerr := ledger.CheckEvidence(e)
		if err = errors.Join(err, cerr); cerr == nil {
			who = append(who, Conviction{p.String(), e.Kind.String(), wire.Sum(wire.Marshal(e)).String()})
		}
	}
	return cs, who, err
}

// addWitnesses fills in what a status says of the ledger.
func (s *RunStatus) addWitnesses(r *run) {
	cs, who, err := r.witnessed()
	if err != nil {
		r.d.log.Warn("witnesses are not known", "run", r.id.Short(), "err", err)
	}
	s.Witnesses, s.Convicted = len(cs), []string{}
	for _, c := range who {
		if !slices.Contains(s.Convicted, c.Peer) {
			s.Convicted = append(s.Convicted, c.Peer)
		}
	}
}

// answerProof proves to another peer that the own log only grew.
func (d *Daemon) answerProof(body []byte) ([]byte, error) {
	q, err := wire.OpenQuery[wire.ProofQuery](body)
	if err != nil {
		return nil, err
	}
	r, err := d.runOf(q.Run)
	if err != nil {
		return nil, err
	}
	proof, err := r.log.ProveTree(q.Old, q.New)
	if err != nil {
		return nil, err
	}
	return wire.Marshal(proof), nil
}
