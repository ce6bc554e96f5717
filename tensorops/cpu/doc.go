// Package cpu holds the C kernels of tensorops over raw float32 slices: packed
// matrix products, convolution straight from images, attention, row reductions
// and optimizers for AVX-512, AVX2, NEON and a scalar fallback. One source
// serves all vector widths (vec.h, gemm.h, finish.h, direct.h, conv.h, bf16.h, attention.h,
// batchnorm.h, rows.h).
//
// Every function returns the same bits on every instruction set, for any number
// of threads, as the plain Go loop in the file of its op in package tensorops:
// matrix products are fused chains over blocks that depend on K only, row sums
// use 32 fixed lanes, column sums 64-row chunks, and exponentials one sequence
// of operations. Only GemmBF16 is exempt: its sums' order is the processor's.
// Contraction is off in every file, denormals are kept.
//
// Slices must have the length the shapes say (package tensorops checks) and are
// used during the call only. All functions may be called concurrently; the pool
// serves one caller at a time and the others run on their own thread. Without
// cgo the package is empty and ISAs returns nothing.
package cpu
