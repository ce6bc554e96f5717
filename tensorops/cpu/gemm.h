// Packed GEMM: C[m,n] = or += A[m,k] * B[k,n]; see reference.gemm in ../gemm.go for the
// plain loop this equals. Measured on one busy AVX2 core: 512x512x512 NT 71
// GFLOP/s.
#define NR (NV * VL)

// uk computes one MR x NR block: each element is one fma chain from +0 over p,
// stored or added once.
static void uk(L k, const float *restrict a, const float *restrict b, float *restrict c, L ldc, int add) {
  vf r[MR][NV];
#pragma GCC unroll 14
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
    for (int j = 0; j < NV; j++) { __builtin_prefetch(c + i * ldc + j * VL); r[i][j] = (vf){0}; }
  for (L p = 0; p < k; p++) {
    vf y[NV];
#pragma GCC unroll 4
    for (int j = 0; j < NV; j++) { y[j] = *(const vf *)(b + j * VL); __builtin_prefetch(b + 16 * NR + j * VL); }
#pragma GCC unroll 14
    for (int i = 0; i < MR; i++) {
      vf x = splat(a[i]);
#pragma GCC unroll 4
      for (int j = 0; j < NV; j++) r[i][j] = vfma(x, y[j], r[i][j]);
    }
    a += MR; b += NR;
  }
  if (add) {
#pragma GCC unroll 14
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
      for (int j = 0; j < NV; j++) { float *q = c + i * ldc + j * VL; st(q, ld(q) + r[i][j]); }
  } else {
#pragma GCC unroll 14
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
      for (int j = 0; j < NV; j++) st(c + i * ldc + j * VL, r[i][j]);
  }
}

// pack_rows packs W rows that are contiguous in depth: d[p*W + i] = rp[i][p]. It may
// write VL floats past its panel, which the next panel overwrites. Few rows at a time
// and lines asked for ahead: rows may lie pages apart, in the same sets of a cache.
FI void pack_rows(L W, const float *const *rp, L len, float *d) {
  L p = 0;
#ifdef HAVE_TR
  if (W < VL || W % VL == 0)
    for (L g = 0; g < W; g += VL)
      for (p = 0; p + VL <= len; p += VL) {
        const float *q[VB / 4];
        for (L i = 0; i < VL; i++) {
          q[i] = rp[HV_MIN(g + i, W - 1)] + p;
          __builtin_prefetch(q[i] + 8 * VL, 0, 2);
        }
        tr(q, d + p * W + g, W);
      }
#endif
  for (; p < len; p++) for (L i = 0; i < W; i++) d[p * W + i] = rp[i][p];
}

// pack_cols packs lanes that are contiguous in memory, d[l/W*W*len + p*W + l%W] =
// q[p*ds + l], a few rows of all panels at a time, since rows may lie pages apart.
// Of row p, spare floats may be read; a store may run into the row that follows.
FI void pack_cols(L W, const float *q, L ds, L lanes, L len, float *d, L spare) {
  for (L p0 = 0; p0 < len; p0 += 8)
    for (L l = 0; l < lanes; l += W) {
      L w = HV_MIN(W, lanes - l);
      for (L p = p0; p < HV_MIN(len, p0 + 8); p++) {
        const float *x = q + p * ds + l;
        float *y = d + l * len + p * W;
        if (w == W && W % VL == 0)
          for (L i = 0; i < W; i += VL) { *(vf *)(y + i) = ld(x + i); __builtin_prefetch(x + i + 8 * ds, 0, 2); }
        else if (w == W && W < VL && l + VL <= spare && p + 1 < len) st(y, ld(x));
        else for (L i = 0; i < W; i++) y[i] = i < w ? x[i] : 0;
      }
    }
}

FI void pack_strided(L W, const hv_src *s, L l0, L lanes, L p0, L len, float *d, L last) {
  const float *rp[32], *q = s->p + l0 * s->ls + p0 * s->ds;
  if (s->ls == 1) { pack_cols(W, q, s->ds, lanes, len, d, last - l0); return; }
  for (L l = 0; l < lanes; l += W, d += W * len, q += W * s->ls) {
    L w = HV_MIN(W, lanes - l);
    if (s->ds == 1) {
      for (L i = 0; i < W; i++) rp[i] = i < w ? q + i * s->ls : hv_zeros();
      pack_rows(W, rp, len, d);
    } else
      for (L p = 0; p < len; p++) for (L i = 0; i < W; i++) d[p * W + i] = i < w ? q[i * s->ls + p * s->ds] : 0;
  }
}

static __attribute__((noinline)) void pack_a(const hv_src *s, L l0, L lanes, L p0, L len, float *d, L last) { pack_strided(MR, s, l0, lanes, p0, len, d, last); }
static __attribute__((noinline)) void pack_b(const hv_src *s, L l0, L lanes, L p0, L len, float *d, L last) { pack_strided(NR, s, l0, lanes, p0, len, d, last); }

