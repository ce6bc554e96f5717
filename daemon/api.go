package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/gossip"
	"github.com/apiary-net/hived/wire"
)

// PeerStatus is one connected peer.
type PeerStatus struct {
	ID        string  `json:"id"`
	Addr      string  `json:"addr"`
	Transport string  `json:"transport"`
	Inbound   bool    `json:"inbound"`
	Seconds   float64 `json:"seconds"`
	Agent     string  `json:"agent"`
}

// Status is what `hived status` prints.
type Status struct {
	Schema    string              `json:"schema"` // hived.status/v1
	ID        string              `json:"id"`
	Name      string              `json:"name"`
	Version   string              `json:"version"`
	Ready     bool                `json:"ready"`
	Reasons   []string            `json:"reasons,omitempty"` // why not ready, or what is degraded
	Seconds   float64             `json:"seconds"`           // since start
	Addrs     []string            `json:"addrs"`
	Peers     int                 `json:"peers"`
	Bootstrap []gossip.BootStatus `json:"bootstrap,omitempty"`
	Runs      []RunStatus         `json:"runs"`
}

// RunStatus is one run at this peer.
type RunStatus struct {
	ID       string  `json:"id"`
	Name     string  `json:"name"`
	Task     string  `json:"task"`
	Preset   string  `json:"preset"`
	State    string  `json:"state"` // waiting, training, finished, stopped
	Round    uint64  `json:"round"` // of the newest record
	Rounds   uint64  `json:"rounds"`
	Applied  uint64  `json:"applied"`
	Version  string  `json:"version"` // CID of the newest version here
	Loss     float64 `json:"loss"`
	Members  int     `json:"members"`
	Active   int     `json:"active"`
	Voters   int     `json:"voters"`
	Counted  uint64  `json:"counted"` // contributions, as far as seen by this process
	Expected uint64  `json:"expected"`
	Bytes    struct {
		Payload uint64 `json:"payload"` // of own contributions
		Socket  uint64 `json:"socket"`  // sent by the whole daemon, from libp2p's counter
		Control uint64 `json:"control"` // the part of Socket that is neither blocks nor slices
	} `json:"bytes"`
	TrainCPU float64  `json:"train_cpu_seconds"`
	Steps    float64  `json:"steps"` // local steps of this process, also in vain, parts included
	DecideMs float64  `json:"decide_ms_p50"`
	Waiting  string   `json:"waiting,omitempty"`
	Roster   []string `json:"roster"`
	Table    []string `json:"table"`            // the voters
	Leader   string   `json:"leader,omitempty"` // who proposes the next record
	Error    string   `json:"error,omitempty"`
	// Witnesses have cosigned the log of this peer; Convicted signed two histories.
	Witnesses int      `json:"witnesses"`
	Convicted []string `json:"convicted"`
}

func (d *Daemon) status(ctx context.Context) Status {
	s := Status{Schema: "hived.status/v1", ID: d.ID().String(), Name: d.cfg.Node.Name, Version: Version, Seconds: time.Since(d.began).Seconds(),
		Addrs: d.node.Addrs(), Peers: len(d.node.Peers()), Bootstrap: d.node.BootstrapStatus(), Runs: []RunStatus{}}
	s.Ready, s.Reasons = d.readiness()
	for _, r := range d.allRuns() {
		s.Runs = append(s.Runs, r.status(ctx))
	}
	slices.SortFunc(s.Runs, func(a, b RunStatus) int { return strings.Compare(a.ID, b.ID) })
	return s
}

// readiness says whether every part works; a peer without others is ready, and
// says so.
func (d *Daemon) readiness() (bool, []string) {
	d.mu.RLock()
	ready := d.ready
	d.mu.RUnlock()
	var reasons []string
	if !ready {
		reasons = append(reasons, "starting or stopping")
	}
	if text, ok := d.node.Ready(); !ok {
		reasons = append(reasons, text)
	}
	return ready, reasons
}

