// Batch norm over rows, a chunk of 64 rows a tile; see the reference in
// ../batchnorm.go for the plain loops that these equal.

// k_bn_stats writes each chunk's means and sums of squared distances to part.
static void k_bn_stats(const void *v, L t) {
  const hv_bn_args *g = v;
  L C = g->c, r0 = t * HV_ROWS, r1 = HV_MIN(g->n, r0 + HV_ROWS), c = 0;
  float *mean = g->part + t * 2 * C, *m2 = mean + C, n = r1 - r0;
  for (; c + VL <= C; c += VL) {
    vf s = {0}, q = {0};
    for (L r = r0; r < r1; r++) s += ld(g->x + r * C + c);
    s = s / splat(n);
    for (L r = r0; r < r1; r++) { vf d = ld(g->x + r * C + c) - s; q = vfma(d, d, q); }
    st(mean + c, s); st(m2 + c, q);
  }
  for (; c < C; c++) {
    float s = 0, q = 0;
    for (L r = r0; r < r1; r++) s += g->x[r * C + c];
    s = s / n;
    for (L r = r0; r < r1; r++) { float d = g->x[r * C + c] - s; q = sfma(d, d, q); }
    mean[c] = s; m2[c] = q;
  }
}

static void k_bn_apply(const void *v, L t) {
  const hv_bn_args *g = v;
  L C = g->c;
  const float *mean = g->stats, *rstd = mean + C;
  float *scale = hv_scratch(2, C);
  for (L c = 0; c < C; c++) scale[c] = rstd[c] * g->gain[c];
  for (L r = t * HV_ROWS; r < HV_MIN(g->n, (t + 1) * HV_ROWS); r++) {
    const float *x = g->x + r * C, *res = g->res ? g->res + r * C : NULL;
    float *y = g->y + r * C;
    L c = 0;
    for (; c + VL <= C; c += VL) {
      vf u = vfma(ld(x + c) - ld(mean + c), ld(scale + c), ld(g->shift + c));
      if (res) u = u + ld(res + c);
      st(y + c, g->relu ? vmax(u, (vf){0}) : u);
    }
    for (; c < C; c++) {
      float u = sfma(x[c] - mean[c], scale[c], g->shift[c]);
      if (res) u = u + res[c];
      y[c] = g->relu ? (u > 0 ? u : 0) : u;
    }
  }
}

static void k_bn_sums(const void *v, L t) {
  const hv_bn_args *g = v;
  L C = g->c, r0 = t * HV_ROWS, r1 = HV_MIN(g->n, r0 + HV_ROWS), c = 0;
  const float *mean = g->stats, *rstd = mean + C;
  float *sum = g->part + t * 2 * C, *dot = sum + C;
  for (; c + VL <= C; c += VL) {
    vf s = {0}, q = {0}, m = ld(mean + c), k = ld(rstd + c);
    for (L r = r0; r < r1; r++) {
      vf d = ld(g->dy + r * C + c);
      if (g->relu) { d = sel(ld(g->y + r * C + c) > (vf){0}, d, (vf){0}); st(g->dy + r * C + c, d); }
      s += d;
      q = vfma(d, (ld(g->x + r * C + c) - m) * k, q);
    }
    st(sum + c, s); st(dot + c, q);
  }
  for (; c < C; c++) {
    float s = 0, q = 0;
    for (L r = r0; r < r1; r++) {
      float *d = g->dy + r * C + c;
      if (g->relu && !(g->y[r * C + c] > 0)) *d = 0;
      s += *d;
      q = sfma(*d, (g->x[r * C + c] - mean[c]) * rstd[c], q);
    }
    sum[c] = s; dot[c] = q;
  }
}

static void k_bn_input(const void *v, L t) {
  const hv_bn_args *g = v;
  L C = g->c;
  const float *mean = g->stats, *rstd = mean + C, *a = g->work, *b = a + C;
  float *scale = hv_scratch(2, C);
  for (L c = 0; c < C; c++) scale[c] = rstd[c] * g->gain[c];
  for (L r = t * HV_ROWS; r < HV_MIN(g->n, (t + 1) * HV_ROWS); r++) {
    const float *x = g->x + r * C, *dy = g->dy + r * C;
    float *dx = g->dx + r * C;
    L c = 0;
    for (; c + VL <= C; c += VL) {
      vf h = (ld(x + c) - ld(mean + c)) * ld(rstd + c);
      st(dx + c, vfma(h, -ld(b + c), ld(dy + c) - ld(a + c)) * ld(scale + c));
    }
    for (; c < C; c++) dx[c] = sfma((x[c] - mean[c]) * rstd[c], -b[c], dy[c] - a[c]) * scale[c];
  }
}
