package rules

import (
	"fmt"

	"github.com/apiary-net/hived/wire"
)

// CountedHeader is a header that a record counts.
type CountedHeader struct {
	Env     wire.Envelope
	Header  wire.Header
	Samples uint32
}

// CountedHeaders returns the headers that a record counts, in the order of peer
// ids. A record of several groups holds none: the evidence of CountedGroups does.
func CountedHeaders(rec *wire.Record) ([]CountedHeader, error) {
	if len(rec.Groups) > 0 {
		return nil, nil
	}
	var out []CountedHeader
	for _, v := range rec.Cut {
		if v.Status != wire.Counted {
			continue
		}
		found := false
		for _, raw := range rec.Headers {
			env, err := wire.Open(raw)
			if err != nil {
				return nil, err
			}
			if env.Digest() != v.Header {
				continue
			}
			ch := CountedHeader{Env: env, Samples: v.Samples}
			if err := env.Decode(&ch.Header); err != nil {
				return nil, err
			}
			out, found = append(out, ch), true
		}
		if !found {
			return nil, fmt.Errorf("record %d counts a header that it does not hold", rec.Round)
		}
	}
	return out, nil
}

// MedianNorm returns the lower median of the norms of what a record counts, 0 for nothing.
func MedianNorm(r *wire.Record) float32 {
	var norms []float32
	for _, o := range CountedGroups(r) {
		if o.Weight() > 0 {
			norms = append(norms, o.Norm)
		}
	}
	for _, raw := range r.Headers {
		var h wire.Header
		if e, err := wire.Open(raw); err == nil && e.Decode(&h) == nil {
			if v, ok := r.Verdict(e.Sender); ok && v.Status == wire.Counted {
				norms = append(norms, h.Norm)
			}
		}
	}
	return lowerMedian(norms)
}

// CountedGroups returns the outcomes that a record of several groups counts, in
// group order.
func CountedGroups(rec *wire.Record) []*wire.GroupOutcome {
	out := make([]*wire.GroupOutcome, len(rec.Counting))
	for i, n := range rec.Counting {
		out[i] = &rec.Groups[n].Outcome
	}
	return out
}

// MeanLoss returns the mean training loss of what a record counts, by samples, and
// the number of these. It is 0 of 0 where nothing counts.
func MeanLoss(rec *wire.Record) (loss float64, samples uint64) {
	for _, o := range CountedGroups(rec) {
		loss += float64(float64(o.Loss) * float64(o.Weight())) // rounded before it is added: no fused product
		samples += o.Weight()
	}
	headers, err := CountedHeaders(rec)
	if err != nil {
		return 0, 0
	}
	for _, h := range headers {
		loss += float64(float64(h.Header.Loss) * float64(h.Samples))
		samples += uint64(h.Samples)
	}
	if samples == 0 {
		return 0, 0
	}
	return loss / float64(samples), samples
}

// MembersOf returns the peers whose contributions an outcome counts.
func MembersOf(rec *wire.Record, o *wire.GroupOutcome) []wire.PeerID {
	headers := map[wire.Digest]bool{}
	for _, r := range o.Rows {
		headers[r.Header] = r.Status == wire.Counted
	}
	var out []wire.PeerID
	for _, v := range rec.Cut {
		if headers[v.Header] {
			out = append(out, v.Peer)
		}
	}
	return out
}
