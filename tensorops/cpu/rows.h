// Row operations, reductions, elementwise kernels and optimizers. Row reductions
// use 32 lanes, column reductions chunks of 64 rows; each kernel's plain loop is
// in the Go file of its op.

FI float sfma(float a, float b, float c) { return vfma(splat(a), splat(b), splat(c))[0]; }

// sum32 sums x over 32 lanes.
FI float sum32(const float *x, L n) {
  vf a[R32];
  for (int i = 0; i < R32; i++) a[i] = (vf){0};
  L c = 0;
  for (; c + 32 <= n; c += 32) for (int i = 0; i < R32; i++) a[i] += ld(x + c + i * VL);
  if (c < n) {
    float t[32];
    tail(t, x + c, n - c, 0);
    for (int i = 0; i < R32; i++) a[i] += ld(t + i * VL);
  }
  return hsum32(a);
}
FI float max32(const float *x, L n) {
  vf a[R32];
  for (int i = 0; i < R32; i++) a[i] = splat(x[0]);
  L c = 0;
  for (; c + 32 <= n; c += 32) for (int i = 0; i < R32; i++) a[i] = vmax(a[i], ld(x + c + i * VL));
  if (c < n) {
    float t[32];
    tail(t, x + c, n - c, x[0]);
    for (int i = 0; i < R32; i++) a[i] = vmax(a[i], ld(t + i * VL));
  }
  return hmax32(a);
}

static void k_norm_fwd(const void *v, L t) {
  const hv_norm_args *g = v;
  L C = g->c;
  for (L r = t * HV_ROWS; r < HV_MIN(g->n, (t + 1) * HV_ROWS); r++) {
    const float *x = g->x + r * C;
    float *y = g->y + r * C;
    if (g->res) {
      const float *q = g->res + r * C;
      float *s = g->osum + r * C;
      L c = 0;
      for (; c + VL <= C; c += VL) st(s + c, ld(x + c) + ld(q + c));
      for (; c < C; c++) s[c] = x[c] + q[c];
      x = s;
    }
    float mean = g->b ? sum32(x, C) / (float)C : 0;   // a root mean square has no shift
    L c = 0;
    for (; c + VL <= C; c += VL) {   // rows ahead come from far while this one is worked on
      __builtin_prefetch(g->x + (r + 2) * C + c);
      __builtin_prefetch(y + 2 * C + c, 1);
      st(y + c, ld(x + c) - mean);
    }
    for (; c < C; c++) y[c] = x[c] - mean;
    float rstd = 1.0f / vsqrt(splat(dot32(y, y, C) / (float)C + g->eps))[0];
    for (c = 0; c + VL <= C; c += VL) st(y + c, vfma(ld(y + c) * rstd, ld(g->g + c), g->b ? ld(g->b + c) : (vf){0}));
    for (; c < C; c++) y[c] = sfma(y[c] * rstd, g->g[c], g->b ? g->b[c] : 0);
    g->stats[2 * r] = mean; g->stats[2 * r + 1] = rstd;
  }
}

