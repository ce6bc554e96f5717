// The source of the AVX-512 kernels compiled for AVX2, two registers a vector:
// slow, never chosen by itself, it lets every machine with AVX2 test the 16-lane
// code paths.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC optimize("fp-contract=off")
#pragma GCC target("avx2,fma")
#endif
#pragma GCC diagnostic ignored "-Wpsabi"
#include <immintrin.h>
#include "hived.h"
#define VB 64
#define MR 14
#define NV 2
#define R1 28
#define R2 14
#define R4 7
#define TABLE hv_wide
#define HAVE_TR
typedef float vf __attribute__((vector_size(VB), may_alias));
typedef float vu __attribute__((vector_size(VB), aligned(4), may_alias));
typedef int vi __attribute__((vector_size(VB)));
typedef union { vf v; __m256 h[2]; } halves;
static inline __attribute__((always_inline)) vf vfma(vf a, vf b, vf c) {
  halves x = {a}, y = {b}, z = {c};
  for (int i = 0; i < 2; i++) z.h[i] = _mm256_fmadd_ps(x.h[i], y.h[i], z.h[i]);
  return z.v;
}
static inline __attribute__((always_inline)) vf vsqrt(vf a) {
  halves x = {a};
  for (int i = 0; i < 2; i++) x.h[i] = _mm256_sqrt_ps(x.h[i]);
  return x.v;
}
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
