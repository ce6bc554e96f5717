// The fallback for every processor: no fused multiply-add in hardware is assumed;
// each is computed in double with rounding to odd (see num.Fma32).
#if !defined(__clang__)
#pragma GCC optimize("fp-contract=off")
#endif
#include <math.h>
#include "hived.h"
#define VB 16
#define MR 4
#define NV 2
#define R1 8
#define R2 4
#define TABLE hv_scalar
#define HAVE_TR
typedef float vf __attribute__((vector_size(VB), may_alias));
typedef float vu __attribute__((vector_size(VB), aligned(4), may_alias));
typedef int vi __attribute__((vector_size(VB)));
static inline __attribute__((always_inline)) float fma_odd(float a, float b, float c) {
  double p = (double)a * b, z = c, s = p + z, t = s - p, e = (p - (s - t)) + (z - t);
  uint64_t u;
  memcpy(&u, &s, 8);
  if (!(u & 1) && (e > 0 || e < 0)) {
    u += (e > 0) == (s > 0) ? 1 : (uint64_t)-1;
    memcpy(&s, &u, 8);
  }
  return (float)s;
}
static inline __attribute__((always_inline)) vf vfma(vf a, vf b, vf c) {
  for (int i = 0; i < 4; i++) c[i] = fma_odd(a[i], b[i], c[i]);
  return c;
}
static inline __attribute__((always_inline)) vf vsqrt(vf a) {
  for (int i = 0; i < 4; i++) a[i] = sqrtf(a[i]);
  return a;
}
#include "vec.h"
#include "finish.h"
#include "direct.h"
#include "gemm.h"
#include "conv.h"
#include "bf16.h"
#include "attention.h"
#include "rows.h"
