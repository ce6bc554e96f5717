//go:build cgo

package cpu

/*
#cgo CFLAGS: -O3 -Wall -Wno-psabi
#cgo LDFLAGS: -lpthread -lm
#include "api.h"
#include <stdlib.h>
*/
import "C"

import (
	"fmt"
	"time"
	"unsafe"
)

// ISAs returns the instruction sets that this machine can run, best first:
// among avx512, avx2, neon, scalar, and wide (the 16-lane source run by AVX2,
// for tests).
func ISAs() []string {
	var s []string
	for i := C.int(0); ; i++ {
		p := C.hv_isa(i)
		if p == nil {
			return s
		}
		s = append(s, C.GoString(p))
	}
}

// ISA returns the instruction set in use.
func ISA() string { return C.GoString(C.hv_current()) }

// SetISA chooses the instruction set of all later calls. Results do not depend
// on it.
func SetISA(name string) error {
	p := C.CString(name)
	defer C.free(unsafe.Pointer(p))
	if C.hv_set_isa(p) != 0 {
		return fmt.Errorf("set instruction set %q: not usable here, have %v", name, ISAs())
	}
	return nil
}

// SetThreads sets how many threads, the caller included, share one call, in
// [1, 256], and returns the number reached. The default is 1. Results do not
// depend on it.
func SetThreads(n int) int { return int(C.hv_set_threads(C.int(n))) }

// WorkerTime returns the processor time used so far by the pool's threads.
func WorkerTime() time.Duration { return time.Duration(C.hv_worker_ns()) }

func f(x []float32) *C.float { return (*C.float)(unsafe.SliceData(x)) }
func i32(x []int32) *C.int32_t {
	return (*C.int32_t)(unsafe.SliceData(x))
}
func f64(x []float64) *C.double { return (*C.double)(unsafe.SliceData(x)) }
func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// Mat is a strided operand: element (lane, depth) at P[lane*Lane+depth*Depth].
type Mat struct {
	P           []float32
	Lane, Depth int
}

// Finish is what a product does to its result once that is complete, in this order.
// Slices but Bias are laid out as c; nil leaves a step out.
type Finish struct {
	Bias  []float32 // [n], added to each row
	Relu  bool      // after the bias, which must be there
	Gelu  []float32 // receives gelu(c)
	Slope []float32 // c becomes c * gelu'(Slope)
}

// Gemm sets (or adds to) c[i*ldc+j] the product over k of a(i, p) and b(j, p), then
// does what e says.
func Gemm(m, n, k int, a, b Mat, c []float32, ldc int, add bool, e Finish) {
	C.hv_gemm(C.long(m), C.long(n), C.long(k), f(a.P), C.long(a.Lane), C.long(a.Depth), f(b.P), C.long(b.Lane), C.long(b.Depth), f(c), C.long(ldc), flag(add), f(e.Bias), flag(e.Relu), f(e.Gelu), f(e.Slope))
}

// HasBF16 reports whether the chosen instruction set multiplies bfloat16 by itself.
func HasBF16() bool { return C.hv_has_bf16() == 1 }

// setTiles lets bfloat16 products use AMX tiles, which is so at the start.
func setTiles(on bool) { C.hv_set_tiles(flag(on)) }

// GemmBF16 is Gemm with a and b rounded to bfloat16 (nearest even) and float32
// sums, whose order depends on the processor.
func GemmBF16(m, n, k int, a, b Mat, c []float32, ldc int, add bool, e Finish) {
	C.hv_gemm_bf16(C.long(m), C.long(n), C.long(k), f(a.P), C.long(a.Lane), C.long(a.Depth), f(b.P), C.long(b.Lane), C.long(b.Depth), f(c), C.long(ldc), flag(add), f(e.Bias), flag(e.Relu), f(e.Gelu), f(e.Slope))
}

// Conv is the geometry of a convolution: B, H, W, C, OH, OW, O, KH, KW, stride, pad,
// groups.
type Conv [12]int

func (c *Conv) long() *C.long { return (*C.long)(unsafe.Pointer(c)) }

// ConvForward writes y = conv(x, w) + bias.
func ConvForward(c *Conv, x, w, bias, y []float32, relu bool) {
	C.hv_conv_fwd(c.long(), f(x), f(w), f(bias), f(y), flag(relu))
}

// ConvInput writes the gradient of the input.
func ConvInput(c *Conv, dy, w, dx []float32) { C.hv_conv_dx(c.long(), f(dy), f(w), f(dx)) }

// ConvWeight adds the gradient of the weights.
func ConvWeight(c *Conv, dy, x, dw []float32) { C.hv_conv_dw(c.long(), f(dy), f(x), f(dw)) }

