// NEON: vectors of 4 lanes, GEMM blocks of 8x12.
#if !defined(__clang__)
#pragma GCC optimize("fp-contract=off")
#endif
#include <arm_neon.h>
#include "hived.h"
#define VB 16
#define MR 8
#define NV 3
#define R1 24
#define R2 12
#define R4 6
#define TABLE hv_neon
#define HAVE_TR
typedef float vf __attribute__((vector_size(VB), may_alias));
typedef float vu __attribute__((vector_size(VB), aligned(4), may_alias));
typedef int vi __attribute__((vector_size(VB)));
static inline __attribute__((always_inline)) vf vfma(vf a, vf b, vf c) { return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b); }
static inline __attribute__((always_inline)) vf vsqrt(vf a) { return (vf)vsqrtq_f32((float32x4_t)a); }
#include "vec.h"
#include "finish.h"
#include "direct.h"
#include "gemm.h"
#include "conv.h"
#include "bf16.h"
#include "attention.h"
#include "rows.h"
