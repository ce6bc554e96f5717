//go:build cgo

package tensorops

import (
	"time"

	"github.com/apiary-net/hived/tensorops/cpu"
)

type cpuDevice struct{}

// CPU returns the device of this machine's processor: C kernels where the program
// was built with cgo, else the reference. cpu.SetThreads and cpu.SetISA apply.
func CPU() Device { return cpuDevice{} }

func (cpuDevice) Open(p *Plan) (Session, error) { return openHost(p, native{}), nil }
func (cpuDevice) Info() DeviceInfo {
	return DeviceInfo{Name: "cpu", ISA: cpu.ISA(), Exact: true}
}

// SetThreads sets how many threads the CPU device uses, in [1, 256], and returns
// the number reached. It holds for the whole process; results do not depend on it.
func SetThreads(n int) int { return cpu.SetThreads(n) }

// HasBF16 reports whether the CPU device multiplies bfloat16 by own instructions;
// without, BF16 plans are slower than F32 ones.
func HasBF16() bool { return cpu.HasBF16() }

// WorkerTime returns the processor time that the CPU device's threads, callers
// not included, have used so far.
func WorkerTime() time.Duration { return cpu.WorkerTime() }

// native calls the C kernels, once an op.
type native struct{}

func (native) gemm(m, n, k int, a, b mat, c []float32, ldc int, add bool, e finish) {
	cpu.Gemm(m, n, k, cpu.Mat{P: a.p, Lane: a.ls, Depth: a.ds}, cpu.Mat{P: b.p, Lane: b.ls, Depth: b.ds}, c, ldc, add, e.native())
}
func (native) gemmBF16(m, n, k int, a, b mat, c []float32, ldc int, add bool, e finish) {
	cpu.GemmBF16(m, n, k, cpu.Mat{P: a.p, Lane: a.ls, Depth: a.ds}, cpu.Mat{P: b.p, Lane: b.ls, Depth: b.ds}, c, ldc, add, e.native())
}
func (e finish) native() cpu.Finish {
	return cpu.Finish{Bias: e.bias, Relu: e.relu, Gelu: e.gelu, Slope: e.slope}
}
func (native) columns(n, c int, x, y []float32) { cpu.Columns(n, c, x, y) }
func (native) reluMask(dy, y, dx []float32)     { cpu.ReluMask(dy, y, dx) }
func (native) add(x, y, z []float32)            { cpu.Add(x, y, z) }
func (native) convForward(g *geometry, x, w, bias, y []float32, relu bool) {
	cpu.ConvForward((*cpu.Conv)(g), x, w, bias, y, relu)
}
func (native) convInput(g *geometry, dy, w, dx []float32) { cpu.ConvInput((*cpu.Conv)(g), dy, w, dx) }
func (native) convWeight(g *geometry, dy, x, dw []float32) {
	cpu.ConvWeight((*cpu.Conv)(g), dy, x, dw)
}
func (native) poolForward(s Shape, x, y []float32, relu bool) {
	cpu.PoolForward(s[0], s[1], s[2], s[3], x, y, relu)
}
func (native) poolBackward(s Shape, x, y, dy, dx []float32, relu bool) {
	cpu.PoolBackward(s[0], s[1], s[2], s[3], x, y, dy, dx, relu)
}
func (native) avgPoolForward(p *poolShape, x, y []float32) { cpu.AvgPoolForward((*cpu.Pool)(p), x, y) }
func (native) avgPoolBackward(p *poolShape, dy, dx []float32) {
	cpu.AvgPoolBackward((*cpu.Pool)(p), dy, dx)
}
func (native) embedForward(n, t, c int, id []int32, table, pos, y []float32) {
	cpu.EmbedForward(n, t, c, id, table, pos, y)
}
func (native) embedBackward(n, t, c int, id []int32, dy, dtable, dpos []float32) {
	cpu.EmbedBackward(n, t, c, id, dy, dtable, dpos)
}
func (native) normForward(n, c int, eps float32, x, res, gain, shift, y, sum, stats []float32) {
	cpu.NormForward(n, c, eps, x, res, gain, shift, y, sum, stats)
}
func (native) normBackward(n, c int, sum, stats, gain, dy, dsum, dx, dgain, dshift, part []float32) {
	cpu.NormBackward(n, c, sum, stats, gain, dy, dsum, dx, dgain, dshift, part)
}
func (native) attentionForward(s attnShape, qkv, y, stats []float32) {
	cpu.AttentionForward(cpu.Attention{B: s.b, T: s.t, H: s.h, D: s.d, Full: s.full, BF16: s.bf16}, qkv, y, stats)
}
func (native) attentionBackward(s attnShape, qkv, y, stats, dy, dqkv []float32) {
	cpu.AttentionBackward(cpu.Attention{B: s.b, T: s.t, H: s.h, D: s.d, Full: s.full, BF16: s.bf16}, qkv, y, stats, dy, dqkv)
}
func (native) geluForward(x, y []float32)                   { cpu.GeluForward(x, y) }
func (native) geluBackward(x, dy, dx []float32)             { cpu.GeluBackward(x, dy, dx) }
func (native) swigluForward(n, c int, x, y []float32)       { cpu.SwigluForward(n, c, x, y) }
func (native) swigluBackward(n, c int, x, dy, dx []float32) { cpu.SwigluBackward(n, c, x, dy, dx) }
func (native) rope(o *rope, x, y []float32, sign float32) {
	cpu.Rope(o.n, o.t, o.row, o.heads, o.d, x, o.cos, o.sin, y, sign)
}
func (native) crossEntropy(n, v int, x []float32, label []int32, dx []float32, loss []float64) float64 {
	return cpu.CrossEntropy(n, v, x, label, dx, loss)
}
func (s gnShape) native() cpu.Groups {
	return cpu.Groups{B: s.b, P: s.p, C: s.c, G: s.g, Eps: s.eps, Relu: s.relu}
}
func (native) gnForward(s gnShape, x, gain, shift, y, stats []float32) {
	cpu.GroupNormForward(s.native(), x, gain, shift, y, stats)
}
func (native) gnBackward(s gnShape, x, y, gain, stats, dy, dx, work []float32) {
	cpu.GroupNormBackward(s.native(), x, y, gain, stats, dy, dx, work)
}
func (native) bnStats(a *bnArgs) []float64 {
	m2 := make([]float64, a.c)
	cpu.BatchNormStats(a.n, a.c, a.x, a.stats, m2)
	return m2
}
func (native) bnApply(a *bnArgs) {
	cpu.BatchNormApply(a.n, a.c, a.x, a.res, a.gain, a.shift, a.stats, a.y, a.relu)
}
func (native) bnSums(a *bnArgs) { cpu.BatchNormSums(a.n, a.c, a.x, a.y, a.stats, a.dy, a.work) }
func (native) bnInput(a *bnArgs) {
	cpu.BatchNormInput(a.n, a.c, a.x, a.gain, a.stats, a.dy, a.work, a.dx)
}
func (native) adamw(p, m, v, g []float32, c *coef)                       { cpu.AdamW(p, m, v, g, (*cpu.Coef)(c)) }
func (native) sgd(p, m, g []float32, c *coef)                            { cpu.SGD(p, m, g, (*cpu.Coef)(c)) }
func (native) combine(a float32, x []float32, b float32, y, z []float32) { cpu.Combine(a, x, b, y, z) }
func (native) sumSquares(x []float32, part []float64) float64 {
	return cpu.SumSquares(x, part)
}
