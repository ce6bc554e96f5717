package netsim

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Span is a duration in a scenario, written as "250ms"; the empty text says
// nothing.
type Span struct {
	D    time.Duration
	Said bool
}

// Or returns the duration, or def where none is said.
func (s Span) Or(def time.Duration) time.Duration {
	if s.Said {
		return s.D
	}
	return def
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Span) UnmarshalText(b []byte) error {
	*s = Span{}
	if len(b) == 0 {
		return nil
	}
	d, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 250ms or 10s", b)
	}
	*s = Span{d, true}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (s Span) MarshalText() ([]byte, error) {
	if !s.Said {
		return []byte{}, nil
	}
	return []byte(s.D.String()), nil
}

// When is a time in a scenario, or a round: "30s" or "round 10".
type When struct {
	At    time.Duration
	Round uint64 // from 1 on; 0: it is a time
	Said  bool
}

const roundPrefix = "round "

// UnmarshalText implements encoding.TextUnmarshaler.
func (w *When) UnmarshalText(b []byte) error {
	*w = When{}
	if n, ok := strings.CutPrefix(string(b), roundPrefix); ok {
		r, err := strconv.ParseUint(strings.TrimSpace(n), 10, 32)
		if err == nil && r == 0 {
			err = errors.New("rounds begin with 1")
		}
		if err != nil {
			return fmt.Errorf("%q is no round: %w", b, err)
		}
		*w = When{Round: r, Said: true}
		return nil
	}
	var s Span
	if err := s.UnmarshalText(b); err != nil {
		return err
	}
	*w = When{At: s.D, Said: s.Said}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (w When) MarshalText() ([]byte, error) {
	if w.Round > 0 {
		return strconv.AppendUint([]byte(roundPrefix), w.Round, 10), nil
	}
	return Span{w.At, w.Said}.MarshalText()
}

// rate reads bits a second as bytes a second.
func rate(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	for _, u := range []struct {
		name string
		bits float64
	}{{"Gbit", 1e9}, {"Mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}} {
		if n, ok := strings.CutSuffix(text, u.name); ok {
			f, err := strconv.ParseFloat(strings.TrimSpace(n), 64)
			if err != nil || !(f > 0) {
				break
			}
			return f * u.bits / 8, nil
		}
	}
	return 0, fmt.Errorf("%q is not a rate such as 10Mbit", text)
}

// Indexes reads a list of machines such as "1,4-6".
func Indexes(text string) (out []int, err error) {
	for _, part := range strings.Split(text, ",") {
		a, b, isRange := strings.Cut(strings.TrimSpace(part), "-")
		lo, err := strconv.Atoi(a)
		hi := lo
		if err == nil && isRange {
			hi, err = strconv.Atoi(b)
		}
		if err != nil || lo < 0 || hi < lo || hi > MaxPeers {
			return nil, fmt.Errorf("%q is no list of indexes", text)
		}
		for i := lo; i <= hi; i++ {
			out = append(out, i)
		}
	}
	return out, nil
}