func (r *run) status(ctx context.Context) RunStatus {
	g := &r.genesis
	s := RunStatus{ID: r.id.String(), Name: g.Name, Task: g.Data[0].Name, Preset: g.Preset.Label, Rounds: g.Rounds, State: "waiting", Roster: []string{}, Table: []string{}}
	s.TrainCPU, s.Steps = time.Duration(r.trainer.cpu.Load()).Seconds(), r.trainer.done()
	s.addWitnesses(r)
	sent := r.d.node.Bytes()
	s.Bytes.Socket = sent.Out
	s.Bytes.Control = sent.Out - min(sent.Out, sent.Protocols[gossip.ProtoBlocks].Out+sent.Protocols[protoSlice].Out)
	p := &r.progress
	p.mu.Lock()
	s.Counted, s.Expected, s.Bytes.Payload = p.counted, p.expected, p.payload
	if n := len(p.rounds); n > 0 {
		s.Loss = p.rounds[n-1].Loss
	}
	if n := len(p.decide); n > 0 {
		s.DecideMs = slices.Sorted(slices.Values(p.decide))[(n-1)/2]
	}
	if p.waiting != nil {
		s.Waiting = waitText(p.waiting)
	}
	if p.trouble != nil {
		s.Error = p.trouble.Error()
	}
	p.mu.Unlock()
	select {
	case <-r.done:
		s.State = "stopped"
		if r.err != nil {
			s.Error = r.err.Error()
		}
		return s
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	snap, err := r.runner.Status(ctx)
	if err != nil {
		s.Error = err.Error()
		return s
	}
	s.Applied, s.Version = snap.Applied, snap.Version.String()
	if snap.Head != nil {
		s.State = "training"
		s.Round, s.Members, s.Voters = snap.Head.Round, len(snap.Head.Roster), len(snap.Head.Table)
		for _, v := range snap.Head.Table {
			s.Table = append(s.Table, v.Peer.String())
		}
		if !snap.Leader.IsZero() {
			s.Leader = snap.Leader.String()
		}
		for _, seat := range snap.Head.Roster {
			s.Roster = append(s.Roster, seat.Peer.String())
			if seat.Active {
				s.Active++
			}
		}
	}
	if snap.Finished {
		s.State = "finished"
	}
	return s
}

// routes are all of the API, as docs/api.md has it.
func (d *Daemon) routes() map[string]http.Handler {
	out := map[string]http.Handler{"GET /metrics": promhttp.HandlerFor(d.metrics.reg, promhttp.HandlerOpts{})}
	for pattern, h := range map[string]http.HandlerFunc{
		"GET /livez":                     func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") },
		"GET /readyz":                    d.readyz,
		"GET /version":                   func(w http.ResponseWriter, _ *http.Request) { reply(w, map[string]string{"version": Version}, nil) },
		"GET /api/v1/status":             func(w http.ResponseWriter, q *http.Request) { reply(w, d.status(q.Context()), nil) },
		"GET /api/v1/peers":              func(w http.ResponseWriter, _ *http.Request) { reply(w, d.peers(), nil) },
		"POST /api/v1/join":              d.join,
		"POST /api/v1/runs":              d.postRun,
		"POST /api/v1/runs/{run}/start":  d.postStart,
		"POST /api/v1/runs/{run}/stop":   d.postStop,
		"POST /api/v1/runs/{run}/export": d.postExport,
		"GET /api/v1/runs/{run}":         d.getRun,
		"GET /api/v1/runs/{run}/rounds":  d.getRounds,
		"GET /api/v1/runs/{run}/genesis": d.getGenesis,
		"GET /api/v1/runs/{run}/ledger":  d.getLedger,
		"GET /api/v1/runs/{run}/shards":  d.getShards,
	} {
		out[pattern] = h
	}
	for path, h := range map[string]http.HandlerFunc{"/": pprof.Index, "/profile": pprof.Profile, "/trace": pprof.Trace, "/symbol": pprof.Symbol, "/cmdline": pprof.Cmdline} {
		out["GET /debug/pprof"+path] = unixOnly(h)
	}
	return out
}

// ErrorBody is what the API answers instead of a result.
type ErrorBody struct {
	Error string    `json:"error"`
	Code  exit.Code `json:"code"`
}

func reply(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusUnprocessableEntity)
		v = ErrorBody{err.Error(), exit.CodeOf(err)}
	}
	_ = json.NewEncoder(w).Encode(v) // the client is gone if this fails
}

func (d *Daemon) readyz(w http.ResponseWriter, _ *http.Request) {
	ok, reasons := d.readiness()
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	for _, r := range reasons {
		fmt.Fprintf(w, "[-]%s\n", r)
	}
	if ok {
		fmt.Fprintln(w, "ok")
	}
}

func (d *Daemon) peers() []PeerStatus {
	out := []PeerStatus{}
	for _, p := range d.node.Peers() {
		out = append(out, PeerStatus{p.ID.String(), p.Addr, p.Transport, p.Inbound, time.Since(p.Since).Seconds(), p.Agent})
	}
	return out
}

// find returns the run in progress that s names: by its id, or else by its name or the
// first eight or more digits of its id, if only one has them.
func (d *Daemon) find(s string) (*run, error) {
	var found []*run
	for _, r := range d.allRuns() {
		if r.id.String() == s {
			return r, nil
		}
		if r.genesis.Name == s || len(s) >= 8 && strings.HasPrefix(r.id.String(), s) {
			found = append(found, r)
		}
	}
	switch len(found) {
	case 0:
		return nil, exit.Fail(exit.Usage, nil, "run %q is not in progress here; see hived run ls", s)
	case 1:
		return found[0], nil
	}
	ids := make([]wire.RunID, len(found))
	for i, r := range found {
		ids[i] = r.id
	}
	return nil, ambiguous(s, ids)
}

// ambiguous refuses a name that several runs have.
func ambiguous(name string, ids []wire.RunID) error {
	slices.SortFunc(ids, wire.Digest.Compare)
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	return exit.Fail(exit.Usage, nil, "%d runs are called %q here: %s; give the id of one", len(ids), name, strings.Join(texts, " and "))
}