// k_norm_bwd takes both sums of a row on the way.
static void k_norm_bwd(const void *v, L t) {
  const hv_norm_args *g = v;
  L C = g->c;
  float *dg = g->part + t * 2 * C, *db = dg + C, *xh = hv_scratch(2, C), *dh = hv_scratch(3, C);
  memset(dg, 0, 2 * C * 4);
  for (L r = t * HV_ROWS; r < HV_MIN(g->n, (t + 1) * HV_ROWS); r++) {
    const float *x = g->sum + r * C, *dy = g->dy + r * C;
    float mean = g->stats[2 * r], rstd = g->stats[2 * r + 1], *dx = g->dx + r * C;
    vf se[R32], seh[R32];
    for (int i = 0; i < R32; i++) se[i] = seh[i] = (vf){0};
    L c = 0;
    for (; c + 32 <= C; c += 32)
      for (int i = 0; i < R32; i++) {
        L k = c + i * VL;
        vf h = (ld(x + k) - mean) * rstd, d = ld(dy + k), e = d * ld(g->g + k);
        st(xh + k, h); st(dh + k, e);
        st(dg + k, vfma(d, h, ld(dg + k))); st(db + k, ld(db + k) + d);
        se[i] += e; seh[i] = vfma(e, h, seh[i]);
      }
    if (c < C) {
      float e[32], h[32];
      for (L k = c; k < C; k++) {
        xh[k] = (x[k] - mean) * rstd; dh[k] = dy[k] * g->g[k];
        dg[k] = sfma(dy[k], xh[k], dg[k]); db[k] += dy[k];
      }
      tail(e, dh + c, C - c, 0); tail(h, xh + c, C - c, 0);
      for (int i = 0; i < R32; i++) { se[i] += ld(e + i * VL); seh[i] = vfma(ld(e + i * VL), ld(h + i * VL), seh[i]); }
    }
    float a = g->rms ? 0 : hsum32(se) / (float)C, b = -(hsum32(seh) / (float)C);
    const float *ds = g->dsum ? g->dsum + r * C : NULL;
    for (c = 0; c + VL <= C; c += VL) {
      vf u = vfma(ld(xh + c), splat(b), ld(dh + c) - a) * rstd;
      if (ds) u = ld(ds + c) + u;
      st(dx + c, u);
    }
    for (; c < C; c++) { float u = sfma(xh[c], b, dh[c] - a) * rstd; dx[c] = ds ? ds[c] + u : u; }
  }
}

// log_pos is num.Log for positive normal x.
static double log_pos(double x) {
  uint64_t u; memcpy(&u, &x, 8);
  int e = (int)(u >> 52) - 1023;
  u = (u & 0x000FFFFFFFFFFFFFul) | 0x3FF0000000000000ul;
  double m; memcpy(&m, &u, 8);
  if (m > 1.4142135623730951) { m *= 0.5; e++; }
  double s = (m - 1) / (m + 1), z = s * s, p = 0;
  for (int k = 23; k >= 3; k -= 2) p = (p + 1.0 / k) * z;
  double d = e;
  return d * 0.6931471803691238 + (d * 1.9082149292705877e-10 + 2 * s * (1 + p));
}

// exp_row writes exp(x-m) and returns its sum over 32 lanes.
FI float exp_row(const float *x, float *y, L n, float m) {
  float u[32];
  L c = 0;
  for (; c + VL <= n; c += VL) st(y + c, vexp(ld(x + c) - m));
  if (c < n) {
    tail(u, x + c, n - c, m);
    st(u, vexp(ld(u) - m));
    memcpy(y + c, u, (n - c) * 4);
  }
  return sum32(y, n);
}

static void k_ce(const void *v, L t) {
  const hv_ce_args *g = v;
  L V = g->v;
  for (L r = t * HV_ROWS; r < HV_MIN(g->n, (t + 1) * HV_ROWS); r++) {
    const float *x = g->x + r * V;
    float *d = g->dx ? g->dx + r * V : hv_scratch(2, V + 32);
    if (g->label[r] < 0) { g->loss[r] = 0; memset(d, 0, V * 4); continue; }
    float m = max32(x, V), s = exp_row(x, d, V, m);
    g->loss[r] = log_pos(s) - (double)(x[g->label[r]] - m);
    if (!g->dx) continue;
    float inv = 1.0f / s;
    L c = 0;
    for (; c + VL <= V; c += VL) st(d + c, ld(d + c) * inv);
    for (; c < V; c++) d[c] *= inv;
    d[g->label[r]] -= 1.0f;
  }
}

#include "swiglu.h"
#include "rope.h"

