package data

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"

	"github.com/apiary-net/hived/wire"
)

// SplitSpec says which samples are held out. Nobody's place in a file or folder
// matters: a sample goes where the hash of its group, else of its content, says,
// and exact copies of a sample are dropped, so none is on two sides.
type SplitSpec struct {
	Test        float64  `toml:"test" comment:"share of the samples that is only for the last evaluation, 0 to 0.5"`
	Valid       float64  `toml:"valid" comment:"share of the others that is evaluated on the way, 0 to 0.5"`
	Folds       int      `toml:"folds" comment:"cross-validation: cut into so many parts by hash, 0 or 2 to 100"`
	Fold        int      `toml:"fold" comment:"the part that is the test split, from 0"`
	TestPattern string   `toml:"test_pattern" comment:"regular expression: files that match are the test split"`
	TestGroups  []string `toml:"test_groups" comment:"groups that are the test split"`
	Seed        uint64   `toml:"seed" comment:"another seed gives other shares"`
}

// Validate checks s.
func (s SplitSpec) Validate() error {
	switch {
	case !(s.Test >= 0 && s.Test <= 0.5) || !(s.Valid >= 0 && s.Valid <= 0.5):
		return fmt.Errorf("split: test %v, valid %v, want 0 to 0.5", s.Test, s.Valid)
	case s.Folds != 0 && (s.Folds < 2 || s.Folds > 100 || s.Fold < 0 || s.Fold >= s.Folds):
		return fmt.Errorf("split: fold %d of %d, want 2 to 100 folds numbered from 0", s.Fold, s.Folds)
	}
	if _, err := regexp.Compile(s.TestPattern); err != nil {
		return fmt.Errorf("split: test_pattern: %w", err)
	}
	return nil
}

// splitter assigns samples.
type splitter struct {
	SplitSpec
	pattern *regexp.Regexp
	seen    map[wire.Digest]bool
	copies  int
}

func newSplitter(s SplitSpec) (*splitter, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	p := &splitter{SplitSpec: s, seen: map[wire.Digest]bool{}}
	if s.TestPattern != "" {
		p.pattern = regexp.MustCompile(s.TestPattern)
	}
	return p, nil
}

// of returns the split of a sample, or "" for a copy of an earlier one. group may
// be empty.
func (p *splitter) of(file, group string, content wire.Digest) string {
	if p.seen[content] {
		p.copies++
		return ""
	}
	p.seen[content] = true
	key := content[:]
	if group != "" {
		key = []byte(group)
	}
	h := sha256.Sum256(binary.BigEndian.AppendUint64(slices.Clone(key), p.Seed))
	share := func(at int) float64 { return float64(binary.BigEndian.Uint32(h[at:])) / (1 << 32) }
	switch {
	case p.pattern != nil && p.pattern.MatchString(file), slices.Contains(p.TestGroups, group) && group != "":
		return Test
	case p.Folds > 0 && int(binary.BigEndian.Uint32(h[8:]))%p.Folds == p.Fold:
		return Test
	case share(0) < p.Test:
		return Test
	case share(4) < p.Valid:
		return Valid
	}
	return Train
}
