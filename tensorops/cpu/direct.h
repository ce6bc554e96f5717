// Products without packing: C[m,n] = or += A*B, where B's rows are contiguous and
// A is read where it lies. The depth is a list of segments, so that convolutions
// read patches straight from a padded image. Accumulators fill the registers: R1
// rows of one vector, R2 of two, R4 of four. Every element is one fma chain from
// +0 over the segments, stored or added once, as in gemm.h, which takes edges here.
//
// Measured against packing patches (AVX-512, ResNet-8 at 28x28): see conv.h.

// DIRECT_ defines the product of M rows and V vectors. Rows are addressed from
// every fourth pointer, which leaves registers for all.
#define DIRECT_(M, V)                                                                    \
  static void direct_##M##_##V(const hv_direct *d, const float *a, const float *b, float *c, L ldc, int add) { \
    L als = d->als, als3 = 3 * d->als, ads = d->ads, bds = d->bds;                       \
    vf r[M][V];                                                                          \
    _Pragma("GCC unroll 28") for (int i = 0; i < M; i++)                                 \
      _Pragma("GCC unroll 4") for (int j = 0; j < V; j++) r[i][j] = (vf){0};             \
    for (const hv_seg *s = d->seg, *e = s + d->segs; s < e; s++) {                       \
      const float *x[(M + 3) / 4], *y = b + s->b * d->bseg;                                    \
      _Pragma("GCC unroll 7") for (int q = 0; q < (M + 3) / 4; q++) x[q] = a + s->a + 4 * q * als; \
      for (L p = s->n; p > 0; p--, y += bds) {                                           \
        vf w[V];                                                                         \
        _Pragma("GCC unroll 4") for (int j = 0; j < V; j++) w[j] = ld(y + j * VL);       \
        _Pragma("GCC unroll 28") for (int i = 0; i < M; i++) {                           \
          vf u = splat(x[i / 4][i % 4 == 3 ? als3 : i % 4 * als]);                       \
          _Pragma("GCC unroll 4") for (int j = 0; j < V; j++) r[i][j] = vfma(u, w[j], r[i][j]); \
        }                                                                                \
        _Pragma("GCC unroll 7") for (int q = 0; q < (M + 3) / 4; q++) { x[q] += ads; __asm__("" : "+r"(x[q])); } \
      }                                                                                  \
    }                                                                                    \
    if (add) {                                                                           \
      _Pragma("GCC unroll 28") for (int i = 0; i < M; i++)                               \
        _Pragma("GCC unroll 4") for (int j = 0; j < V; j++) { float *q = c + i * ldc + j * VL; st(q, ld(q) + r[i][j]); } \
    } else {                                                                             \
      _Pragma("GCC unroll 28") for (int i = 0; i < M; i++)                               \
        _Pragma("GCC unroll 4") for (int j = 0; j < V; j++) st(c + i * ldc + j * VL, r[i][j]); \
    }                                                                                    \
  }
#define DIRECT(M, V) DIRECT_(M, V)
DIRECT(1, 1) DIRECT(2, 1) DIRECT(4, 1) DIRECT(8, 1)
DIRECT(1, 2) DIRECT(2, 2) DIRECT(4, 2)
#if R1 > 8
DIRECT(R1, 1)
#endif
#if R1 > 16
DIRECT(16, 1)
#endif
#if R2 > 4
DIRECT(R2, 2)
#endif
#if R2 > 8
DIRECT(8, 2)
#endif
#ifdef R4
DIRECT(1, 4) DIRECT(2, 4) DIRECT(4, 4) DIRECT(R4, 4)
#endif

typedef struct { L rows; void (*f)(const hv_direct *, const float *, const float *, float *, L, int); } direct_fn;
#define FN_(M, V) {M, direct_##M##_##V}
#define FN(M, V) FN_(M, V)
static const direct_fn direct1[] = {
#if R1 > 8
  FN(R1, 1),
#endif
#if R1 > 16
  FN(16, 1),
#endif
  FN(8, 1), FN(4, 1), FN(2, 1), FN(1, 1)};
