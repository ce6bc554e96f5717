// Products of bfloat16 with float32 accumulators. Operands are rounded to nearest
// even while they are packed: a step is 32 of depth, a block 16 lanes by 16 pairs
// of neighbours in depth. A's blocks are [lane][pair], B's [pair][lane]; a panel
// is two blocks wide. hv_bf16_unit multiplies panels by AMX tiles or by dot
// products where the processor has them, else bf16_block does. The sums' order
// differs between these, so results agree to rounding only.

#include "bf16_pack.h"

// bf16_block computes 32 x 32 of C by plain vectors.
static void bf16_block(L steps, const float *a, const float *b, float *c, L ldc) {
  for (L i = 0; i < 32; i++)
    for (L h = 0; h < 2; h++) {
      vf r[16 / (VB / 4)];
      for (L v = 0; v < 16 / VL; v++) r[v] = (vf){0};
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

static void k_gemm_bf16(const void *v, L t) {
  const hv_gemm_args *g = v;
  const hv_bf16 *unit = g->unit ? g->unit : &bf16_plain;
  L i1 = t % g->nm * g->tm, j1 = t / g->nm * g->tn, m = HV_MIN(g->tm, g->m - i1), n = HV_MIN(g->tn, g->n - j1);
  enum { KC = 512, MC = 256, NC = 2048 };
  float *pa = hv_scratch(0, MC * KC / 2), *pb = hv_scratch(1, (HV_MIN(NC, n) + 32) * KC / 2), tmp[32 * 32] __attribute__((aligned(64)));
  unit->begin();
  for (L j0 = 0; j0 < n; j0 += NC)
    for (L p0 = 0; p0 < g->k; p0 += KC) {
      L nn = HV_MIN(NC, n - j0), kk = HV_MIN(KC, g->k - p0), steps = (kk + 31) / 32;
      int add = g->add || p0 > 0;
      unit->pack(0, &g->b, j1 + j0, nn, p0, kk, pb);
      for (L i0 = 0; i0 < m; i0 += MC) {
        L mm = HV_MIN(MC, m - i0);
        unit->pack(1, &g->a, i1 + i0, mm, p0, kk, pa);
        for (L j = 0; j < nn; j += 32)
          for (L i = 0; i < mm; i += 32) {
            float *c = g->c + (i1 + i0 + i) * g->ldc + j1 + j0 + j;
            const float *a = pa + i * steps * 16, *b = pb + j * steps * 16;
            if (!add && i + 32 <= mm && j + 32 <= nn) { unit->block(steps, a, b, c, g->ldc); continue; }
            unit->block(steps, a, b, tmp, 32);
            L rows = HV_MIN(32, mm - i), cols = HV_MIN(32, nn - j);
            if (!add) for (L r = 0; r < rows; r++) memcpy(c + r * g->ldc, tmp + r * 32, cols * 4);
            else if (cols == 32) for (L r = 0; r < rows; r++) for (L e = 0; e < 32; e += VL) st(c + r * g->ldc + e, ld(c + r * g->ldc + e) + ld(tmp + r * 32 + e));
            else for (L r = 0; r < rows; r++) for (L e = 0; e < cols; e++) c[r * g->ldc + e] += tmp[r * 32 + e];
          }
        if (p0 + kk >= g->k && g->bias) bias_rows(mm, nn, g->c + (i1 + i0) * g->ldc + j1 + j0, g->ldc, g->bias + j1 + j0, g->relu);
      }
    }
  unit->end();
}
