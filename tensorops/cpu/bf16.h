// Products of bfloat16 with float32 accumulators. Operands are rounded to nearest
// even while they are packed: a step is 32 of depth, a block 16 lanes by 16 pairs
// of neighbours in depth. A's blocks are [lane][pair], B's [pair][lane]; a panel
// is two blocks wide. hv_bf16_unit multiplies panels by AMX tiles or by dot
// products where the processor has them, else bf16_block does. The sums' order
// differs between these, so results agree to rounding only.

#include "bf16_pack.h"

// bf16_block computes 32 x 32 of C, or adds to it, by plain vectors.
static void bf16_block(L steps, const float *a, const float *b, float *c, L ldc, int add) {
  for (L i = 0; i < 32; i++)
    for (L h = 0; h < 2; h++) {
      vf r[16 / (VB / 4)];
      for (L v = 0; v < 16 / VL; v++) r[v] = add ? ld(c + i * ldc + h * 16 + v * VL) : (vf){0};
      for (L s = 0; s < steps; s++) {
        const float *x = a + s * 512 + i / 16 * 256 + i % 16 * 16, *y = b + s * 512 + h * 256;
        for (L p = 0; p < 16; p++) {
          vw u = (vw)splat(0);
          uint32_t w;
          memcpy(&w, x + p, 4);
          u = u + w;
          for (L v = 0; v < 16 / VL; v++) {
            vw z = (vw)ld(y + p * 16 + v * VL);
            r[v] = vfma((vf)(u << 16), (vf)(z << 16), r[v]);
            r[v] = vfma((vf)(u & 0xffff0000u), (vf)(z & 0xffff0000u), r[v]);
          }
        }
      }
      for (L v = 0; v < 16 / VL; v++) st(c + i * ldc + h * 16 + v * VL, r[v]);
    }
}
static void bf16_nothing(void) {}
static const hv_bf16 bf16_plain = {bf16_nothing, bf16_pack, bf16_block, bf16_nothing};

FI const hv_bf16 *bf16_unit(const hv_bf16 *u) { return u ? u : &bf16_plain; }

static void k_gemm_bf16_pack(const void *v, L t) {
  const hv_gemm_args *g = v;
  enum { GROUP = 128 };
  L j = t * GROUP;
  bf16_unit(g->unit)->pack(0, &g->b, g->j0 + j, HV_MIN(GROUP, g->nn - j), g->p0, g->kk, g->pb + j * ((g->kk + 31) / 32) * 16);
}

static void k_gemm_bf16(const void *v, L t) {
  const hv_gemm_args *g = v;
  const hv_bf16 *unit = bf16_unit(g->unit);
  L i0 = t % g->nm * g->tm, j0 = t / g->nm * g->tn, m = HV_MIN(g->tm, g->m - i0), n = HV_MIN(g->tn, g->nn - j0), steps = (g->kk + 31) / 32;
  float *pa = hv_scratch(0, (m + 32) * steps * 16), *top = g->c + i0 * g->ldc + g->j0 + j0, tmp[32 * 32] __attribute__((aligned(64)));
  int add = g->add || g->p0;
  L from = 0;   // columns that are not finished yet
  unit->pack(1, &g->a, i0, m, g->p0, g->kk, pa);
  unit->begin();
  for (L j = 0; j < n; j += 32) {
    for (L i = 0; i < m; i += 32) {
      float *c = top + i * g->ldc + j;
      const float *a = pa + i * steps * 16, *b = g->pb + (j0 + j) * steps * 16;
      L rows = HV_MIN(32, m - i), cols = HV_MIN(32, n - j);
      if (rows == 32 && cols == 32) { unit->block(steps, a, b, c, g->ldc, add); continue; }
      unit->block(steps, a, b, tmp, 32, 0);
      for (L r = 0; r < rows; r++)
        for (L e = 0; e < cols; e++) c[r * g->ldc + e] = add ? c[r * g->ldc + e] + tmp[r * 32 + e] : tmp[r * 32 + e];
    }
    L w = HV_MIN(j + 32, n) - from;
    if (g->p0 + g->kk >= g->k && (w >= 512 || j + 32 >= n)) { finish(g, i0, g->j0 + j0 + from, m, w); from = j + 32; }
  }
  unit->end();
}

static const hv_gemm_kind gemm_bf16_kind = {k_gemm_bf16_pack, k_gemm_bf16, NULL, 32, 32, 256, 2048, 128, 768};
