// Attention in 64x64 tiles with online softmax; see the reference in
// ../attention.go for the plain loop this equals. qkv is [B, T, 3, H, D].
// stats is [B, H, T, 2]: the row maximum and one over the row sum.

// attn_at finds where head bh of the batch lies.
typedef struct { L T, D, C, C3, nt; const float *q, *k, *v, *o, *go; float *y, *dq, *dk, *dv, *stats; } attn_head;
FI attn_head attn_at(const hv_attn_args *g, L bh) {
  L b = bh / g->h, h = bh % g->h, D = g->d, C = g->h * D, in = b * g->t * 3 * C + h * D, out = b * g->t * C + h * D;
  attn_head a = {.T = g->t, .D = D, .C = C, .C3 = 3 * C, .nt = (g->t + HV_TILE - 1) / HV_TILE, .q = g->qkv + in, .stats = g->stats + bh * g->t * 2};
  a.k = a.q + C; a.v = a.k + C;
  if (g->y) a.y = g->y + out;
  if (g->dqkv) { a.o = g->out + out; a.go = g->dout + out; a.dq = g->dqkv + in; a.dk = a.dq + C; a.dv = a.dk + C; }
  return a;
}
// attn_limit returns how many of the keys of tile j row r of tile i sees.
FI L attn_limit(const hv_attn_args *g, L i, L j, L r, L keys) { return !g->full && i == j ? r + 1 : keys; }

// attn_finish writes a tile of results from sums o, rows of ldo.
FI void attn_finish(const attn_head *a, L r0, L rows, const float *m, const float *l, const float *o, L ldo) {
  for (L r = 0; r < rows; r++) {
    float inv = 1.0f / l[r], *y = a->y + (r0 + r) * a->C, *s = a->stats + 2 * (r0 + r);
    s[0] = m[r]; s[1] = inv;
    for (L e = 0; e < a->D; e++) y[e] = o[r * ldo + e] * inv;
  }
}

// softmax_row replaces s[0..64) by exp(s*scale - max) with the running maximum
// *m, keys at and beyond limit being 0, and returns the factor for older sums.
FI float softmax_row(float *s, L limit, float scale, float *m, float *l) {
  vf mx[R32], sum[R32];
  vi idx;
  for (int i = 0; i < VL; i++) idx[i] = i;
  for (int i = 0; i < R32; i++) { mx[i] = splat(-1e30f); sum[i] = (vf){0}; }
  for (int j = 0; j < HV_TILE; j += VL) {
    vi k = idx + j < (int)limit;
    vf x = sel(k, *(vf *)(s + j) * scale, splat(-1e30f));
    *(vf *)(s + j) = x;
    mx[j / VL % R32] = vmax(mx[j / VL % R32], x);
  }
  float top = hmax32(mx), old = *m;
  top = top > old ? top : old;
  for (int j = 0; j < HV_TILE; j += VL) {
    vi k = idx + j < (int)limit;
    vf p = sel(k, vexp(*(vf *)(s + j) - top), (vf){0});
    *(vf *)(s + j) = p;
    sum[j / VL % R32] += p;
  }
  float alpha = vexp(splat(old - top))[0];
  *m = top;
  *l = *l * alpha;
  *l = *l + hsum32(sum);
  return alpha;
}

// softmax_tile does so for the rows of tile i and the keys of tile j, and scales the
// older sums o, rows of ldo.
FI void softmax_tile(const hv_attn_args *g, L i, L j, L rows, L keys, float *s, float *m, float *l, float *o, L ldo) {
  for (L r = 0; r < rows; r++) {
    float f = softmax_row(s + r * HV_TILE, attn_limit(g, i, j, r, keys), g->scale, m + r, l + r), *y = o + r * ldo;
    for (L e = 0; e < ldo; e++) y[e] *= f;
  }
}

// small_panels writes the tile s = a b', where b's keys lie in panels; rows of more
// than one block of K take the packed product. small_rows writes or adds a b.
FI void small_panels(L m, L n, L k, const float *a, L als, const float *b, L bls, const float *panels, float *s) {
  if (k <= HV_KC) by_panels(m, n, k, a, als, 1, panels, s, HV_TILE, 0);
  else small(m, n, k, a, als, 1, b, bls, 1, s, HV_TILE, 0);
}
FI void small_rows(L m, L n, L k, const float *a, L als, L ads, const float *b, L bds, float *c, L ldc, int add) {
  if (n % VL == 0) by_rows(m, n, k, a, als, ads, b, bds, c, ldc, add);
  else small(m, n, k, a, als, ads, b, 1, bds, c, ldc, add);
}