// Attention are the sizes of an attention, whether every position sees all or those up
// to itself, and whether products round their operands to bfloat16.
type Attention struct {
	B, T, H, D int
	Full, BF16 bool
}

// AttentionForward writes y [B,T,H*D] and stats [B,H,T,2].
func AttentionForward(s Attention, qkv, y, stats []float32) {
	C.hv_attn_fwd(C.long(s.B), C.long(s.T), C.long(s.H), C.long(s.D), flag(s.Full), flag(s.BF16), f(qkv), f(y), f(stats))
}

// AttentionBackward writes dqkv [B,T,3*H*D].
func AttentionBackward(s Attention, qkv, y, stats, dy, dqkv []float32) {
	C.hv_attn_bwd(C.long(s.B), C.long(s.T), C.long(s.H), C.long(s.D), flag(s.Full), flag(s.BF16), f(qkv), f(y), f(stats), f(dy), f(dqkv))
}

// NormForward writes y, stats [n,2] and, where res is not nil, sum = x + res. Without
// shift it is a root mean square norm.
func NormForward(n, c int, eps float32, x, res, gain, shift, y, sum, stats []float32) {
	C.hv_norm_fwd(C.long(n), C.long(c), C.float(eps), f(x), f(res), f(gain), f(shift), f(y), f(sum), f(stats))
}

// NormBackward writes dx (+ dsum where not nil) and adds to dgain and dshift;
// part holds 2*c floats for every 64 rows. dx may be dsum. dshift is nil of a root
// mean square norm.
func NormBackward(n, c int, sum, stats, gain, dy, dsum, dx, dgain, dshift, part []float32) {
	C.hv_norm_bwd(C.long(n), C.long(c), f(sum), f(stats), f(gain), f(dy), f(dsum), f(dx), f(dgain), f(dshift), f(part))
}

// CrossEntropy returns the sum of the rows' losses, also kept in loss, and writes
// their gradient to dx where it is not nil.
func CrossEntropy(n, v int, x []float32, label []int32, dx []float32, loss []float64) float64 {
	return float64(C.hv_ce(C.long(n), C.long(v), f(x), i32(label), f(dx), f64(loss)))
}

// GeluForward writes y = gelu(x).
func GeluForward(x, y []float32) { C.hv_gelu_fwd(C.long(len(x)), f(x), f(y)) }

// GeluBackward writes dx = dy * gelu'(x); dx may be dy.
func GeluBackward(x, dy, dx []float32) { C.hv_gelu_bwd(C.long(len(x)), f(x), f(dy), f(dx)) }

// SwigluForward writes y [n,c] = silu(a)*b of x = [a, b], rows of 2*c.
func SwigluForward(n, c int, x, y []float32) {
	C.hv_swiglu_fwd(C.long(n), C.long(c), f(x), f(y))
}

// SwigluBackward writes dx, rows of 2*c.
func SwigluBackward(n, c int, x, dy, dx []float32) {
	C.hv_swiglu_bwd(C.long(n), C.long(c), f(x), f(dy), f(dx))
}

// Rope turns the first heads*d of each of n rows by the angles of position r mod t,
// times sign; cos and sin are [t,d/2].
func Rope(n, t, row, heads, d int, x, cos, sin, y []float32, sign float32) {
	C.hv_rope(C.long(n), C.long(t), C.long(row), C.long(heads), C.long(d), f(x), f(cos), f(sin), f(y), C.float(sign))
}

// Add writes z = x + y; z may be either.
func Add(x, y, z []float32) { C.hv_add(C.long(len(x)), f(x), f(y), f(z)) }

// ReluMask writes dx = dy where y > 0, else 0; dx may be dy.
func ReluMask(dy, y, dx []float32) { C.hv_relu_mask(C.long(len(dy)), f(dy), f(y), f(dx)) }

// PoolForward writes 2x2 maxima of x [b,h,w,c], then relu.
func PoolForward(b, h, w, c int, x, y []float32, relu bool) {
	C.hv_pool_fwd(C.long(b), C.long(h), C.long(w), C.long(c), f(x), f(y), flag(relu))
}

// PoolBackward writes dx.
func PoolBackward(b, h, w, c int, x, y, dy, dx []float32, relu bool) {
	C.hv_pool_bwd(C.long(b), C.long(h), C.long(w), C.long(c), f(x), f(y), f(dy), f(dx), flag(relu))
}

// Pool is the geometry of windows: B, H, W, C, OH, OW, K, stride.
type Pool [8]int

// AvgPoolForward writes the means of windows.
func AvgPoolForward(p *Pool, x, y []float32) {
	C.hv_avg_fwd((*C.long)(unsafe.Pointer(p)), f(x), f(y))
}

