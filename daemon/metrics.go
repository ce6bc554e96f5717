package daemon

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/apiary-net/hived/elastic"
	"github.com/apiary-net/hived/gossip"
	"github.com/apiary-net/hived/wire"
)

// metrics are the daemon's instruments. Label values come from closed lists and
// from ids of runs that this peer takes part in.
type metrics struct {
	reg          *prometheus.Registry
	rounds       *prometheus.CounterVec
	roundNumber  *prometheus.GaugeVec
	participants *prometheus.GaugeVec
	refused      *prometheus.CounterVec
	duration     *prometheus.HistogramVec
	loss         *prometheus.GaugeVec
	decide       *prometheus.HistogramVec
}

func newMetrics(d *Daemon) *metrics {
	m := &metrics{reg: prometheus.NewRegistry()}
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "hived", Name: name, Help: help}
	}
	m.rounds = prometheus.NewCounterVec(prometheus.CounterOpts(opts("rounds_total", "Rounds decided by result (complete|degraded).")), []string{"run", "result"})
	m.roundNumber = prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("round_number", "Newest decided round.")), []string{"run"})
	m.participants = prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("round_participants", "Planned peers of the last round by status.")), []string{"run", "state"})
	m.refused = prometheus.NewCounterVec(prometheus.CounterOpts(opts("contributions_rejected_total", "Contributions refused by reason.")), []string{"run", "reason"})
	m.duration = prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "hived", Name: "round_duration_seconds", Help: "Time from one record to the next.", Buckets: prometheus.ExponentialBuckets(0.1, 2, 14)}, []string{"run"})
	m.decide = prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "hived", Name: "decision_duration_seconds", Help: "Time of the agreement on one record.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 14)}, []string{"run"})
	m.loss = prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("training_loss", "Training loss of the last round.")), []string{"run"})
	info := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "hived", Name: "build_info", Help: "Build identity, value always 1.", ConstLabels: prometheus.Labels{"version": Version}})
	info.Set(1)
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts(opts(name, help)), f)
	}
	m.reg.MustRegister(m.rounds, m.roundNumber, m.participants, m.refused, m.duration, m.decide, m.loss, info,
		gauge("ready", "1 when /readyz would answer 200.", func() float64 {
			if ok, _ := d.readiness(); ok {
				return 1
			}
			return 0
		}),
		gauge("connected_peers", "Connected peers.", func() float64 { return float64(len(d.node.Peers())) }),
		traffic{d},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// round books a decided round.
func (m *metrics) round(r *run, rec *wire.Record, i *elastic.RoundInfo) {
	id := r.id.Short()
	states := map[wire.Status]int{}
	for _, v := range rec.Cut {
		states[v.Status]++
		if v.Reason != wire.ReasonNone {
			m.refused.WithLabelValues(id, v.Reason.String()).Inc()
		}
	}
	result := "complete"
	if states[wire.Counted] < len(rec.Cut) {
		result = "degraded"
	}
	m.rounds.WithLabelValues(id, result).Inc()
	m.roundNumber.WithLabelValues(id).Set(float64(rec.Round))
	m.participants.WithLabelValues(id, "expected").Set(float64(len(rec.Cut)))
	for s := wire.Counted; s <= wire.Equivocated; s++ {
		m.participants.WithLabelValues(id, s.String()).Set(float64(states[s]))
	}
	m.duration.WithLabelValues(id).Observe(i.Took.Seconds())
	if i.Decide > 0 {
		m.decide.WithLabelValues(id).Observe(i.Decide.Seconds())
	}
	m.loss.WithLabelValues(id).Set(lineOf(rec, 0, 0).Loss)
}

// purposes says what a protocol's bytes are for.
var purposes = map[string]string{gossip.ProtoMesh: "gossip", gossip.ProtoBlocks: "exchange", gossip.ProtoPull: "state",
	gossip.ProtoPeers: "discovery", protoSlice: "exchange", protoVote: "consensus", protoSay: "gossip"}

// traffic exports libp2p's byte counters by purpose.
type traffic struct{ d *Daemon }

var trafficDesc = prometheus.NewDesc("hived_network_bytes_total", "Bytes moved over libp2p streams by purpose.", []string{"direction", "purpose"}, nil)

// Describe implements prometheus.Collector.
func (traffic) Describe(c chan<- *prometheus.Desc) { c <- trafficDesc }

// Collect implements prometheus.Collector.
func (t traffic) Collect(c chan<- prometheus.Metric) {
	in, out := map[string]uint64{}, map[string]uint64{}
	all := t.d.node.Bytes()
	in["other"], out["other"] = all.In, all.Out
	for proto, b := range all.Protocols {
		if p, ok := purposes[proto]; ok {
			in[p], out[p] = in[p]+b.In, out[p]+b.Out
			in["other"] -= min(in["other"], b.In)
			out["other"] -= min(out["other"], b.Out)
		}
	}
	for p := range out {
		c <- prometheus.MustNewConstMetric(trafficDesc, prometheus.CounterValue, float64(in[p]), "in", p)
		c <- prometheus.MustNewConstMetric(trafficDesc, prometheus.CounterValue, float64(out[p]), "out", p)
	}
}
