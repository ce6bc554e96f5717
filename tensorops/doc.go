// Package tensorops holds tensors, the tape, ops with their plain Go meaning, and
// optimizers over flat vectors.
//
// A model appends ops to a Graph; that touches no data. Compile turns the graph
// and its loss into a Plan: a fixed list of forward and backward steps and one
// arena whose size is known before the start, since every buffer has its place by
// the steps during which it lives. A Device opens a Plan into a Session, which
// computes losses and gradients and updates parameters.
//
// Parameters lie in byte-wise name order in one flat float32 vector, buffers in a
// second one: the vector is the canonical state. Gradients, and the two moments of
// an optimizer, have the layout of the parameters.
//
// Backward accumulates (+=) into parameter gradients, so that micro-batches add
// up; Session.ZeroGrads starts anew. A loss is a sum over samples: Update divides
// once, by a scale. Gradients of activations are written, not added; Compile adds
// an explicit step where a value has several readers.
//
// Each op's file holds its plain Go loops, which are its meaning: the C kernels of
// package cpu return the same bits on every instruction set and for any number of
// threads. A product that feeds a sum is one fused operation (num.Fma32) or is
// rounded by itself; chains over K are cut into blocks that depend on K only; row
// sums use 32 lanes (see lanes.go), column sums 64-row chunks.
//
// Two things trade for memory and speed: Graph.Checkpoint (and a plan above
// Options.MaxBytes, by itself) computes values again in backward, with the same
// bits; Options.Compute = BF16 rounds the operands of linear layers and attention,
// and its bits depend on the processor.
//
// Functions that build graphs and run kernels panic on bad shapes: these are
// broken invariants. Nothing here is safe for concurrent use except Devices.
package tensorops
