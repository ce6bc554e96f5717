// Blocks of bfloat16 products by AMX tiles (16 rows by 64 bytes; four tiles of C,
// two of A, two of B) and by AVX-512 dot products.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16,amx-tile,amx-bf16"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512bf16,amx-tile,amx-bf16")
#endif
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "hived.h"
#define VB 64
typedef float vf __attribute__((vector_size(VB), may_alias));
typedef float vu __attribute__((vector_size(VB), aligned(4), may_alias));
typedef int vi __attribute__((vector_size(VB)));
static inline __attribute__((always_inline)) vf vfma(vf a, vf b, vf c) { return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
#include "vec.h"
#define OWN_PAIRS
FI vf depth_pairs(const float *q) { return (vf)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(q + 16), _mm512_loadu_ps(q)); }
FI vf lane_pairs(vf low, vf high) {
  static const uint16_t mix[32] = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return (vf)_mm512_permutexvar_epi16(_mm512_loadu_si512(mix), (__m512i)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low));
}
#include "bf16_pack.h"

static void nothing(void) {}

static void tiles_begin(void) {
  struct { uint8_t palette, row, zero[14]; uint16_t bytes[16]; uint8_t rows[16]; } c __attribute__((aligned(64)));
  memset(&c, 0, sizeof c);
  c.palette = 1;
  for (int i = 0; i < 8; i++) { c.bytes[i] = 64; c.rows[i] = 16; }
  __asm__ volatile("" ::"r"(&c) : "memory");   // GCC 12 believes that only eight bytes are read
  _tile_loadconfig(&c);
}
static void tiles_end(void) { _tile_release(); }

static void tiles_block(L steps, const float *a, const float *b, float *c, L ldc, int add) {
  if (add) {
    _tile_loadd(0, c, ldc * 4);
    _tile_loadd(1, c + 16, ldc * 4);
    _tile_loadd(2, c + 16 * ldc, ldc * 4);
    _tile_loadd(3, c + 16 * ldc + 16, ldc * 4);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (L s = 0; s < steps; s++, a += 512, b += 512) {
    _tile_loadd(4, a, 64);
    _tile_loadd(6, b, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + 256, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a + 256, 64);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, ldc * 4);
  _tile_stored(1, c + 16, ldc * 4);
  _tile_stored(2, c + 16 * ldc, ldc * 4);
  _tile_stored(3, c + 16 * ldc + 16, ldc * 4);
}

static void dots_block(L steps, const float *a, const float *b, float *c, L ldc, int add) {
  for (L i = 0; i < 32; i += 8) {
    __m512 r[8][2];
#pragma GCC unroll 8
    for (int e = 0; e < 8; e++)
#pragma GCC unroll 2
      for (int h = 0; h < 2; h++) r[e][h] = add ? _mm512_loadu_ps(c + (i + e) * ldc + h * 16) : _mm512_setzero_ps();
    const float *x = a + i / 16 * 256 + i % 16 * 16, *y = b;
    for (L s = 0; s < steps; s++, x += 512, y += 512)
      for (L p = 0; p < 16; p++) {
        __m512bh u = (__m512bh)_mm512_load_ps(y + p * 16), v = (__m512bh)_mm512_load_ps(y + 256 + p * 16);
#pragma GCC unroll 8
        for (int e = 0; e < 8; e++) {
          __m512bh z = (__m512bh)_mm512_set1_ps(x[e * 16 + p]);
          r[e][0] = _mm512_dpbf16_ps(r[e][0], z, u);
          r[e][1] = _mm512_dpbf16_ps(r[e][1], z, v);
        }
      }
#pragma GCC unroll 8
    for (int e = 0; e < 8; e++) { _mm512_storeu_ps(c + (i + e) * ldc, r[e][0]); _mm512_storeu_ps(c + (i + e) * ldc + 16, r[e][1]); }
  }
}

static const hv_bf16 tiles = {tiles_begin, bf16_pack, tiles_block, tiles_end}, dots = {nothing, bf16_pack, dots_block, nothing};

// hv_bf16_unit asks the kernel for the tiles' state once; NULL where the processor
// has neither.
const hv_bf16 *hv_bf16_unit(int no_tiles) {
  static _Atomic int state;   // 0 unknown, else 1 + bits: 1 dots, 2 tiles
  int s = atomic_load(&state);
  if (!s) {
    unsigned a, b, c, d;
    s = 1;
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d) && a >> 5 & 1) s += 1;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 22 & 1) && (d >> 24 & 1) && !syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* XTILEDATA */)) s += 2;
    atomic_store(&state, s);
  }
  return (s - 1) & 2 && !no_tiles ? &tiles : (s - 1) & 1 ? &dots : NULL;
}
#if defined(__clang__)
#pragma clang attribute pop
#endif