static void k_attn_fwd(const void *v, L t) {
  const hv_attn_args *g = v;
  L nt = (g->t + HV_TILE - 1) / HV_TILE, i = t % nt, r0 = i * HV_TILE, rows = HV_MIN(HV_TILE, g->t - r0);
  attn_head a = attn_at(g, t / nt);
  L D = a.D, C3 = a.C3;
  float *s = hv_scratch(2, HV_TILE * HV_TILE), *o = hv_scratch(3, HV_TILE * D), *kt = hv_scratch(4, (HV_TILE + VL) * D), m[HV_TILE], l[HV_TILE];
  for (L r = 0; r < rows; r++) { m[r] = -1e30f; l[r] = 0; }
  memset(o, 0, rows * D * 4);
  for (L j = 0; j < (g->full ? nt : i + 1); j++) {
    L c0 = j * HV_TILE, keys = HV_MIN(HV_TILE, g->t - c0);
    panels_of_rows(keys, D, a.k + c0 * C3, C3, kt);
    small_panels(rows, keys, D, a.q + r0 * C3, C3, a.k + c0 * C3, C3, kt, s);
    softmax_tile(g, i, j, rows, keys, s, m, l, o, D);
    small_rows(rows, D, keys, s, HV_TILE, 1, a.v + c0 * C3, C3, o, D, 1);
  }
  attn_finish(&a, r0, rows, m, l, o, D);
}

// dot32 sums x*y over 32 lanes.
FI float dot32(const float *x, const float *y, L n) {
  vf a[R32];
  for (int i = 0; i < R32; i++) a[i] = (vf){0};
  L c = 0;
  for (; c + 32 <= n; c += 32) for (int i = 0; i < R32; i++) a[i] = vfma(ld(x + c + i * VL), ld(y + c + i * VL), a[i]);
  if (c < n) {
    float t[32], u[32];
    tail(t, x + c, n - c, 0); tail(u, y + c, n - c, 0);
    for (int i = 0; i < R32; i++) a[i] = vfma(ld(t + i * VL), ld(u + i * VL), a[i]);
  }
  return hsum32(a);
}

// grad_row turns scores s into probabilities and dp into score gradients.
FI void grad_row(float *s, float *dp, L limit, float scale, float m, float inv, float delta) {
  vi idx;
  for (int i = 0; i < VL; i++) idx[i] = i;
  for (int j = 0; j < HV_TILE; j += VL) {
    vi k = idx + j < (int)limit;
    vf p = sel(k, vexp(*(vf *)(s + j) * scale - m) * inv, (vf){0});
    *(vf *)(s + j) = p;
    *(vf *)(dp + j) = sel(k, p * (*(vf *)(dp + j) - delta) * scale, (vf){0});
  }
}

// grad_tile does so for the rows of tile i and the keys of tile j.
FI void grad_tile(const hv_attn_args *g, const attn_head *a, L i, L j, L rows, L keys, float *s, float *dp, const float *delta) {
  const float *st2 = a->stats + 2 * i * HV_TILE;
  for (L r = 0; r < rows; r++)
    grad_row(s + r * HV_TILE, dp + r * HV_TILE, attn_limit(g, i, j, r, keys), g->scale, st2[2 * r], st2[2 * r + 1], delta[i * HV_TILE + r]);
}

static void k_attn_bwd(const void *v, L bh) {
  const hv_attn_args *g = v;
  attn_head a = attn_at(g, bh);
  L D = a.D, C = a.C, C3 = a.C3;
  float *s = hv_scratch(2, HV_TILE * HV_TILE), *dp = hv_scratch(3, HV_TILE * HV_TILE), *delta = hv_scratch(4, g->t), *kt = hv_scratch(5, (HV_TILE + VL) * D), *vt = hv_scratch(6, (HV_TILE + VL) * D);
  for (L r = 0; r < g->t; r++) {
    delta[r] = dot32(a.go + r * C, a.o + r * C, D);
    memset(a.dq + r * C3, 0, D * 4); memset(a.dk + r * C3, 0, D * 4); memset(a.dv + r * C3, 0, D * 4);
  }
  for (L j = 0; j < a.nt; j++) {
    L c0 = j * HV_TILE, keys = HV_MIN(HV_TILE, g->t - c0);
    panels_of_rows(keys, D, a.k + c0 * C3, C3, kt);
    panels_of_rows(keys, D, a.v + c0 * C3, C3, vt);
    for (L i = g->full ? 0 : j; i < a.nt; i++) {
      L r0 = i * HV_TILE, rows = HV_MIN(HV_TILE, g->t - r0);
      const float *q = a.q + r0 * C3, *go = a.go + r0 * C;
      small_panels(rows, keys, D, q, C3, a.k + c0 * C3, C3, kt, s);
      small_panels(rows, keys, D, go, C, a.v + c0 * C3, C3, vt, dp);
      grad_tile(g, &a, i, j, rows, keys, s, dp, delta);
      small_rows(keys, D, rows, s, 1, HV_TILE, go, C, a.dv + c0 * C3, C3, 1);
      small_rows(keys, D, rows, dp, 1, HV_TILE, q, C3, a.dk + c0 * C3, C3, 1);
      small_rows(rows, D, keys, dp, HV_TILE, 1, a.k + c0 * C3, C3, a.dq + r0 * C3, C3, 1);
    }
  }
}

#include "attention_bf16.h"
