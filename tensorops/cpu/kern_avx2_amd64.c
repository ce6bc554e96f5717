// AVX2 and FMA: vectors of 8 lanes, GEMM blocks of 6x16.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC optimize("fp-contract=off")
#pragma GCC target("avx2,fma")
#endif
#include <immintrin.h>
#include "hived.h"
#define VB 32
#define MR 6
#define NV 2
#define R1 12
#define R2 6
#define TABLE hv_avx2
#define HAVE_TR
typedef float vf __attribute__((vector_size(VB), may_alias));
typedef float vu __attribute__((vector_size(VB), aligned(4), may_alias));
typedef int vi __attribute__((vector_size(VB)));
static inline __attribute__((always_inline)) vf vfma(vf a, vf b, vf c) { return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
static inline __attribute__((always_inline)) vf vsqrt(vf a) { return (vf)_mm256_sqrt_ps((__m256)a); }
#include "vec.h"
FI void tr(const float *const *q, float *d, L ldd) {
  __m256 r[8], t[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps(q[i]);
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) { t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]); t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]); }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44); r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xEE);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44); r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) _mm256_storeu_ps(d + i * ldd, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) _mm256_storeu_ps(d + (i + 4) * ldd, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
}
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
