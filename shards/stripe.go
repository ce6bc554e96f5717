package shards

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/klauspost/reedsolomon"

	"github.com/apiary-net/hived/wire"
)

// ErrTooFewBlocks is returned by Restore when fewer than k blocks are left.
var ErrTooFewBlocks = errors.New("too few blocks of the stripe are left")

// Layout returns the numbers of data and parity blocks of a stripe over n
// holders: (1, 0) for one and less, which means no stripe at all; 1+1, 1+2,
// 2+2 for two, three and four; (n-2)+2 up to eleven; 10+2 from twelve on.
func Layout(n int) (k, m int) {
	switch {
	case n <= 1:
		return 1, 0
	case n == 2:
		return 1, 1
	case n == 3:
		return 1, 2
	}
	return min(n-2, wire.MaxStripeData), wire.MaxStripeParity
}

// Encode groups blocks into stripes of Layout(len(holders)) in their order, the
// last one shorter if they do not divide, and returns the stripes and all new
// parity blocks, stripe by stripe. It is a pure function of its arguments, so
// every peer computes the same placement. Blocks are 1 byte to 1 MiB and stay
// the caller's; holders must differ. One holder gives no stripes.
func Encode(blocks [][]byte, holders []wire.PeerID, seed wire.Digest) ([]wire.Stripe, [][]byte, error) {
	if err := wire.Distinct(holders); err != nil {
		return nil, nil, fmt.Errorf("encode stripes: %w", err)
	}
	for i, b := range blocks {
		if len(b) == 0 || len(b) > wire.MaxBlock {
			return nil, nil, fmt.Errorf("encode stripes: block %d of %d bytes, want 1 to %d", i, len(b), wire.MaxBlock)
		}
	}
	k, m := Layout(len(holders))
	if m == 0 {
		return nil, nil, nil
	}
	var stripes []wire.Stripe
	var parity [][]byte
	for data := range slices.Chunk(blocks, k) {
		st, p, err := encodeStripe(data, m)
		if err != nil {
			return nil, nil, fmt.Errorf("encode stripe %d: %w", len(stripes), err)
		}
		st.Holders = rank(holders, seed, uint64(len(stripes)))[:len(data)+m]
		stripes, parity = append(stripes, st), append(parity, p...)
	}
	return stripes, parity, nil
}

// rank orders holders by rendezvous hashing: a draw with seed and stripe number.
func rank(holders []wire.PeerID, seed wire.Digest, stripe uint64) []wire.PeerID {
	return wire.Draw("hived/stripe/v1\n", binary.BigEndian.AppendUint64(seed[:], stripe), holders)
}

func encodeStripe(data [][]byte, m int) (wire.Stripe, [][]byte, error) {
	var st wire.Stripe
	size := 0
	for _, b := range data {
		st.Data = append(st.Data, wire.RawCID(b))
		st.Len = append(st.Len, uint32(len(b)))
		size = max(size, len(b))
	}
	code, err := reedsolomon.New(len(data), m, reedsolomon.WithMaxGoroutines(1))
	if err != nil {
		return st, nil, err
	}
	all := make([][]byte, len(data)+m)
	for i, b := range data {
		all[i] = padded(b, size)
	}
	for i := range m {
		all[len(data)+i] = make([]byte, size)
	}
	if err := code.Encode(all); err != nil {
		return st, nil, err
	}
	parity := all[len(data):]
	for _, p := range parity {
		st.Parity = append(st.Parity, wire.RawCID(p))
	}
	return st, parity, nil
}

// padded returns b itself if it has the size, else a copy with zeros behind.
func padded(b []byte, size int) []byte {
	if len(b) == size {
		return b
	}
	return append(make([]byte, 0, size), b...)[:size]
}

// parityBytes returns the size of each parity block of s.
func parityBytes(s wire.Stripe) int {
	if len(s.Len) == 0 {
		return 0
	}
	return int(slices.Max(s.Len))
}

// Restore returns all blocks of stripe s, data then parity, from any k of
// them: have[i] is block i or nil if it is lost. Blocks that are not what the
// stripe names count as lost. The result shares memory with have. It returns
// ErrTooFewBlocks when not enough are left.
func Restore(s wire.Stripe, have [][]byte) ([][]byte, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("restore stripe: %w", err)
	}
	k, m := len(s.Data), len(s.Parity)
	if len(have) != k+m {
		return nil, fmt.Errorf("restore stripe of %d blocks: %d slots given", k+m, len(have))
	}
	size, left := parityBytes(s), 0
	all := make([][]byte, k+m)
	for i, b := range have {
		if b == nil || len(b) > size || !s.Block(i).Names(b) {
			continue
		}
		all[i] = padded(b, size)
		left++
	}
	if left < k {
		return nil, fmt.Errorf("restore stripe: %d of %d blocks, need %d: %w", left, k+m, k, ErrTooFewBlocks)
	}
	code, err := reedsolomon.New(k, m, reedsolomon.WithMaxGoroutines(1))
	if err != nil {
		return nil, fmt.Errorf("restore stripe: %w", err)
	}
	if err := code.Reconstruct(all); err != nil {
		return nil, fmt.Errorf("restore stripe: %w", err)
	}
	for i := range all {
		if i < k {
			all[i] = all[i][:s.Len[i]]
		}
		if !s.Block(i).Names(all[i]) {
			return nil, fmt.Errorf("restore stripe: block %d is not %s: the stripe lies about its parity or lengths", i, s.Block(i))
		}
	}
	return all, nil
}