// block_mul multiplies packed panels into C[mm, nn]. What is left of rows and
// columns takes the smaller blocks of direct.h.
static void block_mul(L mm, L nn, L kk, const float *pa, const float *pb, float *C, L ldc, int add) {
  for (L j = 0; j < nn; j += NR)
    for (L i = 0; i < mm; i += MR) {
      float *c = C + i * ldc + j;
      L ii = HV_MIN(MR, mm - i), jj = HV_MIN(NR, nn - j);
      if (ii == MR && jj == NR) uk(kk, pa + i * kk, pb + j * kk, c, ldc, add);
      else by_rows(ii, jj, kk, pa + i * kk, 1, MR, pb + j * kk, NR, c, ldc, add);
    }
}

// k_gemm_pack packs panels of the current block of B.
static void k_gemm_pack(const void *v, L t) {
  const hv_gemm_args *g = v;
  enum { GROUP = 8 * NR };
  L j = t * GROUP;
  pack_b(&g->b, g->j0 + j, HV_MIN(GROUP, g->nn - j), g->p0, g->kk, g->pb + j * g->kk, g->n);
}

// k_gemm multiplies a tile of A's rows with a part of the packed block of B.
static void k_gemm(const void *v, L t) {
  const hv_gemm_args *g = v;
  L i = t % g->nm * g->tm, j = t / g->nm * g->tn, m = HV_MIN(g->tm, g->m - i), n = HV_MIN(g->tn, g->nn - j);
  float *pa = hv_scratch(0, (m + MR) * g->kk + 128), *c = g->c + i * g->ldc + g->j0 + j;
  pack_a(&g->a, i, m, g->p0, g->kk, pa, g->m);
  enum { WIDE = 512 / NR * NR };        // finished while they are near, but rows long enough to stream
  for (L e = 0; e < n; e += WIDE) {
    L w = HV_MIN(WIDE, n - e);
    block_mul(m, w, g->kk, pa, g->pb + (j + e) * g->kk, c + e, g->ldc, g->add || g->p0);
    if (g->p0 + g->kk >= g->k) finish(g, i, g->j0 + j + e, m, w);
  }
}

// k_gemm_small multiplies without packing A, nor B where its rows are contiguous.
static void k_gemm_small(const void *v, L t) {
  const hv_gemm_args *g = v;
  L kc = hv_kc(g->k);
  (void)t;
  for (L p0 = 0; p0 < g->k; p0 += kc) {
    L kk = HV_MIN(kc, g->k - p0);
    const float *a = g->a.p + p0 * g->a.ds, *b = g->b.p + p0 * g->b.ds;
    if (g->b.ls == 1 && g->n % VL == 0) { by_rows(g->m, g->n, kk, a, g->a.ls, g->a.ds, b, g->b.ds, g->c, g->ldc, g->add || p0); continue; }
    float *panels = hv_scratch(1, (g->n + VL) * kk);
    panels_of_rows(g->n, kk, b, g->b.ls, panels);
    by_panels(g->m, g->n, kk, a, g->a.ls, g->a.ds, panels, g->c, g->ldc, g->add || p0);
  }
  finish(g, 0, 0, g->m, g->n);
}

static const hv_gemm_kind gemm_kind = {k_gemm_pack, k_gemm, k_gemm_small, MR, NR, MR * (VB >= 64 ? 16 : 28), NR * (VB >= 64 ? 48 : 96), 8 * NR, HV_KC};

// k_peak makes chains of fused operations in registers, which nothing can beat.
static void k_peak(const void *v, L t) {
  const hv_peak_args *g = v;
  vf a[MR], x = ld(g->out), y = ld(g->out + VL);
#pragma GCC unroll 14
  for (int i = 0; i < MR; i++) a[i] = ld(g->out + i * VL);
  for (L n = g->n + t; n > 0; n--)
#pragma GCC unroll 14
    for (int i = 0; i < MR; i++) a[i] = vfma(a[i], x, y);
#pragma GCC unroll 14
  for (int i = 0; i < MR; i++) st(g->out + i * VL, a[i]);
}

static void here(hv_fn f, const void *args, L tiles) { for (L t = 0; t < tiles; t++) f(args, t); }

// small multiplies strided matrices on this thread.
static void small(L m, L n, L k, const float *a, L als, L ads, const float *b, L bls, L bds, float *c, L ldc, int add) {
  hv_gemm_args g = {.m = m, .n = n, .k = k, .a = {a, als, ads}, .b = {b, bls, bds}, .c = c, .ldc = ldc, .add = add};
  hv_gemm_blocks(&gemm_kind, &g, here, 1);
}