FI vf plus(const hv_ew_args *g, vf x, vf y) { (void)g; return x + y; }
FI vf mask(const hv_ew_args *g, vf x, vf y) { (void)g; return sel(y > (vf){0}, x, (vf){0}); }
FI vf combine(const hv_ew_args *g, vf x, vf y) { return vfma(splat(g->a), x, y * g->b); }
// EW defines a kernel z = f(x, y) over spans.
#define EW(name, f)                                                        \
  static void name(const void *v, L t) {                                   \
    const hv_ew_args *g = v;                                               \
    L i = t * HV_SPAN, e = HV_MIN(g->n, i + HV_SPAN);                      \
    for (; i + VL <= e; i += VL) st(g->z + i, f(g, ld(g->x + i), ld(g->y + i))); \
    if (i < e) {                                                           \
      float a[32], b[32];                                                  \
      tail(a, g->x + i, e - i, 0); tail(b, g->y + i, e - i, 0);            \
      st(a, f(g, ld(a), ld(b)));                                              \
      memcpy(g->z + i, a, (e - i) * 4);                                    \
    }                                                                      \
  }
EW(k_gelu_fwd, gelu)
EW(k_gelu_bwd, dgelu)
EW(k_add, plus)
EW(k_relu_mask, mask)
EW(k_combine, combine)

static void k_pool_fwd(const void *v, L t) {
  const hv_pool_args *g = v;
  L oh = g->h / 2, ow = g->w / 2, C = g->c, b = t / oh, i = t % oh;
  const float *x = g->x + (b * g->h + 2 * i) * g->w * C;
  float *y = g->z + t * ow * C;
  for (L j = 0; j < ow; j++, x += 2 * C, y += C) {
    const float *x2 = x + g->w * C;
    L c = 0;
    for (; c + VL <= C; c += VL) {
      vf m = vmax(vmax(vmax(ld(x + c), ld(x + C + c)), ld(x2 + c)), ld(x2 + C + c));
      st(y + c, g->relu ? vmax(m, (vf){0}) : m);
    }
    for (; c < C; c++) {
      float m = x[c];
      m = m > x[C + c] ? m : x[C + c]; m = m > x2[c] ? m : x2[c]; m = m > x2[C + c] ? m : x2[C + c];
      y[c] = g->relu ? (m > 0 ? m : 0) : m;
    }
  }
}

static void k_pool_bwd(const void *v, L t) {
  const hv_pool_args *g = v;
  L oh = g->h / 2, ow = g->w / 2, C = g->c, b = t / oh, i = t % oh, at = (b * g->h + 2 * i) * g->w * C;
  for (L j = 0; j < ow; j++) {
    const float *y = g->y + (t * ow + j) * C, *dy = g->dy + (t * ow + j) * C;
    L off[4] = {at + 2 * j * C, at + (2 * j + 1) * C, at + (g->w + 2 * j) * C, at + (g->w + 2 * j + 1) * C};
    L c = 0;
    for (; c + VL <= C; c += VL) {
      vf top = ld(y + c), d = ld(dy + c);
      if (g->relu) d = mask(NULL, d, top);
      for (int q = 0; q < 4; q++) {
        vi k = ld(g->x + off[q] + c) == top;
        st(g->z + off[q] + c, sel(k, d, (vf){0}));
        d = sel(k, (vf){0}, d);
      }
    }
    for (; c < C; c++) {
      float d = g->relu && !(y[c] > 0) ? 0 : dy[c];
      for (int q = 0; q < 4; q++) {
        int k = g->x[off[q] + c] == y[c];
        g->z[off[q] + c] = k ? d : 0;
        d = k ? 0 : d;
      }
    }
  }
  if (g->w & 1) { memset(g->z + at + (g->w - 1) * C, 0, C * 4); memset(g->z + at + (2 * g->w - 1) * C, 0, C * 4); }
  if (g->h & 1 && i == oh - 1) memset(g->z + at + 2 * g->w * C, 0, g->w * C * 4);
}

