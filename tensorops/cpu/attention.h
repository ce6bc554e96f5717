// Causal attention in 64x64 tiles with online softmax; see the reference in
// ../attention.go for the plain loop this equals. qkv is [B, T, 3, H, D].
// stats is [B, H, T, 2]: the row maximum and one over the row sum.

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
  L nt = (g->t + HV_TILE - 1) / HV_TILE, i = t % nt, bh = t / nt, b = bh / g->h, h = bh % g->h, D = g->d, C = g->h * D, C3 = 3 * C;
  const float *q = g->qkv + b * g->t * C3 + h * D, *k = q + C, *val = k + C;
  L r0 = i * HV_TILE, rows = HV_MIN(HV_TILE, g->t - r0);
  float *s = hv_scratch(2, HV_TILE * HV_TILE), *o = hv_scratch(3, HV_TILE * D), *kt = hv_scratch(4, (HV_TILE + VL) * D), m[HV_TILE], l[HV_TILE];
  for (L r = 0; r < rows; r++) { m[r] = -1e30f; l[r] = 0; }
  memset(o, 0, rows * D * 4);
  for (L j = 0; j <= i; j++) {
    L c0 = j * HV_TILE, keys = HV_MIN(HV_TILE, g->t - c0);
    panels_of_rows(keys, D, k + c0 * C3, C3, kt);
    small_panels(rows, keys, D, q + r0 * C3, C3, k + c0 * C3, C3, kt, s);
    for (L r = 0; r < rows; r++) {
      float a = softmax_row(s + r * HV_TILE, j == i ? r + 1 : keys, g->scale, m + r, l + r), *y = o + r * D;
      for (L e = 0; e < D; e++) y[e] *= a;
    }
    small_rows(rows, D, keys, s, HV_TILE, 1, val + c0 * C3, C3, o, D, 1);
  }
  float *st2 = g->stats + (bh * g->t + r0) * 2, *y = g->y + (b * g->t + r0) * C + h * D;
  for (L r = 0; r < rows; r++) {
    float inv = 1.0f / l[r];
    st2[2 * r] = m[r]; st2[2 * r + 1] = inv;
    for (L e = 0; e < D; e++) y[r * C + e] = o[r * D + e] * inv;
  }
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

static void k_attn_bwd(const void *v, L bh) {
  const hv_attn_args *g = v;
  L nt = (g->t + HV_TILE - 1) / HV_TILE, b = bh / g->h, h = bh % g->h, D = g->d, C = g->h * D, C3 = 3 * C;
  const float *q = g->qkv + b * g->t * C3 + h * D, *k = q + C, *val = k + C, *o = g->out + b * g->t * C + h * D, *go = g->dout + b * g->t * C + h * D;
  float *dq = g->dqkv + b * g->t * C3 + h * D, *dk = dq + C, *dv = dk + C;
  const float *st2 = g->stats + bh * g->t * 2;
  float *s = hv_scratch(2, HV_TILE * HV_TILE), *dp = hv_scratch(3, HV_TILE * HV_TILE), *delta = hv_scratch(4, g->t), *kt = hv_scratch(5, (HV_TILE + VL) * D), *vt = hv_scratch(6, (HV_TILE + VL) * D);
  for (L r = 0; r < g->t; r++) {
    delta[r] = dot32(go + r * C, o + r * C, D);
    memset(dq + r * C3, 0, D * 4); memset(dk + r * C3, 0, D * 4); memset(dv + r * C3, 0, D * 4);
  }
  for (L j = 0; j < nt; j++) {
    L c0 = j * HV_TILE, keys = HV_MIN(HV_TILE, g->t - c0);
    panels_of_rows(keys, D, k + c0 * C3, C3, kt);
    panels_of_rows(keys, D, val + c0 * C3, C3, vt);
    for (L i = j; i < nt; i++) {
      L r0 = i * HV_TILE, rows = HV_MIN(HV_TILE, g->t - r0);
      small_panels(rows, keys, D, q + r0 * C3, C3, k + c0 * C3, C3, kt, s);
      small_panels(rows, keys, D, go + r0 * C, C, val + c0 * C3, C3, vt, dp);
      for (L r = 0; r < rows; r++) grad_row(s + r * HV_TILE, dp + r * HV_TILE, j == i ? r + 1 : keys, g->scale, st2[2 * (r0 + r)], st2[2 * (r0 + r) + 1], delta[r0 + r]);
      small_rows(keys, D, rows, s, 1, HV_TILE, go + r0 * C, C, dv + c0 * C3, C3, 1);
      small_rows(keys, D, rows, dp, 1, HV_TILE, q + r0 * C3, C3, dk + c0 * C3, C3, 1);
      small_rows(rows, D, keys, dp, HV_TILE, 1, k + c0 * C3, C3, dq + r0 * C3, C3, 1);
    }
  }
}
