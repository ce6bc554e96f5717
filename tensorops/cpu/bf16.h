// Products of bfloat16 with float32 accumulators. Operands are rounded to nearest
// even while they are packed: a step is 32 of depth, a block 16 lanes by 16 pairs
// of neighbours in depth. A's blocks are [lane][pair], B's [pair][lane]; a panel
// is two blocks wide. hv_bf16_unit multiplies panels by AMX tiles or by dot
// products where the processor has them, else bf16_block does. The sums' order
// differs between these, so results agree to rounding only.

typedef unsigned vw __attribute__((vector_size(VB)));
FI vw rne(vf x) { vw u = (vw)x; return u + 0x7fff + ((u >> 16) & 1); }
FI vf pair(vf low, vf high) { return (vf)((rne(low) >> 16) | (rne(high) & 0xffff0000u)); }
#if VB == 64
#define EVEN(a, b) SHUF(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD(a, b) SHUF(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#elif VB == 32
#define EVEN(a, b) SHUF(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD(a, b) SHUF(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#else
#define EVEN(a, b) SHUF(a, b, 0, 2, 4, 6)
#define ODD(a, b) SHUF(a, b, 1, 3, 5, 7)
#endif

// flip transposes a block.
FI void flip(const float *s, float *d) {
  for (L i = 0; i < 16; i += VL)
    for (L j = 0; j < 16; j += VL) {
      const float *q[VB / 4];
      for (L e = 0; e < VL; e++) q[e] = s + (i + e) * 16 + j;
      tr(q, d + j * 16 + i, 16);
    }
}

// bf16_pack writes the blocks of lanes [l0, l0+lanes) and depth [p0, p0+len), filled
// up with zeros; byLane chooses the layout.
static void bf16_pack(int byLane, const hv_src *s, L l0, L lanes, L p0, L len, float *d) {
  float t[256] __attribute__((aligned(64))), f[16 * 32] __attribute__((aligned(64)));
  for (L l = 0; l < lanes; l += 32)
    for (L p = 0; p < len; p += 32)
      for (L h = 0; h < 32; h += 16, d += 256) {
        const float *q = s->p + (l0 + l + h) * s->ls + (p0 + p) * s->ds;
        L w = lanes - l - h, n = len - p, ls = s->ls, ds = s->ds;
        if (w <= 0) { memset(d, 0, 256 * 4); continue; }
        if (w < 16 || n < 32 || (ls != 1 && ds != 1)) {
          for (L i = 0; i < 16; i++) for (L e = 0; e < 32; e++) f[i * 32 + e] = i < w && e < n ? q[i * ls + e * ds] : 0;
          q = f; ls = 32; ds = 1;
        }
        float *o = (ds == 1) == !!byLane ? d : t;
        if (ds == 1)
          for (L i = 0; i < 16; i++)
            for (L e = 0; e < 16; e += VL) {
              vf a = ld(q + i * ls + 2 * e), b = ld(q + i * ls + 2 * e + VL);
              st(o + i * 16 + e, pair(EVEN(a, b), ODD(a, b)));
            }
        else
          for (L e = 0; e < 16; e++)
            for (L i = 0; i < 16; i += VL) st(o + e * 16 + i, pair(ld(q + 2 * e * ds + i), ld(q + (2 * e + 1) * ds + i)));
        if (o == t) flip(t, d);
      }
}

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
static const hv_bf16 bf16_plain = {bf16_nothing, bf16_block, bf16_nothing};

static void k_gemm_bf16(const void *v, L t) {
  const hv_gemm_args *g = v;
  const hv_bf16 *unit = g->unit ? g->unit : &bf16_plain;
  L i1 = t % g->nm * g->tm, j1 = t / g->nm * g->tn, m = HV_MIN(g->tm, g->m - i1), n = HV_MIN(g->tn, g->n - j1);
  enum { KC = 512, MC = 256, NC = 512 };
  float *pa = hv_scratch(0, MC * KC / 2), *pb = hv_scratch(1, NC * KC / 2), tmp[32 * 32] __attribute__((aligned(64)));
  unit->begin();
  for (L j0 = 0; j0 < n; j0 += NC)
    for (L p0 = 0; p0 < g->k; p0 += KC) {
      L nn = HV_MIN(NC, n - j0), kk = HV_MIN(KC, g->k - p0), steps = (kk + 31) / 32;
      int add = g->add || p0 > 0;
      bf16_pack(0, &g->b, j1 + j0, nn, p0, kk, pb);
      for (L i0 = 0; i0 < m; i0 += MC) {
        L mm = HV_MIN(MC, m - i0);
        bf16_pack(1, &g->a, i1 + i0, mm, p0, kk, pa);
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