#include "avgpool.h"

static void k_embed_fwd(const void *v, L t) {
  const hv_embed_args *g = v;
  for (L r = t * HV_ROWS; r < HV_MIN(g->n, (t + 1) * HV_ROWS); r++) {
    const float *e = g->table + g->id[r] * g->c, *p = g->pos + r % g->t * g->c;
    float *y = g->y + r * g->c;
    L c = 0;
    for (; c + VL <= g->c; c += VL) st(y + c, ld(e + c) + ld(p + c));
    for (; c < g->c; c++) y[c] = e[c] + p[c];
  }
}

static void k_embed_bwd(const void *v, L t) {
  const hv_embed_args *g = v;
  L c0 = t * g->tc, c1 = HV_MIN(g->c, c0 + g->tc);
  for (L r = 0; r < g->n; r++) {
    float *e = g->dtable + g->id[r] * g->c, *p = g->dpos + r % g->t * g->c;
    const float *d = g->dy + r * g->c;
    L c = c0;
    for (; c + VL <= c1; c += VL) { st(e + c, ld(e + c) + ld(d + c)); st(p + c, ld(p + c) + ld(d + c)); }
    for (; c < c1; c++) { e[c] += d[c]; p[c] += d[c]; }
  }
}

static void k_cols(const void *v, L t) {
  const hv_cols_args *g = v;
  L c = t * HV_ROWS, e = HV_MIN(g->c, c + HV_ROWS);
  for (; c + 4 * VL <= e; c += 4 * VL) {   // four vectors share a pass over the rows
    vf y[4];
    for (int i = 0; i < 4; i++) y[i] = ld(g->y + c + i * VL);
    for (L r0 = 0; r0 < g->n; r0 += HV_ROWS) {
      vf s[4] = {{0}, {0}, {0}, {0}};
      for (L r = r0; r < HV_MIN(g->n, r0 + HV_ROWS); r++)
        for (int i = 0; i < 4; i++) s[i] += ld(g->x + r * g->c + c + i * VL);
      for (int i = 0; i < 4; i++) y[i] += s[i];
    }
    for (int i = 0; i < 4; i++) st(g->y + c + i * VL, y[i]);
  }
  for (; c + VL <= e; c += VL) {
    vf y = ld(g->y + c);
    for (L r0 = 0; r0 < g->n; r0 += HV_ROWS) {
      vf s = (vf){0};
      for (L r = r0; r < HV_MIN(g->n, r0 + HV_ROWS); r++) s += ld(g->x + r * g->c + c);
      y += s;
    }
    st(g->y + c, y);
  }
  for (; c < e; c++)
    for (L r0 = 0; r0 < g->n; r0 += HV_ROWS) {
      float s = 0;
      for (L r = r0; r < HV_MIN(g->n, r0 + HV_ROWS); r++) s += g->x[r * g->c + c];
      g->y[c] += s;
    }
}

// OPT loads a whole or a partial vector of each array, runs body and stores.
#define OPT(name, body)                                                          \
  static void name(const void *a_, L t) {                                        \
    const hv_opt_args *g = a_;                                                   \
    float b1 = g->b1, b2 = g->b2, d1 = 1.0f - b1, d2 = 1.0f - b2, *M = g->m, *V = g->v; \
    (void)b2; (void)d1; (void)d2; (void)V;                                       \
    L i = t * HV_SPAN, e = HV_MIN(g->n, i + HV_SPAN);                            \
    for (; i < e; i += VL) {                                                     \
      L w = HV_MIN(VL, e - i);                                                   \
      float tp[32], tg[32], tm[32], tv[32];                                      \
      vf p, x, m, v = (vf){0};                                                   \
      if (w == VL) { p = ld(g->p + i); x = ld(g->g + i); m = ld(M + i); if (V) v = ld(V + i); } \
      else { p = ld(tail(tp, g->p + i, w, 0)); x = ld(tail(tg, g->g + i, w, 0)); m = ld(tail(tm, M + i, w, 0)); if (V) v = ld(tail(tv, V + i, w, 0)); } \
      x = x * g->gs;                                                             \
      body                                                                       \
      if (w == VL) { st(g->p + i, p); st(M + i, m); if (V) st(V + i, v); }       \
      else { st(tp, p); st(tm, m); st(tv, v); memcpy(g->p + i, tp, w * 4); memcpy(M + i, tm, w * 4); if (V) memcpy(V + i, tv, w * 4); } \
    }                                                                            \
  }