// AvgPoolBackward writes dx.
func AvgPoolBackward(p *Pool, dy, dx []float32) {
	C.hv_avg_bwd((*C.long)(unsafe.Pointer(p)), f(dy), f(dx))
}

// EmbedForward writes y[r] = table[id[r]] + pos[r mod t].
func EmbedForward(n, t, c int, id []int32, table, pos, y []float32) {
	C.hv_embed_fwd(C.long(n), C.long(t), C.long(c), i32(id), f(table), f(pos), f(y))
}

// EmbedBackward adds to dtable and dpos.
func EmbedBackward(n, t, c int, id []int32, dy, dtable, dpos []float32) {
	C.hv_embed_bwd(C.long(n), C.long(t), C.long(c), i32(id), f(dy), f(dtable), f(dpos))
}

// Groups are the sizes of a group norm: samples, positions, channels, groups.
type Groups struct {
	B, P, C, G int
	Eps        float64
	Relu       bool
}

// GroupNormForward writes y and stats [B,G,2], mean and 1/deviation.
func GroupNormForward(s Groups, x, gain, shift, y, stats []float32) {
	C.hv_gn_fwd(C.long(s.B), C.long(s.P), C.long(s.C), C.long(s.G), C.double(s.Eps), flag(s.Relu), f(x), f(gain), f(shift), f(y), f(stats))
}

// GroupNormBackward writes dx, where it is not nil, and to work [B,2,C] each sample's
// gradients of gain and shift. y is read where Relu is set.
func GroupNormBackward(s Groups, x, y, gain, stats, dy, dx, work []float32) {
	C.hv_gn_bwd(C.long(s.B), C.long(s.P), C.long(s.C), C.long(s.G), flag(s.Relu), f(x), f(y), f(gain), f(stats), f(dy), f(dx), f(work))
}

// BatchNormStats writes the means of x's columns to stats and the sums of squared
// distances from them to m2.
func BatchNormStats(n, c int, x, stats []float32, m2 []float64) {
	C.hv_bn_stats(C.long(n), C.long(c), f(x), f(stats), f64(m2))
}

// BatchNormApply writes y from x, stats (means, then 1/deviations) and, where not
// nil, res.
func BatchNormApply(n, c int, x, res, gain, shift, stats, y []float32, relu bool) {
	C.hv_bn_apply(C.long(n), C.long(c), f(x), f(res), f(gain), f(shift), f(stats), f(y), flag(relu))
}

// BatchNormSums clears dy where y (if not nil) is not above 0 and writes its two
// column sums to work, which holds 2*c floats and 2*c more for every 64 rows.
func BatchNormSums(n, c int, x, y, stats, dy, work []float32) {
	C.hv_bn_sums(C.long(n), C.long(c), f(x), f(y), f(stats), f(dy), f(work))
}

// BatchNormInput writes dx, which may be dy, from the means in work.
func BatchNormInput(n, c int, x, gain, stats, dy, work, dx []float32) {
	C.hv_bn_input(C.long(n), C.long(c), f(x), f(gain), f(stats), f(dy), f(work), f(dx))
}

// Columns adds the column sums of x [n,c] to y.
func Columns(n, c int, x, y []float32) { C.hv_cols(C.long(n), C.long(c), f(x), f(y)) }

// Coef are an optimizer's numbers: gradient scale, learning rate, first and second
// decay (SGD: momentum in the first), epsilon, weight decay, bias corrections.
type Coef [8]float32

// AdamW updates p, m and v from g.
func AdamW(p, m, v, g []float32, c *Coef) {
	C.hv_adamw(C.long(len(p)), f(p), f(m), f(v), f(g), f(c[:]))
}

// SGD updates p and its momentum m from g.
func SGD(p, m, g []float32, c *Coef) { C.hv_sgd(C.long(len(p)), f(p), f(m), f(g), f(c[:])) }

// Peak makes about n rounds of fused multiply-adds in registers on the calling
// thread and returns how many floating-point operations that were.
func Peak(n int) float64 { return float64(C.hv_peak(C.long(n))) }

// Combine writes z = fma(a, x, b*y); z may be either. Where b is 0 y is not read,
// x stands for it.
func Combine(a float32, x []float32, b float32, y, z []float32) {
	if b == 0 {
		y = x
	}
	C.hv_combine(C.long(len(z)), C.float(a), f(x), C.float(b), f(y), f(z))
}

// SumSquares is num.SumSquares; part holds one float64 for every 4,096 elements.
func SumSquares(x []float32, part []float64) float64 {
	return float64(C.hv_sumsq(C.long(len(x)), f(x), f64(part)))
}
