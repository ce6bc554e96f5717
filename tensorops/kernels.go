package tensorops

// mat is a strided operand: element (lane, depth) at p[lane*ls+depth*ds].
type mat struct {
	p      []float32
	ls, ds int
}

// finish is what a product does to its result c once that is complete, in this
// order. Its slices are laid out as c; nil leaves a step out.
type finish struct {
	bias  []float32 // [n], added to each row
	relu  bool      // after the bias, which must be there
	gelu  []float32 // receives gelu(c)
	slope []float32 // c becomes c * gelu'(slope)
}

// kernels are the computations of all ops over raw slices. The reference's are in
// the files of the ops; those of the cpu device call package cpu.
type kernels interface {
	gemm(m, n, k int, a, b mat, c []float32, ldc int, add bool, e finish)
	gemmBF16(m, n, k int, a, b mat, c []float32, ldc int, add bool, e finish)
	columns(n, c int, x, y []float32)
	reluMask(dy, y, dx []float32)
	add(x, y, z []float32)
	convForward(g *geometry, x, w, bias, y []float32, relu bool)
	convInput(g *geometry, dy, w, dx []float32)
	convWeight(g *geometry, dy, x, dw []float32)
	poolForward(s Shape, x, y []float32, relu bool)
	poolBackward(s Shape, x, y, dy, dx []float32, relu bool)
	avgPoolForward(p *poolShape, x, y []float32)
	avgPoolBackward(p *poolShape, dy, dx []float32)
	embedForward(n, t, c int, id []int32, table, pos, y []float32)
	embedBackward(n, t, c int, id []int32, dy, dtable, dpos []float32)
	normForward(n, c int, eps float32, x, res, gain, shift, y, sum, stats []float32)
	normBackward(n, c int, sum, stats, gain, dy, dsum, dx, dgain, dshift, part []float32)
	attentionForward(s attnShape, qkv, y, stats []float32)
	attentionBackward(s attnShape, qkv, y, stats, dy, dqkv []float32)
	geluForward(x, y []float32)
	geluBackward(x, dy, dx []float32)
	swigluForward(n, c int, x, y []float32)
	swigluBackward(n, c int, x, dy, dx []float32)
	rope(o *rope, x, y []float32, sign float32)
	crossEntropy(n, v int, x []float32, label []int32, dx []float32, loss []float64) float64
	gnForward(s gnShape, x, gain, shift, y, stats []float32)
	gnBackward(s gnShape, x, y, gain, stats, dy, dx, work []float32)
	bnStats(a *bnArgs) []float64
	bnApply(a *bnArgs)
	bnSums(a *bnArgs)
	bnInput(a *bnArgs)
	adamw(p, m, v, g []float32, c *coef)
	sgd(p, m, g []float32, c *coef)
	combine(a float32, x []float32, b float32, y, z []float32)
	sumSquares(x []float32, part []float64) float64
}

// call binds the operands of one step to memory. Slices of what a step does not
// have or need are nil.
type call struct {
	in, out, din, dout [][]float32
	ints               [][]int32 // integer inputs, by operand
	keep, work         []float32
	next               *call     // of a step that this one computes too, or nil
	fresh              uint      // operands, by bits, whose gradient is to be written, not added to
	rows               []float64 // losses of rows
	loss               *float64
	samples            *int // of the batch that are real, the first ones; may exceed the batch
	train              bool // a backward step follows
	again              bool // forward runs a second time: side effects are done
	bf16               bool // products round their operands
}
