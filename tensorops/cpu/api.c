// Entry points: fill an argument block, choose tiles, run them over the pool by
// the table of the chosen instruction set.
#if !defined(__clang__)
#pragma GCC optimize("fp-contract=off")
#endif
#include "api.h"
#include <stdatomic.h>
#include "hived.h"

typedef struct { const char *name; const hv_table *table; } isa;
static int usable(int i, isa *out) {
#if defined(__x86_64__)
  static const isa all[] = {{"avx512", &hv_avx512}, {"avx2", &hv_avx2}, {"scalar", &hv_scalar}, {"wide", &hv_wide}};
  __builtin_cpu_init();
  int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  int ok[] = {avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"), avx2, 1, avx2};
#elif defined(__aarch64__)
  static const isa all[] = {{"neon", &hv_neon}, {"scalar", &hv_scalar}};
  int ok[] = {1, 1};
#else
  static const isa all[] = {{"scalar", &hv_scalar}};
  int ok[] = {1};
#endif
  for (int j = 0; j < (int)(sizeof all / sizeof *all); j++)
    if (ok[j] && i-- == 0) { *out = all[j]; return 1; }
  return 0;
}

static _Atomic(const hv_table *) chosen;
const hv_table *hv_active(void) {
  const hv_table *t = atomic_load(&chosen);
  if (!t) {
    isa s;
    usable(0, &s);
    atomic_store(&chosen, t = s.table);
  }
  return t;
}
int hv_set_isa(const char *name) {
  isa s;
  for (int i = 0; usable(i, &s); i++)
    if (!strcmp(s.name, name)) { atomic_store(&chosen, s.table); return 0; }
  return -1;
}
const char *hv_isa(int i) {
  isa s;
  return usable(i, &s) ? s.name : NULL;
}
const char *hv_current(void) {
  isa s;
  const hv_table *t = hv_active();
  for (int i = 0; usable(i, &s); i++) if (s.table == t) return s.name;
  return "";
}

static L ceil_div(L a, L b) { return (a + b - 1) / b; }

// hv_gemm_blocks walks over blocks of B. Each is packed once for all threads; tiles,
// about four a thread, pack their rows of A themselves. Tiles share columns too
// where A has few rows.
void hv_gemm_blocks(const hv_gemm_kind *how, hv_gemm_args *g, hv_runner run, int threads) {
  if (!g->m || !g->n) return;
  int shared = threads > 1 && g->m * g->n * g->k > 64 * 64 * 64;   // what is below takes one thread less time
  if (how->small && !shared && g->m * g->n * g->k <= 128 * 128 * 128 && (g->b.ds == 1 || (g->b.ls == 1 && g->n % 16 == 0))) { run(how->small, g, 1); return; }
  L kc = hv_kc_of(g->k, how->kc), wide = HV_MIN(g->n, how->cols), blocks = ceil_div(g->m, how->mr), parts = 1;
  L tiles = ceil_div(g->m, how->rows), most = ceil_div(blocks, 4);
  if (shared) tiles = HV_MIN(most, tiles > 4 * threads ? tiles : 4 * threads);
  g->tm = ceil_div(blocks, tiles) * how->mr;
  g->nm = ceil_div(g->m, g->tm);
  if (shared) parts = ceil_div(3 * threads, g->nm);
  g->tn = ceil_div(ceil_div(wide, how->nr), parts) * how->nr;
  g->pb = hv_scratch(1, (wide + how->nr) * kc + 4096);
  for (g->j0 = 0; g->j0 < g->n; g->j0 += how->cols)
    for (g->p0 = 0; g->p0 < g->k; g->p0 += kc) {
      g->nn = HV_MIN(how->cols, g->n - g->j0);
      g->kk = HV_MIN(kc, g->k - g->p0);
      run(how->pack, g, ceil_div(g->nn, how->group));
      run(how->mul, g, g->nm * ceil_div(g->nn, g->tn));
    }
}

void hv_gemm(long m, long n, long k, const float *a, long als, long ads, const float *b, long bls, long bds, float *c, long ldc, int add, const float *bias, int relu, float *gelu, const float *slope) {
  hv_gemm_args g = {.m = m, .n = n, .k = k, .a = {a, als, ads}, .b = {b, bls, bds}, .c = c, .ldc = ldc, .add = add, .bias = bias, .relu = relu, .gelu = gelu, .slope = slope};
  hv_begin();
  hv_gemm_blocks(hv_active()->gemm, &g, hv_run, hv_threads());
  hv_end();
}

static _Atomic int no_tiles;
void hv_set_tiles(int on) { atomic_store(&no_tiles, !on); }
static const hv_bf16 *unit(void) {
#if defined(__x86_64__)
  if (hv_active() == &hv_avx512) return hv_bf16_unit(atomic_load(&no_tiles));
#endif
  return NULL;
}
int hv_has_bf16(void) { return unit() != NULL; }
void hv_gemm_bf16(long m, long n, long k, const float *a, long als, long ads, const float *b, long bls, long bds, float *c, long ldc, int add, const float *bias, int relu, float *gelu, const float *slope) {
  hv_gemm_args g = {.m = m, .n = n, .k = k, .a = {a, als, ads}, .b = {b, bls, bds}, .c = c, .ldc = ldc, .add = add, .bias = bias, .relu = relu, .gelu = gelu, .slope = slope, .unit = unit()};
  hv_begin();
  hv_gemm_blocks(hv_active()->gemm_bf16, &g, hv_run, hv_threads());
  hv_end();
}

static float attn_scale(long d) {
  float r = d;
  return 1.0f / __builtin_sqrtf(r);
}
void hv_attn_fwd(long b, long t, long h, long d, int full, int bf16, const float *qkv, float *y, float *stats) {
  hv_attn_args g = {.b = b, .t = t, .h = h, .d = d, .full = full, .unit = unit(), .qkv = qkv, .y = y, .stats = stats, .scale = attn_scale(d)};
  if (bf16) hv_run(hv_active()->attn_fwd_bf16, &g, b * h);
  else hv_run(hv_active()->attn_fwd, &g, b * h * ceil_div(t, HV_TILE));
}
void hv_attn_bwd(long b, long t, long h, long d, int full, int bf16, const float *qkv, const float *y, const float *stats, const float *dy, float *dqkv) {
  hv_attn_args g = {.b = b, .t = t, .h = h, .d = d, .full = full, .unit = unit(), .qkv = qkv, .out = y, .dout = dy, .stats = (float *)stats, .dqkv = dqkv, .scale = attn_scale(d)};
  hv_run(bf16 ? hv_active()->attn_bwd_bf16 : hv_active()->attn_bwd, &g, b * h);
}
void hv_norm_fwd(long n, long c, float eps, const float *x, const float *res, const float *gain, const float *b, float *y, float *sum, float *stats) {
  hv_norm_args g = {.n = n, .c = c, .eps = eps, .x = x, .res = res, .g = gain, .b = b, .y = y, .osum = sum, .stats = stats};
  hv_run(hv_active()->norm_fwd, &g, ceil_div(n, HV_ROWS));
}
void hv_norm_bwd(long n, long c, const float *sum, const float *stats, const float *gain, const float *dy, const float *dsum, float *dx, float *dg, float *db, float *part) {
  hv_norm_args g = {.n = n, .c = c, .g = gain, .sum = sum, .dy = dy, .dsum = dsum, .stats = (float *)stats, .dx = dx, .part = part, .rms = !db};
  L chunks = ceil_div(n, HV_ROWS);
  hv_run(hv_active()->norm_bwd, &g, chunks);
  for (L t = 0; t < chunks; t++)
    for (L i = 0; i < c; i++) { dg[i] += part[t * 2 * c + i]; if (db) db[i] += part[t * 2 * c + c + i]; }
}
double hv_ce(long n, long v, const float *x, const int32_t *label, float *dx, double *loss) {
  hv_ce_args g = {n, v, x, label, dx, loss};
  hv_run(hv_active()->ce, &g, ceil_div(n, HV_ROWS));
  double s = 0;
  for (L i = 0; i < n; i++) s += loss[i];
  return s;
}
static void rows(hv_fn f, long n, long c, const float *x, const float *y, float *z) {
  hv_rows_args g = {n, c, x, y, z};
  hv_run(f, &g, ceil_div(n, HV_ROWS));
}
static void spans(hv_fn f, long n, const float *x, const float *y, float *z) {
  hv_ew_args g = {n, x, y, z, 0, 0};
  hv_run(f, &g, ceil_div(n, HV_SPAN));
}
void hv_combine(long n, float a, const float *x, float b, const float *y, float *z) {
  hv_ew_args g = {n, x, y, z, a, b};
  hv_run(hv_active()->combine, &g, ceil_div(n, HV_SPAN));
}
void hv_gelu_fwd(long n, const float *x, float *y) { spans(hv_active()->gelu_fwd, n, x, x, y); }
void hv_gelu_bwd(long n, const float *x, const float *dy, float *dx) { spans(hv_active()->gelu_bwd, n, x, dy, dx); }
void hv_swiglu_fwd(long n, long c, const float *x, float *y) { rows(hv_active()->swiglu_fwd, n, c, x, NULL, y); }
void hv_swiglu_bwd(long n, long c, const float *x, const float *dy, float *dx) { rows(hv_active()->swiglu_bwd, n, c, x, dy, dx); }
void hv_rope(long n, long t, long row, long heads, long d, const float *x, const float *cos, const float *sin, float *y, float sign) {
  hv_rope_args g = {n, t, row, heads, d, x, cos, sin, y, sign};
  hv_run(hv_active()->rope, &g, ceil_div(n, HV_ROWS));
}
void hv_add(long n, const float *x, const float *y, float *z) { spans(hv_active()->add, n, x, y, z); }
void hv_relu_mask(long n, const float *dy, const float *y, float *dx) { spans(hv_active()->relu_mask, n, dy, y, dx); }
void hv_gn_fwd(long b, long p, long c, long groups, double eps, int relu, const float *x, const float *gain, const float *shift, float *y, float *stats) {
  hv_gn_args g = {.p = p, .c = c, .g = groups, .eps = eps, .relu = relu, .x = x, .gain = gain, .shift = shift, .y = y, .stats = stats};
  hv_run(hv_active()->gn_fwd, &g, b);
}
void hv_gn_bwd(long b, long p, long c, long groups, int relu, const float *x, const float *y, const float *gain, const float *stats, const float *dy, float *dx, float *work) {
  hv_gn_args g = {.p = p, .c = c, .g = groups, .relu = relu, .x = x, .y = (float *)y, .gain = gain, .stats = (float *)stats, .dy = dy, .dx = dx, .work = work};
  hv_run(hv_active()->gn_bwd, &g, b);
}
void hv_pool_fwd(long b, long h, long w, long c, const float *x, float *y, int relu) {
  hv_pool_args g = {b, h, w, c, x, NULL, NULL, y, relu};
  hv_run(hv_active()->pool_fwd, &g, b * (h / 2));
}
void hv_pool_bwd(long b, long h, long w, long c, const float *x, const float *y, const float *dy, float *dx, int relu) {
  hv_pool_args g = {b, h, w, c, x, y, dy, dx, relu};
  hv_run(hv_active()->pool_bwd, &g, b * (h / 2));
}
void hv_avg_fwd(const long *p, const float *x, float *y) {
  hv_avg_args g = {p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], x, y};
  hv_run(hv_active()->avg_fwd, &g, g.b * g.oh);
}
void hv_avg_bwd(const long *p, const float *dy, float *dx) {
  hv_avg_args g = {p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], dy, dx};
  hv_run(hv_active()->avg_bwd, &g, g.b * g.h);
}
void hv_embed_fwd(long n, long t, long c, const int32_t *id, const float *tab, const float *pos, float *y) {
  hv_embed_args g = {.n = n, .t = t, .c = c, .id = id, .table = tab, .pos = pos, .y = y};
  hv_run(hv_active()->embed_fwd, &g, ceil_div(n, HV_ROWS));
}
void hv_embed_bwd(long n, long t, long c, const int32_t *id, const float *dy, float *dtable, float *dpos) {
  hv_embed_args g = {.n = n, .t = t, .c = c, .id = id, .dy = dy, .dtable = dtable, .dpos = dpos, .tc = ceil_div(ceil_div(c, hv_threads()), 32) * 32};
  hv_run(hv_active()->embed_bwd, &g, ceil_div(c, g.tc));
}
void hv_cols(long n, long c, const float *x, float *y) {
  hv_cols_args g = {n, c, x, y};
  hv_run(hv_active()->cols, &g, ceil_div(c, HV_ROWS));
}
static hv_opt_args coefs(const float *c) {
  return (hv_opt_args){.gs = c[0], .lr = c[1], .b1 = c[2], .b2 = c[3], .eps = c[4], .wd = c[5], .c1 = c[6], .c2 = c[7]};
}
void hv_adamw(long n, float *p, float *m, float *v, const float *grad, const float *coef) {
  hv_opt_args g = coefs(coef);
  g.n = n; g.p = p; g.m = m; g.v = v; g.g = grad;
  hv_run(hv_active()->adamw, &g, ceil_div(n, HV_SPAN));
}
void hv_sgd(long n, float *p, float *m, const float *grad, const float *coef) {
  hv_opt_args g = coefs(coef);
  g.n = n; g.p = p; g.m = m; g.v = NULL; g.g = grad;
  hv_run(hv_active()->sgd, &g, ceil_div(n, HV_SPAN));
}
double hv_sumsq(long n, const float *x, double *part) {
  hv_sq_args g = {n, x, part};
  L blocks = ceil_div(n, 4096);
  hv_run(hv_active()->sumsq, &g, blocks);
  double s = 0;
  for (L i = 0; i < blocks; i++) s += part[i];
  return s;
}
double hv_peak(long n) {
  float out[32 * 16] = {0.5f, 0.25f};
  hv_peak_args g = {n, out};
  hv_active()->peak(&g, 0);
  return 2.0 * n * hv_active()->mr * hv_active()->lanes;
}
