package wire

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Genesis fixes all values that enter a record, a check or a merge of a run. It
// holds no addresses and no times. Its envelope has run zero; the run's id is
// the digest of that envelope.
type Genesis struct {
	_          struct{} `cbor:",toarray"`
	V          uint64   // 1
	Name       string
	Parent     Digest // record that this run was forked from; zero for none
	Creator    PeerID
	Model      ModelSpec
	Schema     Digest
	Data       []DataContract
	Preset     Preset
	PartValues uint32 // most values of a part, a multiple of 4096
	Rounds     uint64 // the record with this number is the last
	MinPeers   uint32 // READY peers that the start record waits for
	MinCounted uint32 // contributions that a record needs
	MinVoters  uint32 // the table never shrinks below this
	Group      uint32 // most active peers that average as one group
	Deadline   Deadline
	Snapshot   uint32 // a snapshot every so many versions; 0 never
	Replay     Replay
	Audit      uint32 // audited contributions per million
	Admission  Admission
	Seed       uint64
	Start      CID    // imported start weights; zero: drawn from Seed
	Numerics   uint64 // 1: the rules of docs/format/numerics.md
}

// ModelSpec names a model that train knows, and its sizes in key order.
type ModelSpec struct {
	_    struct{} `cbor:",toarray"`
	Name string
	Args []Arg
}

// Arg is one named integer.
type Arg struct {
	_     struct{} `cbor:",toarray"`
	Key   string
	Value int64
}

// DataContract says which data a run trains on, without holding it.
type DataContract struct {
	_       struct{} `cbor:",toarray"`
	Name    string
	Root    Digest // RFC 6962 root over sample digests in index order
	Train   uint64 // samples of split train: the ones that are dealt
	Test    uint64
	Private bool     // never dealt, never leaves; counts are declared
	Holders []PeerID // empty: each member reads its own copy and checks Root
}

// Deadline bounds the time that a round may take.
type Deadline struct {
	_     struct{} `cbor:",toarray"`
	MinMs uint32   // least time from record r-1 to HAVE
	MaxMs uint32   // most time, also of the first round
	Mads  uint32   // median + Mads * MAD of recorded arrivals
}

// Replay says how much of a run an export must let a stranger recompute.
type Replay uint64

// Replay levels.
const (
	ReplayNone   Replay = 0
	ReplayMerges Replay = 1 // outer steps, from the merged updates
	ReplayFull   Replay = 2 // merges too, from the contributions
)

func (r Replay) String() string { return [...]string{"none", "merges", "full"}[min(r, 2)] }

// Admission says who may become a member.
type Admission struct {
	_     struct{} `cbor:",toarray"`
	Mode  string   // allow-list or open
	Allow []PeerID // ascending, for allow-list
}

// Admits reports whether p may become a member.
func (a Admission) Admits(p PeerID) bool {
	if a.Mode == "open" {
		return true
	}
	_, ok := slices.BinarySearchFunc(a.Allow, p, PeerID.Compare)
	return ok
}

// Preset is a synchronisation method as values. Label is for people; only the
// values count.
type Preset struct {
	_          struct{} `cbor:",toarray"`
	Label      string
	Inner      Inner
	Cadence    Cadence
	Codec      string // of contributions; see tensorops/codec
	Merged     string // of the merged update: see MergedCodecs
	Topology   string // see Topologies
	Aggregator string // see tensorops/merge
	Outer      Outer
}

// Inner is the local optimizer. Rates are float32 so that they are one value on
// every machine.
type Inner struct {
	_           struct{} `cbor:",toarray"`
	Optimizer   string   // see train
	LR          float32
	Momentum    float32
	Beta1       float32
	Beta2       float32
	Eps         float32
	WeightDecay float32
	Clip        float32 // gradient norm; 0: none
	Batch       uint32
	Decay       float32 // the rate falls linearly to LR*Decay at the last round
}

// Cadence says when peers exchange.
type Cadence struct {
	_      struct{} `cbor:",toarray"`
	Window bool     // true: a round is a window of Steps exchanges of gradients
	Steps  uint32   // local steps of a round, or most steps of a window
}

// Outer is the step from the merged update to the next version.
type Outer struct {
	_           struct{} `cbor:",toarray"`
	Rule        string   // see tensorops/merge
	LR          float32
	Momentum    float32
	Beta1       float32
	Beta2       float32
	Eps         float32
	WeightDecay float32
	Clip        float32 // norm of the merged gradient in windows; 0: none
}

const (
	maxName = 64
	// MaxSeats is the most members of a run: a record holds no more.
	MaxSeats = 12_000
	// MaxGroups is the most averaging groups of a round: a HAVE names no more.
	MaxGroups = 768
	// MaxSteps is the most local steps of a round.
	MaxSteps = 1 << 20
	// MaxWindow is the most steps of a window.
	MaxWindow = 64
	// PartUnit is what PartValues is a multiple of: the codecs' chunk.
	PartUnit = 4096
)

// Topologies returns the names that Preset.Topology may have.
func Topologies() []string { return []string{"allgather", "butterfly"} }

// MergedCodecs returns the names that Preset.Merged may have: none is float32. They
// are the types of a manifest's vectors.
func MergedCodecs() []string { return []string{"none", "bf16"} }

// namedWell checks the form of a name that other packages know: small letters,
// digits and hyphens. Whether there is such a thing is for whoever uses the genesis
// to find out.
func namedWell(what, s string) error {
	odd := func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-') }
	if s == "" || len(s) > maxName || strings.ContainsFunc(s, odd) {
		return fmt.Errorf("%s %q: want small letters, digits and hyphens", what, s)
	}
	return nil
}