OPT(k_adamw, {
  m = vfma(splat(b1), m, x * d1);
  v = vfma(splat(b2), v, x * d2 * x);
  vf q = m * g->c1 / (vsqrt(v * g->c2) + g->eps);
  q = vfma(splat(g->wd), p, q);
  p = vfma(splat(-g->lr), q, p);
})
OPT(k_sgd, {
  m = vfma(splat(b1), m, vfma(splat(g->wd), p, x));
  p = vfma(splat(-g->lr), m, p);
})

#include "batchnorm.h"

typedef double vd8 __attribute__((vector_size(64)));
typedef float vf8 __attribute__((vector_size(32), aligned(4), may_alias));
#include "groupnorm.h"

static void k_sumsq(const void *v, L t) {
  const hv_sq_args *g = v;
  const float *x = g->x + t * 4096;
  L n = HV_MIN(4096, g->n - t * 4096), i = 0;
  double l[16];
  vd8 a = {0}, b = {0};
  for (; i + 16 <= n; i += 16) {
    vd8 p = __builtin_convertvector(*(const vf8 *)(x + i), vd8), q = __builtin_convertvector(*(const vf8 *)(x + i + 8), vd8);
    a += p * p; b += q * q;
  }
  for (int j = 0; j < 8; j++) { l[j] = a[j]; l[j + 8] = b[j]; }
  for (int j = 0; i < n; i++, j++) { double d = x[i]; l[j] += d * d; }
  for (int h = 8; h > 0; h /= 2) for (int j = 0; j < h; j++) l[j] += l[j + h];
  g->part[t] = l[0];
}

const hv_table TABLE = {
  .mr = MR, .lanes = VL, .gemm = &gemm_kind, .gemm_bf16 = &gemm_bf16_kind, .conv_pack = k_conv_pack, .conv_pack_back = k_conv_pack_back,
  .conv_fwd = k_conv_fwd, .conv_dx = k_conv_dx, .conv_dw = k_conv_dw, .attn_fwd = k_attn_fwd, .attn_bwd = k_attn_bwd, .attn_fwd_bf16 = k_attn_fwd_bf16, .attn_bwd_bf16 = k_attn_bwd_bf16, .norm_fwd = k_norm_fwd,
  .norm_bwd = k_norm_bwd, .ce = k_ce, .gelu_fwd = k_gelu_fwd, .gelu_bwd = k_gelu_bwd, .add = k_add,
  .swiglu_fwd = k_swiglu_fwd, .swiglu_bwd = k_swiglu_bwd, .rope = k_rope,
  .relu_mask = k_relu_mask, .combine = k_combine, .pool_fwd = k_pool_fwd, .pool_bwd = k_pool_bwd, .avg_fwd = k_avg_fwd, .avg_bwd = k_avg_bwd, .embed_fwd = k_embed_fwd,
  .embed_bwd = k_embed_bwd, .cols = k_cols, .adamw = k_adamw, .sgd = k_sgd, .sumsq = k_sumsq, .peak = k_peak,
  .gn_fwd = k_gn_fwd, .gn_bwd = k_gn_bwd, .bn_stats = k_bn_stats, .bn_apply = k_bn_apply, .bn_sums = k_bn_sums, .bn_input = k_bn_input,
};