func (d *Daemon) getRun(w http.ResponseWriter, q *http.Request) {
	r, err := d.find(q.PathValue("run"))
	if err != nil {
		reply(w, nil, err)
		return
	}
	reply(w, r.status(q.Context()), nil)
}

func (d *Daemon) getGenesis(w http.ResponseWriter, q *http.Request) {
	r, err := d.find(q.PathValue("run"))
	if err != nil {
		reply(w, nil, err)
		return
	}
	reply(w, r.genesis, nil)
}

// getShards returns the shard map; with ?check=1 every block is looked for.
func (d *Daemon) getShards(w http.ResponseWriter, q *http.Request) {
	r, err := d.find(q.PathValue("run"))
	if err != nil {
		reply(w, nil, err)
		return
	}
	m, err := r.shardMap(q.Context(), q.URL.Query().Get("check") != "")
	reply(w, m, err)
}

func (d *Daemon) postRun(w http.ResponseWriter, q *http.Request) {
	var s RunSpec
	if err := decodeJSON(q, &s); err != nil {
		reply(w, nil, err)
		return
	}
	sealed, id, err := d.NewGenesis(s)
	if err == nil {
		_, err = d.StartRun(sealed)
	}
	reply(w, map[string]string{"id": id.String()}, err)
}

func decodeJSON(q *http.Request, v any) error {
	dec := json.NewDecoder(q.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return exit.Fail(exit.Usage, err, "read request")
	}
	if dec.More() {
		return exit.Fail(exit.Usage, nil, "read request: more than one value")
	}
	return nil
}

// postStart takes part in a run that a peer knows, by id or name.
func (d *Daemon) postStart(w http.ResponseWriter, q *http.Request) {
	var body struct {
		Seconds float64 `json:"seconds"` // limit
	}
	if err := decodeJSON(q, &body); err != nil {
		reply(w, nil, err)
		return
	}
	name := q.PathValue("run")
	want := wire.GenesisQuery{Name: name}
	if id, err := wire.ParseDigest(name); err == nil {
		want = wire.GenesisQuery{Run: id}
	}
	ctx, cancel := context.WithTimeout(q.Context(), time.Duration(max(1, min(body.Seconds, 600))*float64(time.Second)))
	defer cancel()
	sealed, err := d.knownGenesis(want)
	if errors.Is(err, fs.ErrNotExist) {
		sealed, err = d.findGenesis(ctx, want)
	}
	var id wire.RunID
	if err == nil {
		id, err = d.StartRun(sealed)
	}
	reply(w, map[string]string{"id": id.String()}, err)
}

func (d *Daemon) postStop(w http.ResponseWriter, q *http.Request) {
	err := decodeJSON(q, &struct{}{})
	var r *run
	if err == nil {
		r, err = d.find(q.PathValue("run"))
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(q.Context(), leaveTime)
		defer cancel()
		err = d.StopRun(ctx, r.id)
	}
	reply(w, map[string]string{}, err)
}

// getRounds returns decided rounds from ?from= on; with ?follow=1 it streams
// them as JSON lines until the client goes or the run ends.
func (d *Daemon) getRounds(w http.ResponseWriter, q *http.Request) {
	r, err := d.find(q.PathValue("run"))
	if err != nil {
		reply(w, nil, err)
		return
	}
	from := uint64(1)
	if v := q.URL.Query().Get("from"); v != "" {
		if from, err = strconv.ParseUint(v, 10, 64); err != nil {
			reply(w, nil, exit.Fail(exit.Usage, err, "rounds from %q", v))
			return
		}
	}
	follow := q.URL.Query().Get("follow") != ""
	w.Header().Set("Content-Type", "application/jsonl")
	enc := json.NewEncoder(w)
	for {
		lines, more := r.progress.since(from)
		for _, l := range lines {
			if enc.Encode(l) != nil {
				return
			}
			from = l.Round + 1
		}
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		if !follow {
			return
		}
		select {
		case <-more:
		case <-q.Context().Done():
			return
		case <-r.runner.Ended():
			if lines, _ := r.progress.since(from); len(lines) == 0 {
				return
			}
		case <-r.done:
			return
		}
	}
}

// join dials an address and waits until the peer is connected.
func (d *Daemon) join(w http.ResponseWriter, q *http.Request) {
	var body struct {
		Address string  `json:"address"`
		Seconds float64 `json:"seconds"`
	}
	if err := decodeJSON(q, &body); err != nil {
		reply(w, nil, err)
		return
	}
	ctx, cancel := context.WithTimeout(q.Context(), time.Duration(max(1, min(body.Seconds, 600))*float64(time.Second)))
	defer cancel()
	p, err := d.node.Dial(ctx, body.Address)
	if err != nil {
		reply(w, nil, exit.Fail(exit.NoPeer, err, "join %s", body.Address))
		return
	}
	reply(w, map[string]any{"peer": p.String(), "peers": len(d.node.Peers())}, nil)
}