static const direct_fn direct2[] = {
#if R2 > 4
  FN(R2, 2),
#endif
#if R2 > 8
  FN(8, 2),
#endif
  FN(4, 2), FN(2, 2), FN(1, 2)};
#ifdef R4
static const direct_fn direct4[] = {FN(R4, 4), FN(4, 4), FN(2, 4), FN(1, 4)};
#define VMAX 4
#else
#define VMAX 2
#endif

// panel_vecs returns how many vectors a panel takes of n columns that are left.
FI L panel_vecs(L n) { return n >= VMAX * VL ? VMAX : n >= 2 * VL ? 2 : 1; }

// rows_next picks the function for m rows: the widest, unless it left fewer rows
// than hide the latency of an fma.
FI const direct_fn *rows_next(const direct_fn *f, L m, L vecs) {
  if (m > f->rows && (m - f->rows) * vecs < 8 && m < 2 * f->rows) m = (m + 1) / 2;
  while (f->rows > m) f++;
  return f;
}

// direct computes m rows and at most panel_vecs vectors of n columns; of columns
// beyond n it reads B, but writes none of C.
static void direct(const hv_direct *d, L m, L n, const float *a, const float *b, float *c, L ldc, int add) {
  L vecs = panel_vecs(n), w = vecs * VL;
  const direct_fn *all = vecs == 1 ? direct1 : direct2;
#ifdef R4
  if (vecs == 4) all = direct4;
#endif
  float tmp[R1 * VMAX * VL] __attribute__((aligned(64)));
  while (m > 0) {
    const direct_fn *f = rows_next(all, m, vecs);
    if (n >= w) f->f(d, a, b, c, ldc, add);
    else {
      f->f(d, a, b, tmp, w, 0);
      if (add) for (L i = 0; i < f->rows; i++) for (L j = 0; j < n; j++) c[i * ldc + j] += tmp[i * w + j];
      else for (L i = 0; i < f->rows; i++) memcpy(c + i * ldc, tmp + i * w, n * 4);
    }
    m -= f->rows; a += f->rows * d->als; c += f->rows * ldc;
  }
}

// panels_of_rows transposes n rows of k floats, ld apart, into panels: row p of a
// panel holds element p of its rows, then zeros.
static void panels_of_rows(L n, L k, const float *x, L ldx, float *d) {
  for (L j = 0, w; j < n; j += w, d += k * w) {
    w = panel_vecs(n - j) * VL;
    for (L e = 0; e < w; e += VL) {
      const float *row = x + (j + e) * ldx;
      L p = 0, m = n - j - e;
      if (m >= VL)
        for (; p + VL <= k; p += VL) {
          const float *q[VB / 4];
          for (L i = 0; i < VL; i++) q[i] = row + i * ldx + p;
          tr(q, d + p * w + e, w);
        }
      for (; p < k; p++) for (L i = 0; i < VL; i++) d[p * w + e + i] = i < m ? row[i * ldx + p] : 0;
    }
  }
}

// by_panels multiplies m rows of A with panels of n columns, K = k at most one
// block; by_rows with B's rows where they lie, readable up to a whole vector.
FI void by_panels(L m, L n, L k, const float *a, L als, L ads, const float *panels, float *c, L ldc, int add) {
  hv_seg s = {0, 0, k};
  for (L j = 0, w; j < n; j += w) {
    w = panel_vecs(n - j) * VL;
    hv_direct d = {&s, 1, als, ads, w, w};
    direct(&d, m, n - j, a, panels + j * k, c + j, ldc, add);
  }
}
FI void by_rows(L m, L n, L k, const float *a, L als, L ads, const float *b, L bds, float *c, L ldc, int add) {
  hv_seg s = {0, 0, k};
  hv_direct d = {&s, 1, als, ads, bds, bds};
  for (L j = 0; j < n; j += panel_vecs(n - j) * VL) direct(&d, m, n - j, a, b + j, c + j, ldc, add);
}
