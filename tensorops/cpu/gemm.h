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

// lanes packs W rows that are contiguous in depth: d[p*W + i] = rp[i][p]. It may
// write VL floats past its panel, which the next panel overwrites.
FI void pack_rows(L W, const float *const *rp, L len, float *d) {
  L p = 0;
#ifdef HAVE_TR
  if (W < VL || W % VL == 0)
    for (; p + VL <= len; p += VL)
      for (L g = 0; g < W; g += VL) {
        const float *q[VB / 4];
        for (L i = 0; i < VL; i++) q[i] = rp[HV_MIN(g + i, W - 1)] + p;
        tr(q, d + p * W + g, W);
      }
#endif
  for (; p < len; p++) for (L i = 0; i < W; i++) d[p * W + i] = rp[i][p];
}

// pack_cols packs lanes that are contiguous in memory: d[p*W + i] = q[p*ds + i].
FI void pack_cols(L W, L w, const float *q, L ds, L len, float *d, int over) {
  if (w == W && W % VL == 0) {
    for (L p = 0; p < len; p++) for (L i = 0; i < W; i += VL) *(vf *)(d + p * W + i) = ld(q + p * ds + i);
  } else if (w == W && W < VL && over) {
    for (L p = 0; p < len; p++) st(d + p * W, ld(q + p * ds));
  } else {
    for (L p = 0; p < len; p++) {
      for (L i = 0; i < w; i++) d[p * W + i] = q[p * ds + i];
      for (L i = w; i < W; i++) d[p * W + i] = 0;
    }
  }
}

FI void pack_strided(L W, const hv_src *s, L l0, L lanes, L p0, L len, float *d, L last) {
  const float *rp[32];
  for (L l = 0; l < lanes; l += W, d += W * len) {
    L w = HV_MIN(W, lanes - l);
    const float *q = s->p + (l0 + l) * s->ls + p0 * s->ds;
    if (s->ls == 1) pack_cols(W, w, q, s->ds, len, d, l0 + l + VL <= last);
    else if (s->ds == 1) {
      for (L i = 0; i < W; i++) rp[i] = i < w ? q + i * s->ls : hv_zeros();
      pack_rows(W, rp, len, d);
    } else
      for (L p = 0; p < len; p++) for (L i = 0; i < W; i++) d[p * W + i] = i < w ? q[i * s->ls + p * s->ds] : 0;
  }
}

static __attribute__((noinline)) void pack_a(const hv_src *s, L l0, L lanes, L p0, L len, float *d, L last) { pack_strided(MR, s, l0, lanes, p0, len, d, last); }
static __attribute__((noinline)) void pack_b(const hv_src *s, L l0, L lanes, L p0, L len, float *d, L last) { pack_strided(NR, s, l0, lanes, p0, len, d, last); }

// block_mul multiplies packed panels into C[mm, nn].
static void block_mul(L mm, L nn, L kk, const float *pa, const float *pb, float *C, L ldc, int add) {
  float tmp[MR * NV * (VB / 4)] __attribute__((aligned(64)));
  for (L j = 0; j < nn; j += NR)
    for (L i = 0; i < mm; i += MR) {
      float *c = C + i * ldc + j;
      if (i + MR <= mm && j + NR <= nn) { uk(kk, pa + i * kk, pb + j * kk, c, ldc, add); continue; }
      uk(kk, pa + i * kk, pb + j * kk, tmp, NR, 0);
      L ii = HV_MIN(MR, mm - i), jj = HV_MIN(NR, nn - j);
      if (add) for (L u = 0; u < ii; u++) for (L v = 0; v < jj; v++) c[u * ldc + v] += tmp[u * NR + v];
      else for (L u = 0; u < ii; u++) for (L v = 0; v < jj; v++) c[u * ldc + v] = tmp[u * NR + v];
    }
}

static void bias_rows(L m, L n, float *c, L ldc, const float *bias, int relu) {
  for (L i = 0; i < m; i++, c += ldc) {
    L j = 0;
    for (; j + VL <= n; j += VL) {
      vf v = ld(c + j) + ld(bias + j);
      if (relu) v = vmax(v, (vf){0});
      st(c + j, v);
    }
    for (; j < n; j++) { float v = c[j] + bias[j]; c[j] = relu ? (v > 0 ? v : 0) : v; }
  }
}

// gemm_range computes C[i1.., j1..] of size m x n over depth [k0, k1).
static void gemm_range(const hv_gemm_args *g, L i1, L m, L j1, L n, L k0, L k1, float *C, L ldc, int add) {
  L kc = hv_kc(g->k), mc = MR * (VB >= 64 ? 16 : 28), nc = NR * (VB >= 64 ? 48 : 96);
  float *pa = hv_scratch(0, (HV_MIN(mc, m) + MR) * kc + 128), *pb = hv_scratch(1, (HV_MIN(nc, n) + NR) * kc + 16 * NR + 128);
  for (L j0 = 0; j0 < n; j0 += nc) {
    L nn = HV_MIN(nc, n - j0);
    for (L p0 = k0; p0 < k1; p0 += kc) {
      L kk = HV_MIN(kc, k1 - p0);
      int last = p0 + kk >= g->k && g->bias;
      pack_b(&g->b, j1 + j0, nn, p0, kk, pb, g->n);
      for (L i0 = 0; i0 < m; i0 += mc) {
        L mm = HV_MIN(mc, m - i0);
        pack_a(&g->a, i1 + i0, mm, p0, kk, pa, g->m);
        block_mul(mm, nn, kk, pa, pb, C + i0 * ldc + j0, ldc, add || p0 > k0);
        if (last) bias_rows(mm, nn, C + i0 * ldc + j0, ldc, g->bias + j1 + j0, g->relu);
      }
    }
  }
}

static void k_gemm(const void *v, L t) {
  const hv_gemm_args *g = v;
  L i = t % g->nm * g->tm, j = t / g->nm * g->tn;
  gemm_range(g, i, HV_MIN(g->tm, g->m - i), j, HV_MIN(g->tn, g->n - j), 0, g->k, g->c + i * g->ldc + j, g->ldc, g->add);
}

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

// small multiplies strided matrices on this thread.
static void small(L m, L n, L k, const float *a, L als, L ads, const float *b, L bls, L bds, float *c, L ldc, int add) {
  hv_gemm_args g = {.m = m, .n = n, .k = k, .a = {a, als, ads}, .b = {b, bls, bds}};
  gemm_range(&g, 0, m, 0, n, 0, k, c, ldc, add);
}
