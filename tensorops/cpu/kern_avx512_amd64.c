// AVX-512: vectors of 16 lanes, GEMM blocks of 14x32.
#define HV_TARGET "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma"
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target(HV_TARGET))), apply_to = function)
#else
#pragma GCC optimize("fp-contract=off")
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,prefer-vector-width=512")
#endif
#include <immintrin.h>
#include "hived.h"
#define VB 64
#define MR 14
#define NV 2
#define R1 28
#define R2 14
#define R4 7
#define TABLE hv_avx512
#define HAVE_TR
typedef float vf __attribute__((vector_size(VB), may_alias));
typedef float vu __attribute__((vector_size(VB), aligned(4), may_alias));
typedef int vi __attribute__((vector_size(VB)));
static inline __attribute__((always_inline)) vf vfma(vf a, vf b, vf c) { return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
static inline __attribute__((always_inline)) vf vsqrt(vf a) { return (vf)_mm512_sqrt_ps((__m512)a); }
#include "vec.h"
#include "finish.h"
#include "direct.h"
#include "gemm.h"
#include "conv.h"
#include "bf16.h"
#include "attention.h"
#include "rows.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
