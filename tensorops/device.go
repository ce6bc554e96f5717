package tensorops

import (
	"context"
	"errors"
)

// Device opens plans. Its methods may be called concurrently.
type Device interface {
	Open(p *Plan) (Session, error) // names the op that the device lacks
	Info() DeviceInfo
}

// DeviceInfo describes a device.
type DeviceInfo struct {
	Name  string // reference, cpu
	ISA   string // instruction set, where there is a choice
	Exact bool   // bits equal to the reference
}

// Vector names a flat vector of a session.
type Vector uint8

// The vectors. Grads, M1 and M2 have the layout of Params.
const (
	Params Vector = iota
	Grads
	Buffers
	M1
	M2
)

// Batch is the data of one step: Float and Int inputs, each in the order in which
// the graph declared its F32 and I32 inputs.
type Batch struct {
	Float [][]float32
	Int   [][]int32
	// Samples are real, the first ones of the first dimension; what follows fills up,
	// and is no part of a batch's statistics. 0 is all.
	Samples int
}

// ErrBatch is returned when a batch does not fit the plan's inputs.
var ErrBatch = errors.New("batch does not fit the plan")

// Session computes one plan. It belongs to one goroutine.
type Session interface {
	// Step runs the plan on a batch and returns the loss, a sum over samples;
	// gradients accumulate. It returns ctx's error before it starts only.
	Step(ctx context.Context, in Batch) (float64, error)
	// Output copies value i of Options.Keep.
	Output(i int, dst []float32) error
	// ZeroGrads sets all gradients to zero.
	ZeroGrads()
	// Update makes one optimizer step from the gradients times scale.
	Update(o Optimizer, u UpdateArgs) error
	// Read and Write copy a whole vector; lengths must be equal.
	Read(v Vector, dst []float32) error
	Write(v Vector, src []float32) error
	Close() error
}
