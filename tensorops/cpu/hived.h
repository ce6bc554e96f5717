// Shared declarations of the kernels. A kernel is a serial function over one
// tile of an argument block; api.c runs its tiles over the pool.
#ifndef HIVED_CPU_H
#define HIVED_CPU_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HV_KC 384      // longest chain of a GEMM block; the blocks depend on K only
#define HV_ROWS 64     // rows of a chunk of a column reduction
#define HV_TILE 64     // rows and keys of an attention tile
#define HV_SPAN 8192   // elements of a tile of an elementwise kernel
#define HV_MIN(a, b) ((a) < (b) ? (a) : (b))
typedef long L;

// Geometry of a convolution. Images are [B, H, W, C], weights [O, KH, KW, C/groups].
typedef struct { L b, h, w, c, oh, ow, o, kh, kw, stride, pad, groups; } hv_conv;

// One operand of a GEMM: element (lane, depth) at p[lane*ls + depth*ds].
typedef struct { const float *p; L ls, ds; } hv_src;

// A product without packing: A's row i starts at a + i*als, its element (i, p) of a
// segment lies at s->a + i*als + p*ads, row p of B at s->b*bseg + p*bds.
typedef struct { L a, b, n; } hv_seg;
typedef struct { const hv_seg *seg; L segs, als, ads, bds, bseg; } hv_direct;

// A way to multiply panels of bfloat16 (bf16.h); begin and end surround blocks.
typedef struct { void (*begin)(void); void (*pack)(int byLane, const hv_src *s, L l0, L lanes, L p0, L len, float *d); void (*block)(L steps, const float *a, const float *b, float *c, L ldc, int add); void (*end)(void); } hv_bf16;
const hv_bf16 *hv_bf16_unit(int no_tiles);          // kern_bf16_amd64.c

typedef struct {
  L m, n, k; hv_src a, b; float *c; L ldc; int add, relu; const float *bias;
  float *gelu; const float *slope; // laid out as c: receives gelu(c); c becomes c * gelu'(slope)
  L j0, nn, p0, kk; float *pb;   // the block of B in pb: columns [j0, j0+nn), depth [p0, p0+kk)
  L tm, tn, nm;                  // rows and columns of a tile, tiles along m
  const hv_bf16 *unit;           // NULL: plain vectors
} hv_gemm_args;
typedef struct {
  hv_conv g; const float *x, *w, *bias, *dy; float *y, *part;
  L rows, parts, first; int relu;  // rows of a tile, tiles of an image, block of tile 0
} hv_conv_args;
typedef struct { L b, t, h, d; int full; const hv_bf16 *unit; const float *qkv, *out, *dout; float *y, *stats, *dqkv; float scale; } hv_attn_args;
typedef struct { L n, c; float eps; const float *x, *res, *g, *b, *sum, *dy, *dsum; float *y, *osum, *stats, *dx, *part; int rms; } hv_norm_args;
typedef struct { L n, c; const float *x, *res, *gain, *shift, *stats, *work; float *y, *dy, *dx, *part; int relu; } hv_bn_args;
typedef struct { L p, c, g; double eps; int relu; const float *x, *gain, *shift, *dy; float *y, *stats, *dx, *work; } hv_gn_args;
typedef struct { L n, c; const float *x, *dy; float *y; } hv_rows_args;
typedef struct { L n, t, row, heads, d; const float *x, *cos, *sin; float *y; float sign; } hv_rope_args;
typedef struct { L n, v; const float *x; const int32_t *label; float *dx; double *loss; } hv_ce_args;
typedef struct { L n; const float *x, *y; float *z; float a, b; } hv_ew_args;
typedef struct { L b, h, w, c; const float *x, *y, *dy; float *z; int relu; } hv_pool_args;
typedef struct { L b, h, w, c, oh, ow, k, s; const float *x; float *y; } hv_avg_args;
typedef struct { L n, t, c, v; const int32_t *id; const float *table, *pos, *dy; float *y, *dtable, *dpos; L tc; } hv_embed_args;
typedef struct { L n, c; const float *x; float *y; } hv_cols_args;
typedef struct { L n; float *p, *m, *v; const float *g; float gs, lr, b1, b2, eps, wd, c1, c2; } hv_opt_args;
typedef struct { L n; const float *x; double *part; } hv_sq_args;
typedef struct { L n; float *out; } hv_peak_args;

typedef void (*hv_fn)(const void *args, L tile);
// A packed product: register blocks of mr x nr, a tile's most rows, columns of a
// block and of a pack's tile, and the longest block of depth.
// small, where it is not NULL, takes a whole product of up to 128x128x128 whose B is
// contiguous in depth, or in lanes that are a multiple of 16: from 64x64x64 to
// 256x256x256 it was 4 to 17 % faster than packing (AVX-512), at strides of 2 KiB slower.
typedef struct { hv_fn pack, mul, small; L mr, nr, rows, cols, group, kc; } hv_gemm_kind;
typedef struct {
  L mr, lanes;
  const hv_gemm_kind *gemm, *gemm_bf16;
  hv_fn conv_pack, conv_pack_back, conv_fwd, conv_dx, conv_dw, attn_fwd, attn_bwd, attn_fwd_bf16, attn_bwd_bf16, norm_fwd, norm_bwd, ce, gelu_fwd, gelu_bwd, swiglu_fwd, swiglu_bwd, rope, add, relu_mask, combine,
      pool_fwd, pool_bwd, avg_fwd, avg_bwd, embed_fwd, embed_bwd, cols, gn_fwd, gn_bwd, bn_stats, bn_apply, bn_sums, bn_input, peak, adamw, sgd, sumsq;
} hv_table;
extern const hv_table hv_avx512, hv_avx2, hv_scalar, hv_neon, hv_wide;

// hv_kc_of returns the length of k's blocks, most at the longest.
static inline L hv_kc_of(L k, L most) { L nb = (k + most - 1) / most; return nb ? ((k + nb - 1) / nb + 31) / 32 * 32 : 32; }
static inline L hv_kc(L k) { return hv_kc_of(k, HV_KC); }
typedef void (*hv_runner)(hv_fn f, const void *args, L tiles);
void hv_gemm_blocks(const hv_gemm_kind *how, hv_gemm_args *g, hv_runner run, int threads); // api.c
const hv_table *hv_active(void);                    // api.c: of the chosen instruction set
static inline L hv_floor(L a, L b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }
int hv_threads(void);                               // pool.c
void hv_run(hv_fn f, const void *args, L tiles);   // pool.c
float *hv_scratch(int slot, size_t floats);        // 64-byte aligned, this thread's until the outermost hv_end
void hv_begin(void);                               // around calls that use scratch beyond one hv_run
void hv_end(void);
const float *hv_zeros(void);                       // at least 4096 zeros

#if defined(__clang__)
#pragma clang fp contract(off)
#endif
#endif
