package elastic

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/apiary-net/hived/elastic/decide"
)

const (
	slotPrefix = "slot/"
	votePrefix = "vote/"
	// slotsKept is how many rounds a slot outlives its own: what would stand in
	// an older one is refused by everybody.
	slotsKept = 64
)

// Slots returns what reads sign-once slots of votes in kv: nil for an empty one.
func Slots(kv KV) func(slot []byte) ([]byte, error) {
	return func(slot []byte) ([]byte, error) {
		b, err := kv.Get(append([]byte(slotPrefix), slot...))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return b, err
	}
}

// slotNumber returns the round or instance of a slot's key.
func slotNumber(key string) (uint64, bool) {
	name, ok := strings.CutPrefix(key, slotPrefix)
	if !ok {
		return 0, false
	}
	if vote, ok := strings.CutPrefix(name, votePrefix); ok && len(vote) >= 8 {
		return binary.BigEndian.Uint64([]byte(vote)), true
	}
	_, num, ok := strings.Cut(name, "/")
	n, err := strconv.ParseUint(num, 10, 64)
	return n, ok && err == nil
}

// pruneSlots deletes the slots of rounds and instances long decided. Instances
// are never fewer than rounds.
func pruneSlots(kv KV, round uint64) error {
	if round%slotsKept != 0 || round < 2*slotsKept {
		return nil
	}
	var dels [][]byte
	err := kv.Scan([]byte(slotPrefix), func(k, _ []byte) error {
		if n, ok := slotNumber(string(k)); ok && n+slotsKept < round && string(k) != slotPrefix+decide.Slot("start", 0) {
			dels = append(dels, append([]byte{}, k...))
		}
		return nil
	})
	if err == nil && len(dels) > 0 {
		err = kv.Apply(nil, dels, true)
	}
	if err != nil {
		return fmt.Errorf("prune slots: %w", err)
	}
	return nil
}
