package daemon

import (
	"slices"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/elastic/version"
	"github.com/apiary-net/hived/train"
	"github.com/apiary-net/hived/train/nets"
	"github.com/apiary-net/hived/wire"
)

// RunSpec is what `run new` asks for; zero values take the preset's or the
// task's defaults.
type RunSpec struct {
	Name       string `json:"name"`
	Task       string `json:"task"` // see train.Tasks
	Preset     string `json:"preset"`
	Rounds     uint64 `json:"rounds"`
	Steps      uint32 `json:"steps"` // of a round
	Batch      uint32 `json:"batch"`
	MinPeers   uint32 `json:"min_peers"`
	Seed       uint64 `json:"seed"`
	Codec      string `json:"codec"`
	Group      uint32 `json:"group"` // most peers that average as one group; default 32
	Topology   string `json:"topology"`
	Aggregator string `json:"aggregator"`
	// Model is a model that reads the task's data; default: the task's.
	Model string `json:"model"`
	// Args replace sizes of the model.
	Args     map[string]int64 `json:"args"`
	Allow    []string         `json:"allow"`       // peer ids; none: open
	Deadline uint32           `json:"deadline_ms"` // the longest that a round may take
	Soonest  uint32           `json:"deadline_min_ms"`
	Snapshot uint32           `json:"snapshot"` // versions from one snapshot to the next
}

// NewGenesis reads the task's data, builds its model and returns the sealed
// genesis of a new run.
func (d *Daemon) NewGenesis(s RunSpec) ([]byte, wire.RunID, error) {
	g, err := d.genesis(s)
	if err != nil {
		return nil, wire.RunID{}, err
	}
	sealed := wire.Seal(d.key, wire.KindGenesis, wire.RunID{}, 0, g).Bytes()
	if _, _, err := version.OpenGenesis(sealed); err != nil {
		return nil, wire.RunID{}, exit.Fail(exit.Usage, err, "run refused")
	}
	return sealed, wire.Sum(sealed), nil
}

// taskLength holds the rounds and local steps of tasks that need more than a
// preset's.
var taskLength = map[string]struct {
	rounds uint64
	steps  uint32
}{"text": {16, 90}}

func (d *Daemon) genesis(s RunSpec) (*wire.Genesis, error) {
	preset, err := rules.PresetNamed(s.Preset)
	if err != nil {
		return nil, exit.Fail(exit.Usage, err, "run refused")
	}
	data, err := train.OpenDataOf(wire.DataContract{Name: s.Task}, d.cfg.Data)
	if err != nil {
		return nil, exit.Fail(exit.Failed, err, "open data %q", s.Task)
	}
	root, err := data.Digest()
	if err != nil {
		return nil, exit.Fail(exit.Failed, err, "read data %q", s.Task)
	}
	def := train.Default(s.Task)
	g := &wire.Genesis{V: 1, Numerics: 1, Name: s.Name, Creator: d.ID(), Preset: preset.Preset, PartValues: 1 << 16,
		Rounds: first(s.Rounds, preset.Rounds), MinPeers: first(s.MinPeers, 1), MinCounted: 1, MinVoters: 1, Group: first(s.Group, wire.MaxMembers),
		Deadline: wire.Deadline{MinMs: first(s.Soonest, 1000), MaxMs: first(s.Deadline, 60_000), Mads: 4}, Snapshot: first(s.Snapshot, 8), Replay: wire.ReplayFull, Seed: s.Seed}
	if g.Preset.Cadence.Window {
		g.Replay = wire.ReplayMerges
	}
	if long, ok := taskLength[s.Task]; ok && !g.Preset.Cadence.Window {
		g.Rounds, g.Preset.Cadence.Steps = first(s.Rounds, long.rounds), long.steps
	}
	g.Preset.Cadence.Steps = first(s.Steps, g.Preset.Cadence.Steps)
	if s.Codec != "" {
		g.Preset.Codec = s.Codec
	}
	if s.Topology != "" {
		g.Preset.Topology = s.Topology
		if g.Preset.Reduced() {
			g.Preset.Merged = "bf16"
		}
	}
	if s.Aggregator != "" {
		g.Preset.Aggregator = s.Aggregator
	}
	if s.Model != "" {
		def.Model = nets.Spec{Name: s.Model}
	}
	if def.Model, err = def.Model.With(s.Args); err != nil {
		return nil, exit.Fail(exit.Failed, err, "build model %q", def.Model.Name)
	}
	taskDefaults(g, def, s.Batch)
	g.Data = []wire.DataContract{{Name: s.Task, Root: root, Train: uint64(data.Len("train")), Test: uint64(data.Len("test"))}}
	if g.Admission, err = admission(s.Allow, d.ID()); err != nil {
		return nil, err
	}
	def.Data, def.Seed, def.Threads = data, s.Seed, 1
	t, err := train.New(def)
	if err != nil {
		return nil, exit.Fail(exit.Failed, err, "build model %q", def.Model.Name)
	}
	defer t.Close()
	schema := t.Schema()
	g.Schema = schema.Digest()
	return g, nil
}

// taskDefaults takes model and local optimizer from the task where the preset
// leaves them open; a preset that steps from merged gradients uses the task's
// optimizer as its outer rule.
func taskDefaults(g *wire.Genesis, def train.Config, batch uint32) {
	g.Model = train.GenesisModel(def.Model)
	decay := g.Preset.Inner.Decay
	g.Preset.Inner = train.GenesisInner(def.Optimizer)
	g.Preset.Inner.Batch, g.Preset.Inner.Decay = first(batch, g.Preset.Inner.Batch), decay
	if g.Preset.Cadence.Window {
		g.Preset.Outer = train.GenesisOuter(def.Optimizer)
	}
}

func admission(allow []string, self wire.PeerID) (wire.Admission, error) {
	if len(allow) == 0 {
		return wire.Admission{Mode: "open", Allow: []wire.PeerID{}}, nil
	}
	a := wire.Admission{Mode: "allow-list", Allow: []wire.PeerID{self}}
	for _, s := range allow {
		p, err := wire.ParsePeer(s)
		if err != nil {
			return a, exit.Fail(exit.Usage, err, "allow-list")
		}
		a.Allow = append(a.Allow, p)
	}
	slices.SortFunc(a.Allow, wire.PeerID.Compare)
	a.Allow = slices.Compact(a.Allow)
	return a, nil
}

func first[T comparable](xs ...T) T {
	var zero T
	for _, x := range xs {
		if x != zero {
			return x
		}
	}
	return zero
}