func oneOf(what, s string, of ...string) error {
	for _, o := range of {
		if s == o {
			return nil
		}
	}
	return fmt.Errorf("%s %q is not one of %v", what, s, of)
}

func finite(what string, xs ...float32) error {
	for _, x := range xs {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) || x < 0 {
			return fmt.Errorf("%s holds %v, want finite and not negative", what, x)
		}
	}
	return nil
}

func (p *Preset) check() error {
	i, o := p.Inner, p.Outer
	return errors.Join(
		namedWell("inner optimizer", i.Optimizer),
		namedWell("codec", p.Codec),
		oneOf("merged codec", p.Merged, MergedCodecs()...),
		oneOf("topology", p.Topology, Topologies()...),
		namedWell("aggregator", p.Aggregator),
		namedWell("outer rule", o.Rule),
		finite("inner", i.LR, i.Momentum, i.Beta1, i.Beta2, i.Eps, i.WeightDecay, i.Clip, i.Decay),
		finite("outer", o.LR, o.Momentum, o.Beta1, o.Beta2, o.Eps, o.WeightDecay, o.Clip),
		inRange("batch", uint64(i.Batch), 1, 1<<16),
		inRange("steps", uint64(p.Cadence.Steps), 1, MaxSteps),
		p.checkWindow(),
	)
}

// Reduced reports whether peers see sums of parts instead of all contributions:
// each part is merged by its owner.
func (p *Preset) Reduced() bool { return p.Topology == "butterfly" && !p.Cadence.Window }

func (p *Preset) checkWindow() error {
	if !p.Cadence.Window {
		return nil
	}
	if p.Topology != "butterfly" || p.Aggregator != "mean" {
		return errors.New("a window exchanges by butterfly and takes the mean")
	}
	return inRange("steps of a window", uint64(p.Cadence.Steps), 1, MaxWindow)
}

func inRange(what string, v, lo, hi uint64) error {
	if v < lo || v > hi {
		return fmt.Errorf("%s is %d, want %d to %d", what, v, lo, hi)
	}
	return nil
}

// Seats returns the most members of the run: those of one group, where a round
// needs all of them at every step or part.
func (g *Genesis) Seats() int {
	if g.Preset.Cadence.Window || g.Preset.Reduced() {
		return MaxMembers
	}
	return min(MaxSeats, MaxGroups*int(g.Group))
}

// notInName reports whether a name may not hold r: names are printed and stand in
// paths.
func notInName(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-')
}

func (g *Genesis) check() error {
	if g.V != 1 || g.Numerics != 1 {
		return fmt.Errorf("genesis of version %d, numerics %d, want 1 and 1", g.V, g.Numerics)
	}
	if g.Name == "" || len(g.Name) > maxName {
		return fmt.Errorf("name of %d bytes, want 1 to %d", len(g.Name), maxName)
	}
	if i := strings.IndexFunc(g.Name, notInName); i >= 0 || g.Name[0] == '.' {
		return fmt.Errorf("name %q: want letters, digits, '.', '_' and '-', and no '.' at its beginning", g.Name)
	}
	if len(g.Data) != 1 {
		return fmt.Errorf("%d data contracts, want 1", len(g.Data))
	}
	if g.Data[0].Private {
		return errors.New("private data contracts are not supported by this version")
	}
	for i, a := range g.Admission.Allow {
		if i > 0 && g.Admission.Allow[i-1].Compare(a) >= 0 {
			return errors.New("allow-list is out of order")
		}
	}
	if g.PartValues%PartUnit != 0 {
		return fmt.Errorf("part_values %d is no multiple of %d", g.PartValues, PartUnit)
	}
	return errors.Join(
		g.Preset.check(),
		oneOf("admission", g.Admission.Mode, "allow-list", "open"),
		inRange("allow-list", uint64(len(g.Admission.Allow)), 0, MaxSeats),
		inRange("part_values", uint64(g.PartValues), PartUnit, MaxBlock/4),
		inRange("rounds", g.Rounds, 1, MaxRounds),
		inRange("min_peers", uint64(g.MinPeers), 1, MaxSeats),
		inRange("min_counted", uint64(g.MinCounted), 1, MaxSeats),
		inRange("min_voters", uint64(g.MinVoters), 1, MaxVoters),
		inRange("group", uint64(g.Group), 2, MaxMembers),
		inRange("deadline", uint64(g.Deadline.MinMs), 1, uint64(g.Deadline.MaxMs)),
		inRange("train samples", g.Data[0].Train, 1, 1<<40),
		inRange("replay", uint64(g.Replay), 0, 2),
	)
}

// OpenGenesis decodes a sealed genesis and returns it with the run's id. Whether this
// program knows all that it names is another question: see elastic/version.Known.
func OpenGenesis(b []byte) (Genesis, RunID, error) {
	var g Genesis
	e, err := OpenBlock(b)
	if err != nil {
		return g, RunID{}, fmt.Errorf("open genesis: %w", err)
	}
	if e.Kind != KindGenesis || !e.Run.IsZero() || e.Round != 0 {
		return g, RunID{}, fmt.Errorf("open genesis: envelope is %s of run %s", e.Kind, e.Run.Short())
	}
	if err := e.Decode(&g); err != nil {
		return g, RunID{}, fmt.Errorf("open genesis: %w", err)
	}
	if g.Creator != e.Sender {
		return g, RunID{}, errors.New("open genesis: creator did not sign it")
	}
	return g, Sum(b), nil
}
