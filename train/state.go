package train

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	ops "github.com/apiary-net/hived/tensorops"
	"github.com/apiary-net/hived/wire"
)

// State is all that the next step depends on besides configuration and data.
type State struct {
	Steps           uint64 // optimizer updates so far
	Params, Buffers []float32
	M1, M2          []float32 // the optimizer's moments
}

// State returns a copy of what the last Train reached.
func (t *Trainer) State() (State, error) {
	s := State{Steps: t.steps, Params: slices.Clone(t.theta), Buffers: slices.Clone(t.reached),
		M1: make([]float32, len(t.base)), M2: make([]float32, len(t.base))}
	return s, errors.Join(t.work.sess.Read(ops.M1, s.M1), t.work.sess.Read(ops.M2, s.M2))
}

// Restore makes s the base of the next call and the optimizer's state.
func (t *Trainer) Restore(s State) error {
	n := len(t.base)
	if len(s.Params) != n || len(s.M1) != n || len(s.M2) != n || len(s.Buffers) != len(t.buffers) {
		return fmt.Errorf("restore %d parameters and %d buffers, model has %d and %d", len(s.Params), len(s.Buffers), n, len(t.buffers))
	}
	t.steps = s.Steps
	t.settle(s.Params, s.Buffers)
	return errors.Join(t.work.sess.Write(ops.M1, s.M1), t.work.sess.Write(ops.M2, s.M2))
}

// settle makes params and buffers both the base and what was reached.
func (t *Trainer) settle(params, buffers []float32) {
	copy(t.base, params)
	copy(t.theta, params)
	copy(t.buffers, buffers)
	copy(t.reached, buffers)
}

// Advance makes what the last Train reached the base of the next call. Unlike a
// Load of base less delta it rounds nothing.
func (t *Trainer) Advance() { t.settle(t.theta, t.reached) }

// Reached returns parameters and buffers after the last Train; they belong to the
// trainer until the next call.
func (t *Trainer) Reached() (params, buffers []float32) { return t.theta, t.reached }

// StateDigest names the inner optimizer's state: the number of updates and both
// moments.
func (t *Trainer) StateDigest() wire.Digest {
	h := sha256.New()
	buf := binary.LittleEndian.AppendUint64(nil, t.steps)
	h.Write(buf)
	x := make([]float32, len(t.base))
	for _, v := range []ops.Vector{ops.M1, ops.M2} {
		if err := t.work.sess.Read(v, x); err != nil {
			panic(err) // lengths are the plan's
		}
		for lo := 0; lo < len(x); lo += 4096 {
			buf = buf[:0]
			for _, f := range x[lo:min(lo+4096, len(x))] {
				buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(f))
			}
			h.Write(buf)
		}
	}
	return wire.Digest(h.Sum(nil))
}

// Reset sets the optimizer's state to that of a new trainer.
func (t *Trainer) Reset() {
	t.steps = 0
	x := make([]float32, len(t.base))
	for _, v := range []ops.Vector{ops.M1, ops.M2} {
		if err := t.work.sess.Write(v, x); err != nil {
			panic(err) // lengths are the plan's
		}
	}
}
